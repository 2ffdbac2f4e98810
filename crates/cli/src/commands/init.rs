//! `proctor init`.

use camino::Utf8Path;
use fs_err as fs;
use proctor_mine::SUITE_FILE;

use super::install_agents::install_agents;
use crate::{
    args::{InitArgs, InstallAgentsArgs},
    error::{CliError, Exit},
    personality::{Personality, Style},
    ui,
};

const TEMPLATE: &str = include_str!("../../templates/testcase.yaml");

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    let usual = args.mine.map_or("testcase.yaml", |_| SUITE_FILE);
    let path = args.path.clone().unwrap_or_else(|| usual.into());
    if path.exists() && !args.force {
        return Err(CliError::Exists { path });
    }
    let folder = path.parent();
    if let Some(folder) = folder.filter(|folder| !folder.as_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    if let Some(count) = args.mine {
        return super::mine::init(&path, count);
    }
    let personality = Personality::current();
    fs::write(&path, personality.in_own_name(TEMPLATE))?;
    if personality.style == Style::YouBencha {
        install_agents(&InstallAgentsArgs { force: args.force })?;
    }
    let program = personality.program;
    ui::print(&format!(
        "wrote {path}; run it with: {program} run -c {path}\n"
    ))?;
    if Utf8Path::new(".git").exists() && personality.style != Style::YouBencha {
        ui::print(&format!(
            "to make tasks from the history of this repository: {program} init --mine 5\n"
        ))?;
    }
    Ok(Exit::Success)
}
