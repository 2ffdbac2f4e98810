//! The environment block of this process, which other processes of the same user read in `/proc`.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Overwrites the values of all variables but those that `keeps` names. They are empty from then on.
pub(crate) fn hide_environment(keeps: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    let mut block = fs::read("/proc/self/environ")?;
    if !blank(&mut block, keeps) {
        return Ok(());
    }
    let start = start_of_block().ok_or(io::ErrorKind::Unsupported)?;
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&block, start)
}

/// Blanks the values; says whether there was one.
fn blank(block: &mut [u8], keeps: impl Fn(&[u8]) -> bool) -> bool {
    let mut has_blanked = false;
    for variable in block.split_mut(|byte| *byte == 0) {
        let Some(sign) = memchr::memchr(b'=', variable) else {
            continue;
        };
        let (name, value) = variable.split_at_mut(sign);
        if !keeps(name) {
            has_blanked = true;
            value[1..].fill(0);
        }
    }
    has_blanked
}

/// Field 50 of the line about this process.
fn start_of_block() -> Option<u64> {
    let line = fs::read("/proc/self/stat").ok()?;
    let close = memchr::memrchr(b')', &line)?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let start = rest.split_ascii_whitespace().nth(47)?.parse().ok()?;
    (start > 0).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_are_not_kept_are_blanked() {
        let mut block = *b"PATH=/bin\0KEY=s=cret\0odd\0E=\0";
        assert!(blank(&mut block, |name| name == b"PATH"));
        assert_eq!(&block, b"PATH=/bin\0KEY=\0\0\0\0\0\0\0odd\0E=\0");
        assert!(!blank(&mut b"PATH=/bin\0".to_vec(), |name| name == b"PATH"));
    }

    #[test]
    fn the_block_begins_where_the_kernel_says() {
        let start = start_of_block().unwrap();
        let block = fs::read("/proc/self/environ").unwrap();
        let memory = fs::File::open("/proc/self/mem").unwrap();
        let mut read = vec![0; block.len()];
        memory.read_exact_at(&mut read, start).unwrap();
        assert_eq!(read, block);
    }
}
