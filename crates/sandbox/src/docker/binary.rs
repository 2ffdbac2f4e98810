//! Proctor's own binary, if it is static and runs in any image. On other systems a Linux binary
//! next to it is used.

use std::path::{Path, PathBuf};

use super::EngineError;

/// The program header of the dynamic loader.
const PT_INTERP: u32 = 3;

/// The variable with the path of the Linux binary.
const NAMED: &str = "PROCTOR_LINUX_BINARY";

/// A binary that runs in any image of its architecture.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
}

impl Binary {
    /// The binary for an engine of this architecture.
    pub(super) fn find(
        running: &Path,
        env: &[(String, String)],
        architecture: Option<&str>,
    ) -> Result<Self, EngineError> {
        let mut named = env
            .iter()
            .filter(|(name, value)| name == NAMED && !value.is_empty());
        let path = match named.next() {
            Some((_, path)) => path.into(),
            None if cfg!(target_os = "linux") => running.to_owned(),
            None => beside(running, architecture.unwrap_or(std::env::consts::ARCH)),
        };
        if !cfg!(target_os = "linux") && !path.is_file() {
            return Err(EngineError::NoLinuxBinary {
                path: path.display().to_string(),
            });
        }
        Self::check(&path)
    }

    pub(super) fn check(path: &Path) -> Result<Self, EngineError> {
        let failed = |error: &std::io::Error| EngineError::file("read", path, error);
        let path = path.canonicalize().map_err(|error| failed(&error))?;
        // The headers are at the beginning of the file.
        let mut head = Vec::new();
        let file = fs_err::File::open(&path).map_err(|error| failed(&error))?;
        let mut file = std::io::Read::take(file, 64 * 1024);
        std::io::Read::read_to_end(&mut file, &mut head).map_err(|error| failed(&error))?;
        if is_static(&head) == Some(true) {
            Ok(Self { path })
        } else {
            Err(EngineError::NotStatic {
                path: path.display().to_string(),
            })
        }
    }
}

/// The Linux binary of release archives.
fn beside(running: &Path, architecture: &str) -> PathBuf {
    let architecture = match architecture {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    running.with_file_name(format!("proctor-linux-{architecture}"))
}

/// Whether a 64-bit little-endian ELF file needs no loader; `None` for other files.
fn is_static(head: &[u8]) -> Option<bool> {
    let number = |at: usize, size: usize| -> Option<u64> {
        let bytes = head.get(at..at + size)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        )
    };
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let start = usize::try_from(number(0x20, 8)?).ok()?;
    let size = usize::try_from(number(0x36, 2)?).ok()?;
    for index in 0..usize::try_from(number(0x38, 2)?).ok()? {
        if number(start.checked_add(index * size)?, 4)? == u64::from(PT_INTERP) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(kind: u8) -> Vec<u8> {
        let mut head = vec![0; 64 + 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[0x20] = 64;
        head[0x36] = 56;
        head[0x38] = 1;
        head[64] = kind;
        head
    }

    #[test]
    fn program_with_a_loader_is_not_static() {
        assert_eq!(is_static(&elf(3)), Some(false));
        assert_eq!(is_static(&elf(1)), Some(true));
        assert_eq!(is_static(b"#!/bin/sh\n"), None);
        assert_eq!(is_static(&elf(1)[..60]), None);
    }

    #[test]
    fn binary_for_an_engine_is_found() {
        let running = Path::new("bin/proctor.exe");
        let other = Path::new("bin/proctor-linux-aarch64");
        assert_eq!(beside(running, "arm64"), other);
        assert_eq!(beside(running, "aarch64"), other);
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("elsewhere");
        std::fs::write(&named, elf(1)).unwrap();
        let env = [(NAMED.to_owned(), named.to_str().unwrap().to_owned())];
        let found = Binary::find(running, &env, None).unwrap();
        assert_eq!(found.path, named.canonicalize().unwrap());
    }

    #[test]
    fn script_is_refused_with_build_instructions() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("proctor");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = Binary::check(&script).unwrap_err().to_string();
        assert!(error.contains("crt-static"), "{error}");
    }
}
