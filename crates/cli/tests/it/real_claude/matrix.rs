//! One version of Claude Code that the environment names. `scripts/test matrix` runs these tests for each version of its
//! list; they are not part of CI.

use super::transports::tells_everything;

/// The version under test.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are configured by the environment"
)]
fn version() -> String {
    std::env::var("PROCTOR_TEST_CLAUDE_VERSION").expect("scripts/test matrix sets the version")
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_over_pipes() {
    tells_everything(&version(), "print");
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_in_a_terminal() {
    tells_everything(&version(), "pty");
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_with_the_transport_that_suits_it() {
    tells_everything(&version(), "auto");
}
