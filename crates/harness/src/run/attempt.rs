//! One attempt at a trial, the one way to run it, here or on a node: it is claimed, so that no
//! other process runs it too; an earlier attempt makes room; the record is written where the
//! lease was made, and nowhere else.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use tokio_util::sync::CancellationToken;

use crate::{
    fs::dir::{self, revalidate},
    outcome::Outcome,
    plan::TrialPlan,
    record::{
        self, Meta, PLAN_FILE, Record, RecordState, StoreError, TrialStatus,
        lease::{BEAT, Ended, Evidence, Holder, Lease, Leases, STALE, Seen, Standing, Taken},
    },
    trial::{self, Cause, TrialError},
};

/// The result of an attempt.
#[derive(Debug)]
pub enum Attempted {
    /// The trial was run.
    Ran(Box<Record>),
    /// There was nothing to do: it has its record.
    Recorded(Box<Record>),
    /// Another process has it.
    Held(Box<Seen>),
    /// Another process took us for dead and has it now.
    Lost,
}

/// The holder of the lease, and the timeout.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// The leases to the trial.
    pub leases: &'a Leases,
    /// The requesting process.
    pub who: &'a Holder,
    /// When the trial has to be over: its job is killed soon after.
    pub until: Option<Instant>,
}

impl Attempt<'_> {
    /// Run the trial of `plan` in the folder of `context`, unless it was or is being run.
    pub async fn run(
        &self,
        plan: &TrialPlan,
        context: &trial::Context<'_>,
    ) -> Result<Attempted, TrialError> {
        let failed = |source| StoreError {
            path: context.folder.to_owned(),
            source,
        };
        let now = || self.leases.server_time();
        let taken = self.leases.take(self.who, Evidence::Silence(STALE), &now);
        let lease = match taken.map_err(failed)? {
            Taken::Ours(lease) => lease,
            Taken::Held(seen) => return Ok(Attempted::Held(Box::new(seen))),
        };
        // The previous holder may have finished it just now.
        if let Some(record) = settled(context.folder, context.run_id) {
            lease.end(Ended::Recorded).map_err(failed)?;
            return Ok(Attempted::Recorded(Box::new(record)));
        }
        let before = RecordState::read(context.folder, Some(context.run_id));
        set_aside(context.folder)?;
        match self.run_claimed(plan, context, &lease).await {
            Ok(Some(mut record)) => {
                if let RecordState::OfAnother(other) = before {
                    record.notes.push(format!(
                        "the record in this trial's place was that of {other}; it was set aside"
                    ));
                    let path = context.folder.join("artifacts").join(record::RECORD_FILE);
                    record::write_json(&path, &record)?;
                }
                Meta::of(&record).write(context.folder)?;
                let ended = match record.status {
                    TrialStatus::Interrupted => Ended::Interrupted,
                    _ => Ended::Recorded,
                };
                lease.end(ended).map_err(failed)?;
                Ok(Attempted::Ran(Box::new(record)))
            }
            Ok(None) | Err(TrialError::Lost) => Ok(Attempted::Lost),
            Err(error) => {
                // A disk that is full or away for a while is nobody's fault: it can be tried again.
                let ended = if error.is_usage() {
                    Ended::Refused
                } else {
                    Ended::Interrupted
                };
                // The error is reported; a lease that could not be released only makes others wait.
                let _ = lease.end(ended);
                Err(error)
            }
        }
    }

    /// Run the trial while its lease holds; `None` when it was lost.
    async fn run_claimed(
        &self,
        plan: &TrialPlan,
        context: &trial::Context<'_>,
        lease: &Lease,
    ) -> Result<Option<Record>, TrialError> {
        let cancel = context.cancel.child_token();
        let cause = Cause::of(lease);
        let context = trial::Context {
            cancel: &cancel,
            cause: &cause,
            ..*context
        };
        // On the heap: most trials of a large suite wait, and should take little while they do.
        let running = Box::pin(trial::run(plan, &context));
        let watching = self.watch(lease, &cancel, &cause);
        tokio::pin!(running, watching);
        let record = tokio::select! {
            record = &mut running => record?,
            () = &mut watching => running.await?,
        };
        let is_lost = matches!(lease.standing(), Ok(Standing::Lost));
        Ok((!is_lost).then_some(record))
    }

    /// Show that we live; end the trial when it is another's, or when its time is over.
    async fn watch(&self, lease: &Lease, cancel: &CancellationToken, cause: &Cause<'_>) {
        loop {
            let left = self.until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                cause.set(Outcome::Timeout);
                break;
            }
            tokio::time::sleep(left.min(BEAT)).await;
            // A temporarily unavailable file system is not a reason to give up.
            if matches!(lease.beat(), Ok(Standing::Lost)) {
                break;
            }
        }
        cancel.cancel();
        // The trial has a little to do yet.
        loop {
            tokio::time::sleep(BEAT).await;
            let _ = lease.beat();
        }
    }
}

/// The same as [`finished`], as the file server has it: shared file systems believe for a while what they saw of
/// folders.
pub(crate) fn finished_afresh(folder: &Utf8Path, run_id: &str) -> Option<Record> {
    let artifacts = folder.join("artifacts");
    artifacts.ancestors().take(3).for_each(revalidate);
    finished(folder, Some(run_id))
}

/// The record of a trial that ended and was not interrupted.
pub(crate) fn finished(folder: &Utf8Path, run_id: Option<&str>) -> Option<Record> {
    let record = RecordState::read(folder, run_id).own()?;
    // An agent may have completed while its judging was interrupted.
    let is_finished = record.completed_at.is_some() && record.status != TrialStatus::Interrupted;
    is_finished.then_some(record)
}

/// The record of a trial that is not to be run again.
pub(crate) fn settled(folder: &Utf8Path, run_id: &str) -> Option<Record> {
    finished(folder, Some(run_id)).filter(|record| !record.outcome.is_infrastructure())
}

/// The name of an earlier attempt, from 1. A run that is a single trial keeps earlier attempts in its own folder.
fn aside(folder: &Utf8Path, attempt: usize) -> Utf8PathBuf {
    if is_whole_run(folder) {
        return folder.join(format!("attempt-{attempt}"));
    }
    Utf8PathBuf::from(format!("{folder}.attempt-{attempt}"))
}

/// Whether the folder of a trial is the folder of its run.
fn is_whole_run(folder: &Utf8Path) -> bool {
    folder.join(PLAN_FILE).is_file()
}

/// The folders of all attempts at a trial, with its own.
pub(crate) fn folders(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let earlier = (1..).map(|attempt| aside(folder, attempt));
    let earlier = earlier.take_while(|path| path.exists());
    earlier.chain([folder.to_owned()]).collect()
}

/// The parts of a trial's folder, where it is the folder of the run as well.
const TRIAL_PARTS: [&str; 3] = ["artifacts", "src-modified", record::META_FILE];

/// Keep an earlier attempt under a name of its own.
pub(crate) fn set_aside(folder: &Utf8Path) -> Result<(), StoreError> {
    if !folder.join("artifacts").exists() && (is_whole_run(folder) || !folder.exists()) {
        return Ok(());
    }
    let aside = aside(folder, folders(folder).len());
    let moved = if is_whole_run(folder) {
        remove_private(folder);
        move_parts(folder, &aside)
    } else {
        dir::rename(folder, &aside)
    };
    moved.map_err(|source| StoreError {
        path: aside.clone(),
        source,
    })?;
    remove_private(&aside);
    Ok(())
}

fn move_parts(folder: &Utf8Path, aside: &Utf8Path) -> std::io::Result<()> {
    fs_err::create_dir(aside)?;
    for part in TRIAL_PARTS {
        if folder.join(part).exists() {
            dir::rename(folder.join(part), aside.join(part))?;
        }
    }
    Ok(())
}

/// Removes files that exist only during a trial: the process that ran it cannot do so any more, or
/// finds them elsewhere.
fn remove_private(folder: &Utf8Path) {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().starts_with(trial::PRIVATE)) {
        // It takes space, but is harmless.
        let _ = dir::remove(entry.path());
    }
}
