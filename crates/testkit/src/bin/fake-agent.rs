//! A program that stands in for any agent CLI: it plays the script it finds (see `fake`).

use std::process::ExitCode;

fn main() -> ExitCode {
    proctor_testkit::fake::main()
}
