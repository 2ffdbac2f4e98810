//! One version of Claude Code that the environment names. `scripts/test matrix` runs these tests for each version of its
//! list; they are not part of CI.

use super::transports::reports_all_processes;

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
    reports_all_processes(&version(), "print");
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_in_a_terminal() {
    reports_all_processes(&version(), "pty");
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_with_the_transport_that_suits_it() {
    reports_all_processes(&version(), "auto");
}
