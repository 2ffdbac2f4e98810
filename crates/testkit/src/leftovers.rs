//! Waits for what should come and finds what should be gone.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::context::TestContext;
use crate::platform;

/// How long a process that was killed may take to vanish.
const VANISH: Duration = Duration::from_secs(1);

/// Waits until `f` is true and panics with `what` if that takes longer than `deadline`.
#[track_caller]
pub fn wait_until(deadline: Duration, what: &str, mut f: impl FnMut() -> bool) {
    let began = Instant::now();
    while !f() {
        assert!(
            began.elapsed() < deadline,
            "not within {deadline:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The living processes, this one excepted, that have `needle` in their command line or program, and
/// where the system tells it in their environment or working directory, as "pid: command line".
pub fn processes_with(needle: &str) -> Vec<String> {
    platform::processes_with(needle)
}

impl TestContext {
    /// Panics with a list if a process is alive that has to do with this context or this marker.
    #[track_caller]
    pub fn assert_nothing_left(&self, marker: &str) {
        let needles = [self.root().as_str(), marker];
        let needles = needles.iter().filter(|needle| !needle.is_empty());
        let left = || -> Vec<String> { needles.clone().flat_map(|n| processes_with(n)).collect() };
        let began = Instant::now();
        let mut alive = left();
        while !alive.is_empty() && began.elapsed() < VANISH {
            std::thread::sleep(Duration::from_millis(20));
            alive = left();
        }
        assert!(alive.is_empty(), "left behind:\n{}", alive.join("\n"));
    }
}

/// Every file below a folder that holds this text.
pub fn files_with(folder: &Utf8Path, text: &str) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().expect("a folder").flatten() {
        let path = entry.path().to_owned();
        let kind = entry.file_type().expect("a file that stays");
        if kind.is_dir() {
            found.extend(files_with(&path, text));
        } else if kind.is_file() {
            let bytes = fs_err::read(&path).expect("a file that stays");
            if bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
            {
                found.push(path);
            }
        }
    }
    found
}
