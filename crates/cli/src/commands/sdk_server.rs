//! `proctor sdk-server`: a standalone server for Claude Code's `--sdk-url`.

use std::time::Duration;

use proctor_harness::{run::RunError, trial::sdk_server::SdkServer};
use proctor_record::{outcome::Outcome, record};
use tokio_util::sync::CancellationToken;

use crate::{
    args::SdkServerArgs,
    error::{CliError, Exit},
    platform::StopSignals,
    ui,
};

pub fn sdk_server(args: &SdkServerArgs) -> Result<Exit, CliError> {
    let task = fs_err::read_to_string(&args.task_file)?;
    // Fail before tokens are spent, not after.
    let folder = args.metrics_file.parent();
    if let Some(folder) = folder.filter(|folder| !folder.as_str().is_empty()) {
        fs_err::metadata(folder)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(args, task))
}

async fn serve(args: &SdkServerArgs, task: String) -> Result<Exit, CliError> {
    let mut server = SdkServer::listen(args.port, Duration::from_secs(args.silence)).await?;
    ui::print(&format!("{}\n", server.port()))?;
    let cancel = CancellationToken::new();
    let mut signals = StopSignals::listen()?;
    let mut show = |line: &str| {
        if args.debug {
            ui::note(line);
        }
    };
    let ended = {
        let serving = server.serve(task, &mut show, &cancel);
        tokio::pin!(serving);
        tokio::select! {
            done = &mut serving => done,
            () = signals.next() => {
                cancel.cancel();
                serving.await
            }
        }
    };
    // Before the CLI is released: the script that started both may end this process then.
    if let Some(sidecar) = &ended.sidecar {
        record::write_json(&args.metrics_file, sidecar).map_err(RunError::Store)?;
    }
    for error in &ended.errors {
        ui::note(error);
    }
    server.close().await;
    Ok(match ended.outcome {
        Outcome::Completed => Exit::Success,
        Outcome::Interrupted => Exit::Interrupted,
        _ => Exit::Failed,
    })
}
