//! `proctor status`.

use proctor_harness::{
    cluster::{self, QueueCount},
    run::{RunStatus, status as read_status},
};
use proctor_record::record;
use serde::Serialize;

use crate::{
    args::StatusArgs,
    error::{CliError, Exit},
    host, ui,
};

/// The status of a run, with its jobs on a cluster.
#[derive(Serialize)]
struct RunStanding {
    #[serde(flatten)]
    status: RunStatus,
    /// Absent if the run is not on a cluster, or the cluster does not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<QueueCount>,
    /// Trials on a cluster whose process has not renewed its lease for a long time.
    silent: usize,
}

pub fn status(args: &StatusArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let run = super::one_run(args.run.as_deref(), &host)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let queue = runtime.block_on(cluster::queued(&run, &host));
    let status = read_status(&run)?;
    let silent = record::silent(&run);
    if args.json {
        ui::print_json(&RunStanding {
            status,
            queue,
            silent,
        })?;
    } else {
        ui::suite_report(&status.summary)?;
        let state = match (status.is_running, status.summary.not_run) {
            (true, _) => "running",
            (false, _) if queue.is_some_and(|queue| queue != QueueCount::default()) => {
                "jobs keep running without a coordinator; continue with `proctor run … --resume`"
            }
            (false, 0) => "finished",
            (false, _) => "stopped early; continue with `proctor run … --resume`",
        };
        if let Some(queue) = queue {
            let (running, pending) = (queue.running, queue.pending);
            ui::print(&format!(
                "on the cluster: {running} running, {pending} pending\n"
            ))?;
        }
        for trial in &status.unreadable {
            ui::print(&format!("cannot read the record of {trial}\n"))?;
        }
        if silent > 0 {
            ui::print(&format!(
                "trials without a heartbeat: {silent}; their nodes may be down, and their trials run again\n"
            ))?;
        }
        ui::print(&format!("{state}\n"))?;
    }
    Ok(Exit::Success)
}
