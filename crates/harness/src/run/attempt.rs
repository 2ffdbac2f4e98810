//! One attempt at a trial, on this machine or on a node. The lease prevents other processes from
//! running it, an earlier attempt is set aside, and the record is written only to the leased
//! directory.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::dir::{self, revalidate},
    outcome::Outcome,
    record::{
        self, Meta, PLAN_FILE, Record, RecordState, StoreError, TrialStatus,
        lease::{
            BEAT, Ended, Evidence, Holder, Lease, Leases, ObservedLease, Ownership, STALE, Taken,
        },
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    plan::TrialPlan,
    trial::{self, Cause, TrialError},
};

/// The result of an attempt.
#[derive(Debug)]
pub enum Attempted {
    /// The trial was run.
    Ran(Box<Record>),
    /// It already has a record.
    Recorded(Box<Record>),
    /// Another process runs it.
    Held(Box<ObservedLease>),
    /// Another process considered this one dead and took over the trial.
    Lost,
}

/// The lease holder and the time limit of an attempt.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// The leases of the trial.
    pub leases: &'a Leases,
    /// The requesting process.
    pub who: &'a Holder,
    /// The end of the trial: its job is killed soon after.
    pub until: Option<Instant>,
}

impl Attempt<'_> {
    /// Runs the trial of `plan` in the directory of `context`, unless it has a record or another
    /// process runs it.
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
        // The previous holder may have just finished it.
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
                        "the record of {other} was found in this trial's directory and set aside"
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
                // A full or unavailable disk is an infrastructure failure, so the trial can be retried.
                let ended = if error.is_usage() {
                    Ended::Refused
                } else {
                    Ended::Interrupted
                };
                // The error is reported. A lease that is not released only makes others wait.
                let _ = lease.end(ended);
                Err(error)
            }
        }
    }

    /// Runs the trial while its lease is held; `None` if the lease was lost.
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
        // On the heap, because most trials of a large suite wait and should use little memory.
        let running = Box::pin(trial::run(plan, &context));
        let watching = self.watch(lease, &cancel, &cause);
        tokio::pin!(running, watching);
        let record = tokio::select! {
            record = &mut running => record?,
            () = &mut watching => running.await?,
        };
        let is_lost = matches!(lease.ownership(), Ok(Ownership::Lost));
        Ok((!is_lost).then_some(record))
    }

    /// Renews the lease. Ends the trial if the lease is lost or the time limit is reached.
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
            if matches!(lease.beat(), Ok(Ownership::Lost)) {
                break;
            }
        }
        cancel.cancel();
        // The trial still has to write its results.
        loop {
            tokio::time::sleep(BEAT).await;
            let _ = lease.beat();
        }
    }
}

/// The same as [`finished`], bypassing caches: shared file systems cache directories for a while.
pub(crate) fn finished_afresh(folder: &Utf8Path, run_id: &str) -> Option<Record> {
    let artifacts = folder.join("artifacts");
    artifacts.ancestors().take(3).for_each(revalidate);
    finished(folder, Some(run_id))
}

/// The record of a trial that ended and was not interrupted.
pub(crate) fn finished(folder: &Utf8Path, run_id: Option<&str>) -> Option<Record> {
    let record = RecordState::read(folder, run_id).own()?;
    is_finished(&record).then_some(record)
}

/// Whether a trial ended and was not interrupted.
pub(super) fn is_finished(record: &Record) -> bool {
    // An agent may have completed while its judging was interrupted.
    record.completed_at.is_some() && record.status != TrialStatus::Interrupted
}

/// The record of a trial that must not be run again.
pub(crate) fn settled(folder: &Utf8Path, run_id: &str) -> Option<Record> {
    finished(folder, Some(run_id)).filter(|record| !record.outcome.is_infrastructure())
}

/// The name of an earlier attempt, from 1. A run of a single trial keeps earlier attempts in its
/// own directory.
fn aside(folder: &Utf8Path, attempt: usize) -> Utf8PathBuf {
    if is_whole_run(folder) {
        return folder.join(format!("attempt-{attempt}"));
    }
    Utf8PathBuf::from(format!("{folder}.attempt-{attempt}"))
}

/// Whether the directory of a trial is the directory of its run.
fn is_whole_run(folder: &Utf8Path) -> bool {
    folder.join(PLAN_FILE).is_file()
}

/// The directories of all attempts at a trial, including its own.
pub(crate) fn folders(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let earlier = (1..).map(|attempt| aside(folder, attempt));
    let earlier = earlier.take_while(|path| path.exists());
    earlier.chain([folder.to_owned()]).collect()
}

/// The files of a trial in a directory that is also the run's.
const TRIAL_PARTS: [&str; 3] = ["artifacts", "src-modified", record::META_FILE];

/// Moves an earlier attempt to its own name.
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

/// Removes files that exist only during a trial. The process that ran it is dead, or has them at
/// another path.
fn remove_private(folder: &Utf8Path) {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().starts_with(trial::PRIVATE)) {
        // A remaining directory is harmless.
        let _ = dir::remove(entry.path());
    }
}
