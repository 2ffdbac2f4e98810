//! `proctor task`.

use proctor_harness::{
    check::{TaskCheck, check as prove},
    config,
    store::TrialStatus,
};
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{CheckArgs, Progress},
    error::{CliError, Exit},
    host, ui,
};

pub fn check(args: &CheckArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let progress = ui::Progress::new(Progress::Quiet, &host);
    let cancel = CancellationToken::new();
    let mut checks = Vec::new();
    for path in &args.paths {
        for file in super::files(&host.cwd.join(path), path)? {
            let case = config::load(&file, &host.env, &settings);
            let case = case.map_err(|error| CliError::Config(vec![error]))?.into();
            let checking = prove(&case, &host, args.times, &cancel);
            let checked = until_done(checking, &progress, &cancel)?;
            if cancel.is_cancelled() {
                return Ok(Exit::Interrupted);
            }
            if !args.json {
                ui::print(&shown(&checked))?;
            }
            checks.push(checked);
        }
    }
    if args.json {
        ui::print_json(&checks)?;
    }
    let is_proved = checks.iter().all(|check| check.problems.is_empty());
    Ok(if is_proved {
        Exit::Success
    } else {
        Exit::Failed
    })
}

fn shown(check: &TaskCheck) -> String {
    let count =
        |list: &[TrialStatus], wanted| list.iter().filter(|status| **status == wanted).count();
    let verdict = if check.problems.is_empty() {
        "ok"
    } else {
        "broken"
    };
    let mut text = format!(
        "{}: {verdict} (the null agent failed {} of {}, the reference solution passed {} of {})\n",
        check.task,
        count(&check.floor, TrialStatus::Failed),
        check.floor.len(),
        count(&check.ceiling, TrialStatus::Passed),
        check.ceiling.len(),
    );
    for problem in &check.problems {
        text.extend(["  ", problem, "\n"]);
    }
    text
}
