//! `proctor baseline`.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_report::{self as report, Baseline, Basis, Overwrite, Report};
use proctor_sandbox::host::Host;

use crate::{
    args::{BaselineArgs, BaselineCommand},
    error::{CliError, Exit},
    host, ui,
};

pub fn baseline(args: &BaselineArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let folder = host.cwd.join(&args.baselines);
    match &args.command {
        BaselineCommand::Save { name, runs, force } => {
            let overwrite = if *force {
                Overwrite::Replace
            } else {
                Overwrite::Never
            };
            save(name, runs, &BaselineDir { folder, host }, overwrite)
        }
        BaselineCommand::List => list(&folder),
        BaselineCommand::Show { name } => {
            let baseline = Baseline::load(&Baseline::path(&folder, name)?)?;
            let figures = Report::new(&baseline.trials, Basis::default());
            ui::print(&report::text(&figures))?;
            Ok(Exit::Success)
        }
    }
}

struct BaselineDir {
    folder: Utf8PathBuf,
    host: Host,
}

fn save(
    name: &str,
    runs: &[Utf8PathBuf],
    dir: &BaselineDir,
    overwrite: Overwrite,
) -> Result<Exit, CliError> {
    // Check the name before reading the runs.
    Baseline::path(&dir.folder, name)?;
    let runs = super::named_runs(runs, None, &dir.host)?;
    let baseline = Baseline::new(name, report::read(&runs)?);
    for note in report::run_notes(&baseline.trials.runs) {
        ui::note(&note);
    }
    let trials = baseline.trials.trials.len();
    let path = baseline.save(&dir.folder, overwrite)?;
    let shown = path.strip_prefix(&dir.host.cwd).unwrap_or(&path);
    ui::print(&format!("{shown}: {}\n", ui::counted(trials, "trial")))?;
    Ok(Exit::Success)
}

fn list(folder: &Utf8Path) -> Result<Exit, CliError> {
    let found = Baseline::list(folder);
    if found.is_empty() {
        ui::print("no baselines found\n")?;
        return Ok(Exit::Success);
    }
    let mut rows = vec![["baseline", "agents", "trials"].map(str::to_owned)];
    for baseline in found {
        let agents: Vec<&str> = baseline
            .trials
            .agents
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        let trials = baseline.trials.trials.len().to_string();
        rows.push([baseline.name, agents.join(", "), trials]);
    }
    ui::print(&ui::table(&rows, 2))?;
    Ok(Exit::Success)
}
