//! `proctor install-agents`: the definition of the built-in judge as files, to be changed.

use camino::Utf8Path;
use fs_err as fs;
use proctor_agents::AGENTIC_JUDGE;

use crate::{
    args::InstallAgentsArgs,
    error::{CliError, Exit},
    personality::AGENT_FILES,
    ui,
};

/// Writes the files. Existing files are kept unless `--force` is given.
pub fn install_agents(args: &InstallAgentsArgs) -> Result<Exit, CliError> {
    for path in AGENT_FILES {
        let path = Utf8Path::new(path);
        if path.exists() && !args.force {
            ui::print(&format!("kept {path}; use --force to overwrite it\n"))?;
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, AGENTIC_JUDGE)?;
        ui::print(&format!("wrote {path}\n"))?;
    }
    Ok(Exit::Success)
}
