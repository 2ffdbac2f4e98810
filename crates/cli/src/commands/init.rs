//! `proctor init`.

use fs_err as fs;

use super::install_agents::install_agents;
use crate::{
    args::{InitArgs, InstallAgentsArgs},
    error::{CliError, Exit},
    personality::{Personality, Style},
    ui,
};

const TEMPLATE: &str = include_str!("../../templates/testcase.yaml");

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    if args.path.exists() && !args.force {
        return Err(CliError::Exists {
            path: args.path.clone(),
        });
    }
    if let Some(folder) = args
        .path
        .parent()
        .filter(|folder| !folder.as_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let personality = Personality::current();
    fs::write(&args.path, personality.in_own_name(TEMPLATE))?;
    if personality.style == Style::YouBencha {
        install_agents(&InstallAgentsArgs { force: args.force })?;
    }
    ui::print(&format!(
        "wrote {path}; run it with: {program} run -c {path}\n",
        path = args.path,
        program = personality.program
    ))?;
    Ok(Exit::Success)
}
