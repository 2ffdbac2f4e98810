//! `proctor task lock`: the lock file of a suite.

use camino::Utf8PathBuf;
use proctor_harness::{
    config::SuiteFile,
    plan::{DatasetLock, lock_suite},
};
use proctor_record::error_chain;

use super::inputs::finished;
use crate::{
    args::LockArgs,
    error::{CliError, Exit},
    host, ui,
};

pub fn lock(args: &LockArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let suite = args.suite.clone().or_else(|| super::default_suite(&host));
    let suite: Utf8PathBuf = suite.ok_or(CliError::NothingToRun)?;
    let one = |error| CliError::Config(vec![error]);
    let file = SuiteFile::read(&suite).map_err(one)?;
    // An unreadable lock is replaced.
    let earlier = DatasetLock::beside(&suite).ok().flatten();
    let lock = finished(lock_suite(file, &host, &settings), &host)?;
    for pin in &lock.datasets {
        ui::print(&format!("{} {}: {}\n", pin.git, pin.revision, pin.commit))?;
    }
    let changes = lock.changes_since(earlier.as_ref());
    for change in &changes {
        ui::print(&format!("{change}\n"))?;
    }
    lock.write().map_err(|error| {
        let message = format!("cannot write {}: {}", lock.path, error_chain::chain(&error));
        CliError::input(message, "check the permissions of its directory")
    })?;
    ui::print(&format!(
        "{}: {}, {}\n",
        lock.path,
        ui::counted(lock.tasks.len(), "task"),
        ui::counted(changes.len(), "change"),
    ))?;
    Ok(Exit::Success)
}
