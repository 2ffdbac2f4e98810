//! `proctor trial`: runs one trial, for cluster jobs.

use camino::Utf8Path;
use proctor_harness::{
    cluster::spec::{SpecError, TrialSpec},
    run::attempt::Attempted,
};
use proctor_record::record::{
    Event,
    lease::{Holder, JobName, ObservedLease},
};
use proctor_sandbox::host::Host;
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{ProgressStyle, TrialArgs},
    error::{CliError, Exit},
    host, ui,
};

pub fn trial(args: &TrialArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let mut spec = TrialSpec::read(&host.cwd.join(&args.spec))?;
    if let Some(out) = &args.out {
        let out = host.cwd.join(out);
        spec.claims = format!("{out}.claim");
        spec.folder = out.into_string();
    }
    let who = Holder::here(&host.name, job(&host));
    let cancel = CancellationToken::new();
    let progress = ui::Progress::new(ProgressStyle::Quiet, &host);
    let listener = |event: &Event| progress.show(event);
    let running = spec.run(&who, &host, &listener, &cancel);
    let attempted = until_done::<_, SpecError>(running, &progress, &cancel)?;
    let (text, exit) = describe(&attempted, Utf8Path::new(&spec.folder));
    ui::print(&format!("{text}\n"))?;
    Ok(exit)
}

/// The result of the attempt as text and exit code.
fn describe(attempted: &Attempted, folder: &Utf8Path) -> (String, Exit) {
    match attempted {
        Attempted::Ran(record) => {
            let (outcome, status) = (record.outcome.as_str(), record.status.as_str());
            let text = format!("{outcome}, {status}: {folder}");
            (text, record.status.into())
        }
        Attempted::Recorded(record) => {
            let text = format!("nothing to do: {folder} already has a record");
            (text, record.status.into())
        }
        Attempted::Held(seen) => (
            format!(
                "nothing done: {} holds the lease of this trial",
                holder(seen)
            ),
            Exit::Claimed,
        ),
        Attempted::Lost => (
            "stopped: the lease expired and another process took over this trial".to_owned(),
            Exit::Claimed,
        ),
    }
}

fn holder(seen: &ObservedLease) -> String {
    match &seen.holder {
        None => "another process".to_owned(),
        Some(holder) => {
            let job = holder.job.as_ref();
            let job = job.map_or_else(String::new, |job| format!(", job {}", job.name));
            format!("process {} on {}{job}", holder.pid, holder.host)
        }
    }
}

/// The Slurm job of this process, if any.
fn job(host: &Host) -> Option<JobName> {
    let get = |name: &str| host.env.get(name);
    let array = get("SLURM_ARRAY_JOB_ID").zip(get("SLURM_ARRAY_TASK_ID"));
    let name = match (array, get("SLURM_JOB_ID")) {
        (Some((job, index)), _) => format!("slurm {job}_{index}"),
        (None, Some(job)) => format!("slurm {job}"),
        (None, None) => return None,
    };
    let restarts = get("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok());
    Some(JobName {
        name,
        restarts: restarts.unwrap_or(0),
    })
}
