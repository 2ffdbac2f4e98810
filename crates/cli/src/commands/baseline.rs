//! `proctor baseline`.

use std::fmt::Write;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    host::Host,
    report::{self, Baseline, Basis, Overwrite, Report},
};

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
            save(name, runs, &Place { folder, host }, overwrite)
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

struct Place {
    folder: Utf8PathBuf,
    host: Host,
}

fn save(
    name: &str,
    runs: &[Utf8PathBuf],
    place: &Place,
    overwrite: Overwrite,
) -> Result<Exit, CliError> {
    // Check the name before reading the runs.
    Baseline::path(&place.folder, name)?;
    let runs = super::named_runs(runs, None, &place.host)?;
    let baseline = Baseline::new(name, report::read(&runs)?);
    let trials = baseline.trials.trials.len();
    let path = baseline.save(&place.folder, overwrite)?;
    let shown = path.strip_prefix(&place.host.cwd).unwrap_or(&path);
    ui::print(&format!("{shown}: {}\n", ui::plural(trials, "trial")))?;
    Ok(Exit::Success)
}

fn list(folder: &Utf8Path) -> Result<Exit, CliError> {
    let found = Baseline::list(folder);
    if found.is_empty() {
        ui::print("no baselines found\n")?;
        return Ok(Exit::Success);
    }
    let mut text = format!("{:<28} {:>6}  agents\n", "baseline", "trials");
    for baseline in found {
        let agents: Vec<&str> = baseline
            .trials
            .agents
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        let trials = baseline.trials.trials.len();
        let _ = writeln!(
            text,
            "{:<28} {trials:>6}  {}",
            baseline.name,
            agents.join(", ")
        );
    }
    ui::print(&text)?;
    Ok(Exit::Success)
}
