//! `proctor init`.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_agents::ADAPTERS;
use proctor_harness::config::schema_for_config;
use proctor_mine::SUITE_FILE;
use proctor_record::record;

use super::{install_agents::install_agents, report::pretty};
use crate::{
    args::{InitArgs, InstallAgentsArgs},
    error::{CliError, Exit},
    host,
    personality::{Personality, Style},
    ui,
};

const TEMPLATE: &str = include_str!("../../templates/testcase.yaml");
const WORKFLOW: &str = include_str!("../../templates/workflow.yml");
const WORKFLOW_FILE: &str = ".github/workflows/proctor.yml";
/// The schema for editors, in the project's directory of runs.
const SCHEMA_FILE: &str = "schema.json";

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let project = super::project_dir(&host.cwd);
    let usual = args.mine.map_or("testcase.yaml", |_| SUITE_FILE);
    let path = args.path.clone().unwrap_or_else(|| usual.into());
    let workflow = args.ci.then(|| project.join(WORKFLOW_FILE));
    let mut written = [Some(&path), workflow.as_ref()].into_iter().flatten();
    if let Some(path) = written.find(|path| path.exists() && !args.force) {
        return Err(CliError::Exists { path: path.clone() });
    }
    for path in [Some(&path), workflow.as_ref()].into_iter().flatten() {
        let folder = path.parent();
        if let Some(folder) = folder.filter(|folder| !folder.as_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
    }
    if let Some(path) = &workflow {
        fs::write(path, WORKFLOW)?;
        ui::print(&format!(
            "wrote {WORKFLOW_FILE}; replace OWNER by the owner of the action's repository\n"
        ))?;
    }
    if let Some(count) = args.mine {
        return super::mine::init(&path, count);
    }
    write_template(project, &host.cwd, &path, args.force)
}

fn write_template(
    project: &Utf8Path,
    cwd: &Utf8Path,
    path: &Utf8Path,
    force: bool,
) -> Result<Exit, CliError> {
    let personality = Personality::current();
    let program = personality.program;
    let template = personality.in_own_name(TEMPLATE);
    if personality.style == Style::YouBencha {
        fs::write(path, template)?;
        install_agents(&InstallAgentsArgs { force })?;
    } else {
        let schema = write_schema(project, &cwd.join(path))?;
        let line = format!("# yaml-language-server: $schema={schema}\n");
        fs::write(path, line + &template)?;
    }
    ui::print(&format!(
        "wrote {path}; run it with: {program} run -c {path}\n"
    ))?;
    if project.join(".git").exists() && personality.style != Style::YouBencha {
        ui::print(&format!(
            "to make tasks from the history of this repository: {program} init --mine 5\n"
        ))?;
    }
    Ok(Exit::Success)
}

/// Writes the schema of this version for editors. Returns its path as seen from the file.
fn write_schema(project: &Utf8Path, file: &Utf8Path) -> Result<Utf8PathBuf, CliError> {
    let folder = project.join(record::PROJECT_DIR);
    fs::create_dir_all(&folder)?;
    let path = folder.join(SCHEMA_FILE);
    fs::write(&path, pretty(&schema_for_config(ADAPTERS))?)?;
    let below = file.strip_prefix(project).ok().and_then(Utf8Path::parent);
    Ok(below.map_or(path, |below| {
        let up = "../".repeat(below.components().count());
        format!("{up}{}/{SCHEMA_FILE}", record::PROJECT_DIR).into()
    }))
}
