//! The supervisor that the tests of this crate start.

use std::process::ExitCode;

fn main() -> ExitCode {
    proctor_process::supervise_if_asked().unwrap_or(ExitCode::FAILURE)
}
