//! `proctor completions`.

use crate::{
    args::CompletionsArgs,
    error::{CliError, Exit},
    personality::Personality,
    ui,
};

pub fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    let personality = Personality::current();
    let mut command = personality.command();
    clap_complete::generate(args.shell, &mut command, personality.program, &mut script);
    ui::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
