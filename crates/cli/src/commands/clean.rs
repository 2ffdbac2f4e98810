//! `proctor clean`: removes runs, workspaces and leftovers, and lists them.

use camino::Utf8PathBuf;
use jiff::Timestamp;
use proctor_harness::{
    cluster::{self, QueueCount},
    run::clean::{self, CleanError, Extent, Mode, Removed},
};
use proctor_record::record::list;
use proctor_sandbox::host::Host;

use crate::{
    args::CleanArgs,
    error::{CliError, Exit},
    host, ui,
};

pub fn clean(args: &CleanArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let mode = if args.dry_run {
        Mode::DryRun
    } else {
        Mode::Remove
    };
    let extent = if args.workspaces {
        Extent::Workspaces
    } else {
        Extent::Run
    };
    let mut bytes = 0;
    let mut count = 0;
    let mut tell = |removed: &[Removed]| -> Result<(), CliError> {
        for one in removed {
            bytes += one.bytes;
            count += 1;
            ui::print(&format!(
                "{} {} ({})\n",
                word(mode),
                one.path,
                size(one.bytes)
            ))?;
        }
        Ok(())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for run in wanted(args, &host)? {
        let queue = runtime.block_on(cluster::queued(&run, &host));
        let cleaned = match queue {
            // Pending jobs leave no trace in the run's directory.
            Some(queue) if queue != QueueCount::default() => Err(CleanError::Running { run }),
            _ => clean::run(&run, extent, mode),
        };
        match cleaned {
            // An active run is an error only if the user named it.
            Err(CleanError::Running { run }) if args.runs.is_empty() => {
                ui::print(&format!("kept {run}: it is running\n"))?;
            }
            removed => tell(&removed?)?,
        }
    }
    tell(&clean::leftovers(&host.temp, mode))?;
    let end = match count {
        0 => "nothing to remove\n".to_owned(),
        _ => format!("{} in total\n", size(bytes)),
    };
    ui::print(&end)?;
    Ok(Exit::Success)
}

/// The given runs, or else all runs that are old enough.
fn wanted(args: &CleanArgs, host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let runs: Vec<Utf8PathBuf> = if args.runs.is_empty() {
        if args.older_than.is_none() && !args.workspaces {
            return Ok(Vec::new());
        }
        let places = super::places(host)?;
        places.iter().flat_map(|place| list::find(place)).collect()
    } else {
        let named = args.runs.iter().map(|run| super::find_run(run, host));
        named.collect::<Result<_, _>>()?
    };
    let now = Timestamp::now();
    let is_old = |run: &Utf8PathBuf| match args.older_than {
        None => true,
        Some(age) => list::started_at(run.file_name().unwrap_or_default())
            .is_some_and(|at| now.duration_since(at).unsigned_abs() >= age && at < now),
    };
    Ok(runs.into_iter().filter(is_old).collect())
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Remove => "removed",
        Mode::DryRun => "would remove",
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
