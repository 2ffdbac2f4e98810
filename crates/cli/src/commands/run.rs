//! `proctor run`.

use proctor_harness::{
    event::RunEvent,
    runner::{Run, Workspaces},
    store::TrialStatus,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    args::RunArgs,
    error::{CliError, Exit},
    host, ui,
};

/// Where runs go when nobody says where.
const DEFAULT_WORKSPACE_DIR: &str = ".proctor";

pub fn run(args: &RunArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let plans = super::load(&args.cases, &host, &settings)?;
    let keeps = settings.keep_workspace.unwrap_or(true) && !args.delete_workspace;
    let run = Run {
        plans: &plans,
        workspace_dir: settings
            .workspace_dir
            .clone()
            .unwrap_or_else(|| host.cwd.join(DEFAULT_WORKSPACE_DIR)),
        workspaces: if keeps {
            Workspaces::Keep
        } else {
            Workspaces::Delete
        },
        host: &host,
    };
    let progress = ui::Progress::new(args.progress, &host);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let summary = runtime.block_on(async {
        let cancel = CancellationToken::new();
        let mut signals = StopSignals::listen()?;
        let listener = |event: &RunEvent<'_>| progress.show(event);
        let running = run.run(&listener, &cancel);
        tokio::pin!(running);
        loop {
            tokio::select! {
                summary = &mut running => return Ok::<_, CliError>(summary?),
                () = signals.next() => {
                    if cancel.is_cancelled() {
                        // Asked twice: the supervisors see us go and take the agents along.
                        std::process::exit(130);
                    }
                    progress.interrupted();
                    cancel.cancel();
                }
                () = progress.tick() => {}
            }
        }
    })?;
    progress.finish();
    if args.json {
        ui::print_json(&summary)?;
    } else {
        ui::report(&progress, &summary)?;
    }
    Ok(if summary.status == TrialStatus::Interrupted {
        Exit::Interrupted
    } else {
        summary.status.into()
    })
}

/// The signals that ask us to stop.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    fn listen() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Wait for one of them.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
