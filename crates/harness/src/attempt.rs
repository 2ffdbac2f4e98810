//! One attempt at a trial, the one way to run it, here or on a node: it is claimed, so that no
//! other process runs it too; an earlier attempt makes room; the record is written where the
//! claim was made, and nowhere else.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use tokio_util::sync::CancellationToken;

use crate::{
    claim::{BEAT, Claim, Claims, Ended, Evidence, Holder, STALE, Seen, Standing, Taken},
    outcome::Outcome,
    plan::TrialPlan,
    store::{self, Meta, Record, StoreError, TrialStatus},
    tree,
    trial::{self, Cause, TrialError},
};

/// What an attempt came to.
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

/// Who tries, and how long.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// The claims to the trial.
    pub claims: &'a Claims,
    /// Who asks for it.
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
        let now = || self.claims.server_time();
        let taken = self.claims.take(self.who, Evidence::Silence(STALE), &now);
        let claim = match taken.map_err(failed)? {
            Taken::Ours(claim) => claim,
            Taken::Held(seen) => return Ok(Attempted::Held(Box::new(seen))),
        };
        // Whoever had it before us may have finished it just now.
        if let Some(record) = settled(context.folder) {
            claim.end(Ended::Recorded).map_err(failed)?;
            return Ok(Attempted::Recorded(Box::new(record)));
        }
        set_aside(context.folder)?;
        match self.run_claimed(plan, context, &claim).await {
            Ok(Some(record)) => {
                Meta::of(&record).write(context.folder)?;
                let ended = match record.status {
                    TrialStatus::Interrupted => Ended::Interrupted,
                    _ => Ended::Recorded,
                };
                claim.end(ended).map_err(failed)?;
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
                // What was wrong is told; that the claim could not be ended only makes others wait.
                let _ = claim.end(ended);
                Err(error)
            }
        }
    }

    /// Run the trial while its claim holds; `None` when it was lost.
    async fn run_claimed(
        &self,
        plan: &TrialPlan,
        context: &trial::Context<'_>,
        claim: &Claim,
    ) -> Result<Option<Record>, TrialError> {
        let cancel = context.cancel.child_token();
        let cause = Cause::of(claim);
        let context = trial::Context {
            cancel: &cancel,
            cause: &cause,
            ..*context
        };
        // On the heap: most trials of a large suite wait, and should take little while they do.
        let running = Box::pin(trial::run(plan, &context));
        let watching = self.watch(claim, &cancel, &cause);
        tokio::pin!(running, watching);
        let record = tokio::select! {
            record = &mut running => record?,
            () = &mut watching => running.await?,
        };
        let is_lost = matches!(claim.standing(), Ok(Standing::Lost));
        Ok((!is_lost).then_some(record))
    }

    /// Show that we live; end the trial when it is another's, or when its time is over.
    async fn watch(&self, claim: &Claim, cancel: &CancellationToken, cause: &Cause<'_>) {
        loop {
            let left = self.until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                cause.set(Outcome::Timeout);
                break;
            }
            tokio::time::sleep(left.min(BEAT)).await;
            // A file system that is away for a while is no reason to give up.
            if matches!(claim.beat(), Ok(Standing::Lost)) {
                break;
            }
        }
        cancel.cancel();
        // The trial has a little to do yet.
        loop {
            tokio::time::sleep(BEAT).await;
            let _ = claim.beat();
        }
    }
}

/// The same as [`finished`], as the file server has it: shared file systems believe for a while what they saw of
/// folders.
pub(crate) fn finished_afresh(folder: &Utf8Path) -> Option<Record> {
    let artifacts = folder.join("artifacts");
    artifacts.ancestors().take(3).for_each(store::ask_again);
    finished(folder)
}

/// The record of a trial that came to its end and was not interrupted.
pub(crate) fn finished(folder: &Utf8Path) -> Option<Record> {
    let bytes = fs::read(folder.join("artifacts").join(store::RECORD_FILE)).ok()?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    // An agent may have completed while its judging was interrupted.
    let is_finished = record.completed_at.is_some() && record.status != TrialStatus::Interrupted;
    is_finished.then_some(record)
}

/// The record of a trial that is not to be run again.
pub(crate) fn settled(folder: &Utf8Path) -> Option<Record> {
    finished(folder).filter(|record| !record.outcome.is_infrastructure())
}

/// The name of an earlier attempt, from 1.
fn aside(folder: &Utf8Path, attempt: usize) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{folder}.attempt-{attempt}"))
}

/// The folders of all attempts at a trial, with its own.
pub(crate) fn folders(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let earlier = (1..).map(|attempt| aside(folder, attempt));
    let earlier = earlier.take_while(|path| path.exists());
    earlier.chain([folder.to_owned()]).collect()
}

/// Every attempt is kept: an earlier one makes room under a name of its own.
pub(crate) fn set_aside(folder: &Utf8Path) -> Result<(), StoreError> {
    if !folder.exists() {
        return Ok(());
    }
    let aside = aside(folder, folders(folder).len());
    tree::rename(folder, &aside).map_err(|source| StoreError {
        path: aside.clone(),
        source,
    })?;
    remove_private(&aside);
    Ok(())
}

/// Remove what was there only while a trial ran: whoever ran it cannot any more, or finds it elsewhere.
fn remove_private(folder: &Utf8Path) {
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().starts_with(trial::PRIVATE)) {
        // It takes room, and harms nobody.
        let _ = tree::remove(entry.path());
    }
}
