//! `proctor completions`.

use clap::CommandFactory;

use crate::{
    args::{Args, CompletionsArgs},
    error::{CliError, Exit},
    ui,
};

pub fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "proctor", &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
