//! Background processes of the agent that change the tests or the reward. One that waits until the tests run is not
//! found: it can do all that its user can do in the container.

use std::time::Duration;

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::fs::dir;
use proctor_sandbox::ContainerEnv;

use super::container::CLEARED;

/// How long background processes go on before the tests start.
const WATCHED: Duration = Duration::from_millis(300);

/// The folders of tests and rewards that change although no test runs. They were copied from `stage`.
pub(super) async fn changed(
    exec_env: &ContainerEnv,
    stage: &Utf8Path,
) -> Result<Vec<String>, String> {
    let ran = exec_env.run_background(WATCHED).await;
    ran.map_err(|error| error.to_string())?;
    let mut changed = Vec::new();
    for folder in CLEARED {
        let copy = stage.with_extension("found");
        let failed = |error: std::io::Error| format!("cannot compare {folder}: {error}");
        dir::remove(&copy).map_err(failed)?;
        fs::create_dir_all(&copy).map_err(failed)?;
        let found = exec_env.container.download(folder, copy.as_std_path());
        // A folder that cannot be read is not the one that was copied.
        let is_same = found.await.is_ok() && {
            let own = dir::hash(stage.join(folder.trim_start_matches('/')).as_std_path());
            own.map_err(failed)? == dir::hash(copy.as_std_path()).map_err(failed)?
        };
        dir::remove(&copy).map_err(failed)?;
        if !is_same {
            changed.push(format!("{folder} (by a background process)"));
        }
    }
    Ok(changed)
}
