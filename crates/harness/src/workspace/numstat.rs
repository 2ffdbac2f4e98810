//! Parses `git diff --numstat -z`, also in front of a patch.

use std::io::{self, BufRead, BufReader};

use camino::Utf8Path;
use fs_err::File;

use super::FileChange;

/// Splits the output of `git diff --numstat -z --patch` in the file `both`: writes the patch to
/// `patch` and returns the files. An empty field precedes the patch.
pub(super) fn split_patch(both: &Utf8Path, patch: &Utf8Path) -> io::Result<Vec<FileChange>> {
    let mut both = BufReader::new(File::open(both)?);
    let mut numstat = Vec::new();
    loop {
        let start = numstat.len();
        both.read_until(0, &mut numstat)?;
        let field = numstat[start..].strip_suffix(b"\0").unwrap_or_default();
        if field.is_empty() {
            break;
        }
        let name = field.splitn(3, |byte| *byte == b'\t').nth(2);
        if name.is_some_and(<[u8]>::is_empty) {
            both.read_until(0, &mut numstat)?;
            both.read_until(0, &mut numstat)?;
        }
    }
    io::copy(&mut both, &mut File::create(patch)?)?;
    Ok(parse_numstat(&numstat))
}

/// Parses `git diff --numstat -z`: `added TAB removed TAB path NUL`, or for a rename `added TAB
/// removed TAB NUL old NUL new NUL`.
pub(super) fn parse_numstat(bytes: &[u8]) -> Vec<FileChange> {
    let text = String::from_utf8_lossy(bytes);
    let mut fields = text.split('\0');
    let mut files = Vec::new();
    while let Some(field) = fields.next() {
        let mut columns = field.splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) =
            (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let path = if path.is_empty() {
            fields.next();
            fields.next().unwrap_or_default()
        } else {
            path
        };
        files.push(FileChange {
            path: path.to_owned(),
            added: added.parse().ok(),
            removed: removed.parse().ok(),
        });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numstat: &str, expect: &[(&str, Option<u64>, Option<u64>)]) {
        let expect: Vec<_> = expect
            .iter()
            .map(|(path, added, removed)| FileChange {
                path: (*path).into(),
                added: *added,
                removed: *removed,
            })
            .collect();
        assert_eq!(parse_numstat(numstat.as_bytes()), expect);
    }

    #[test]
    fn patch_after_the_numbers_is_written_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let (both, patch) = (dir.join("both"), dir.join("patch"));
        for numstat in ["", "1\t0\tx\t\0", "0\t0\t\0old\0new\x001\t0\tx\0"] {
            let text = b"diff --git a/x b/x\n\0\0+\xff\n";
            fs_err::write(&both, [numstat.as_bytes(), b"\0", text].concat()).unwrap();
            let files = split_patch(&both, &patch).unwrap();
            assert_eq!(files, parse_numstat(numstat.as_bytes()));
            assert_eq!(fs_err::read(&patch).unwrap(), text, "{numstat:?}");
        }
        fs_err::write(&both, "").unwrap();
        assert_eq!(split_patch(&both, &patch).unwrap(), []);
        assert_eq!(fs_err::read(&patch).unwrap(), b"");
    }

    #[test]
    fn numstat_of_text_binary_and_renamed_files_is_parsed() {
        check("", &[]);
        check("3\t1\ta b.txt\0", &[("a b.txt", Some(3), Some(1))]);
        check("-\t-\tlogo.png\0", &[("logo.png", None, None)]);
        check(
            "0\t0\t\0old.rs\0new.rs\x001\t0\tx\0",
            &[("new.rs", Some(0), Some(0)), ("x", Some(1), Some(0))],
        );
    }
}
