//! Removes files in a container without any program of its image: an agent may have replaced those.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The argument that makes an executable remove the files and folders that the other arguments name.
pub const REMOVE: &str = "__remove";

/// The argument that makes an executable wait for as many milliseconds as the next argument says.
pub const PAUSE: &str = "__pause";

/// Waits.
pub(crate) fn pause(millis: Option<OsString>) -> ExitCode {
    let millis = millis.and_then(|it| it.to_str()?.parse().ok());
    std::thread::sleep(Duration::from_millis(millis.unwrap_or(0)));
    ExitCode::SUCCESS
}

/// Removes all of them; says on stderr which of them could not be removed.
pub(crate) fn remove_all(paths: impl Iterator<Item = OsString>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in paths {
        if let Err(error) = remove(Path::new(&path)) {
            #[expect(clippy::print_stderr, reason = "the one who started this reads it")]
            {
                eprintln!("cannot remove {}: {error}", path.display());
            }
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Removes a file, a link or a folder with its content. No link is followed: a link or file in the place of a folder on
/// the way is removed itself.
fn remove(path: &Path) -> io::Result<()> {
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    for folder in folders.into_iter().filter(|it| !it.as_os_str().is_empty()) {
        match fs::symlink_metadata(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(about) if about.is_dir() => {}
            Ok(_) => return fs::remove_file(folder),
        }
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_removed_and_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["outside/verifier", "logs/verifier/deep"] {
            fs::create_dir_all(path(folder)).unwrap();
            fs::write(path(folder).join("reward.txt"), "1").unwrap();
        }
        symlink(path("outside"), path("linked")).unwrap();
        symlink(path("outside"), path("logs/verifier/deep/link")).unwrap();
        symlink("loop", path("loop")).unwrap();
        fs::write(path("file"), "").unwrap();
        for name in [
            "logs/verifier",
            "linked/verifier",
            "loop/verifier",
            "file/verifier",
            "missing/verifier",
            "logs/verifier",
        ] {
            remove(&path(name)).unwrap();
            assert!(path(name).symlink_metadata().is_err(), "{name}");
        }
        for name in ["linked", "loop", "file"] {
            assert!(path(name).symlink_metadata().is_err(), "{name}");
        }
        assert!(path("logs").is_dir());
        assert!(path("outside/verifier/reward.txt").is_file());
    }
}
