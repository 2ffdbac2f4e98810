//! Waits for services: until a check succeeds, or until they end.

use std::time::{Duration, Instant};

use bollard::exec::{CreateExecOptions, StartExecOptions};
use proctor_process::Readiness;
use tokio::time::sleep;

use super::{Engine, EngineError};

/// How often a service is checked at least.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often the end of a check is looked for.
const TICK: Duration = Duration::from_millis(30);
/// How long a service may take to show that it ended at once.
const SETTLE: Duration = Duration::from_millis(100);

/// Why a service is not ready.
type Unready = Result<(), String>;

/// Waits until the check succeeds. The first check is at once, and failures count as long as the
/// engine's own checks would take.
pub(super) async fn wait(
    engine: &Engine,
    id: &str,
    check: &Readiness,
) -> Result<Unready, EngineError> {
    let longest = check.start_period + check.interval * check.retries.max(1) + check.timeout;
    let until = Instant::now() + longest;
    loop {
        if let Some(code) = engine.exit_code(id).await? {
            return Ok(Err(format!("it exited with code {code}")));
        }
        let failed = match run(engine, id, check).await {
            Ok(Some(0)) => return Ok(Ok(())),
            Ok(Some(code)) => format!("its health check ended with code {code}"),
            Ok(None) => format!("its health check took longer than {:?}", check.timeout),
            // It may have ended meanwhile, which is seen in the next round.
            Err(EngineError::Refused { message, .. }) => message,
            Err(error) => return Err(error),
        };
        if Instant::now() >= until {
            let seconds = longest.as_secs();
            return Ok(Err(format!("not healthy within {seconds} s: {failed}")));
        }
        sleep(check.interval.min(INTERVAL)).await;
    }
}

/// Waits until a service has ended with code 0.
pub(super) async fn wait_for_end(engine: &Engine, id: &str) -> Result<Unready, EngineError> {
    loop {
        match engine.exit_code(id).await? {
            Some(0) => return Ok(Ok(())),
            Some(code) => return Ok(Err(format!("it exited with code {code}"))),
            None => sleep(SETTLE).await,
        }
    }
}

/// Whether a service without a check has not failed at once.
pub(super) async fn is_started(engine: &Engine, id: &str) -> Result<Unready, EngineError> {
    sleep(SETTLE).await;
    Ok(match engine.exit_code(id).await? {
        None | Some(0) => Ok(()),
        Some(code) => Err(format!("it exited with code {code}")),
    })
}

/// The exit code of one check; `None` if it took too long.
async fn run(engine: &Engine, id: &str, check: &Readiness) -> Result<Option<i64>, EngineError> {
    let failed = |error| EngineError::of("check a service", error);
    let options = CreateExecOptions {
        cmd: Some(check.argv.clone()),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        ..CreateExecOptions::default()
    };
    let docker = engine.docker();
    let made = docker.create_exec(id, options).await.map_err(failed)?;
    let detached = StartExecOptions {
        detach: true,
        ..StartExecOptions::default()
    };
    let started = docker.start_exec(&made.id, Some(detached)).await;
    started.map_err(failed)?;
    let until = Instant::now() + check.timeout;
    loop {
        let seen = docker.inspect_exec(&made.id).await.map_err(failed)?;
        if seen.running == Some(false) {
            return Ok(Some(seen.exit_code.unwrap_or(-1)));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        sleep(TICK).await;
    }
}
