//! Real test runners for the tests of judging.

use std::io::Write;

use camino::Utf8PathBuf;

/// Names the folder of test runners; nothing is downloaded by a test.
const RUNNERS: &str = "PROCTOR_TEST_RUNNERS";

/// The folder of a runner: `python` has pytest, `node` has jest, `vitest` itself. When it is not there the test says
/// so and gets none; under `CI` it fails.
pub fn test_runner(name: &str) -> Option<String> {
    let all = std::env::var(RUNNERS).ok().map(Utf8PathBuf::from);
    let folder = all.map(|all| all.join(name)).filter(|it| it.is_dir());
    if folder.is_none() {
        skip(&format!("no {name} in {RUNNERS}"));
    }
    folder.map(Utf8PathBuf::into_string)
}

/// Where a program is that a runner is part of, such as `go`. When it is not there the test says so and
/// gets none; under `CI` it fails.
pub fn program(name: &str) -> Option<Utf8PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut all = path
        .split(':')
        .map(|folder| Utf8PathBuf::from(folder).join(name));
    let found = all.find(|program| program.is_file());
    if found.is_none() {
        skip(&format!("no {name} on the path"));
    }
    found
}

/// Not a reason to fail on a developer's machine: the line is only for those who look.
fn skip(reason: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "{reason}: `scripts/test all` installs it"
    );
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}
