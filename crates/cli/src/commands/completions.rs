//! `proctor completions`.

use clap::CommandFactory;

use crate::{
    args::{Args, CompletionsArgs},
    error::{CliError, Exit},
    host, ui,
};

pub fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    let name = if host::is_thunderdome() {
        "thunderdome"
    } else {
        "proctor"
    };
    clap_complete::generate(args.shell, &mut Args::command(), name, &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
