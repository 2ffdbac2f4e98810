//! `proctor sdk-server`: the other end of Claude Code's `--sdk-url`, on its own.

use std::time::Duration;

use proctor_harness::{
    agents::claude_code::{SdkServer, Served},
    outcome::Outcome,
    store,
    trial::TrialError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    args::SdkServerArgs,
    error::{CliError, Exit},
    platform::StopSignals,
    ui,
};

pub fn sdk_server(args: &SdkServerArgs) -> Result<Exit, CliError> {
    let task = fs_err::read_to_string(&args.task_file)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(args, task))?;
    // Written first: whatever happened, what was used was used.
    store::write_json(&args.metrics_file, &served.sidecar).map_err(TrialError::Store)?;
    for error in &served.errors {
        ui::note(error);
    }
    Ok(match served.outcome {
        Outcome::Completed => Exit::Success,
        Outcome::Interrupted => Exit::Interrupted,
        _ => Exit::Failed,
    })
}

async fn serve(args: &SdkServerArgs, task: String) -> Result<Served, CliError> {
    let server = SdkServer::listen(args.port, Duration::from_secs(args.silence)).await?;
    ui::print(&format!("{}\n", server.port()))?;
    let cancel = CancellationToken::new();
    let mut signals = StopSignals::listen()?;
    let mut show = |line: &str| {
        if args.debug {
            ui::note(line);
        }
    };
    let serving = server.serve(task, &mut show, &cancel);
    tokio::pin!(serving);
    tokio::select! {
        done = &mut serving => return Ok(done),
        () = signals.next() => cancel.cancel(),
    }
    Ok(serving.await)
}
