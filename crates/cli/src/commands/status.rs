//! `proctor status`.

use proctor_harness::suite;

use crate::{
    args::StatusArgs,
    error::{CliError, Exit},
    ui,
};

pub fn status(args: &StatusArgs) -> Result<Exit, CliError> {
    let status = suite::status(&args.run)?;
    if args.json {
        ui::print_json(&status)?;
    } else {
        ui::suite_report(&status.summary)?;
        let state = match (status.is_running, status.summary.not_run) {
            (true, _) => "it is running",
            (false, 0) => "it has come to its end",
            (false, _) => "it was ended; `proctor run SUITE --resume` runs the rest",
        };
        ui::print(&format!("{state}\n"))?;
    }
    Ok(Exit::Success)
}
