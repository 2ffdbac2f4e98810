//! A lease: which process runs a trial, as a file that only one process can create. It works on
//! shared file systems, without locks and with the clock of the file server only. A silent holder
//! is replaced; every lease has a number, and a process that sees a higher one has lost the trial.

use std::{
    fs::File,
    io::{ErrorKind, Result, Write},
    time::{Duration, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::{fs::dir::revalidate, platform};

/// How often a holder shows that it lives.
pub const BEAT: Duration = Duration::from_secs(3);
/// A holder that was silent for so long is dead.
pub const STALE: Duration = Duration::from_secs(30);

/// The holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Unlike that of any other process, ever.
    pub id: String,
    /// The machine.
    pub host: String,
    /// The process on it.
    pub pid: u32,
    /// Where and when that process was made, in words that only fit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth: Option<Birth>,
    /// The job of a cluster's engine that it is, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
}

/// A job, as the engine of a cluster names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobName {
    /// Its name, such as `slurm 12_7`.
    pub name: String,
    /// How often the engine has started it again.
    pub restarts: u32,
}

impl Holder {
    /// This process.
    pub fn here(host: &str, job: Option<JobName>) -> Holder {
        Holder {
            id: uuid::Uuid::now_v7().to_string(),
            host: host.to_owned(),
            pid: std::process::id(),
            birth: Birth::of(std::process::id()),
            job,
        }
    }

    /// Whether it was a process where we are one, and is none any more.
    pub fn is_gone(&self) -> bool {
        let Some(birth) = &self.birth else {
            return false;
        };
        let is_near = Birth::of(std::process::id()).is_some_and(|own| own.space == birth.space);
        is_near && Birth::of(self.pid).as_ref() != Some(birth)
    }

    /// Whether it was a process of the machine of `other` before that was started again.
    pub fn is_of_an_earlier_boot(&self, other: &Holder) -> bool {
        let (Some(ours), Some(theirs)) = (&self.birth, &other.birth) else {
            return false;
        };
        self.host == other.host && ours.kernel() != theirs.kernel()
    }

    /// Whether an engine started us again in the place of `other`: it only does so when that one
    /// is dead to it.
    fn replaces(&self, other: &Holder) -> bool {
        let (Some(ours), Some(theirs)) = (&self.job, &other.job) else {
            return false;
        };
        ours.name == theirs.name && ours.restarts > theirs.restarts
    }
}

/// When and where a process began. Numbers of processes are used again, and there are machines of the
/// same name and containers with numbers of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Birth {
    /// The running kernel and its space of process numbers.
    pub space: String,
    /// When: in ticks since that kernel started on Linux, by the calendar elsewhere.
    pub at: u64,
}

impl Birth {
    /// The running kernel.
    fn kernel(&self) -> &str {
        self.space.split(' ').next().unwrap_or_default()
    }

    /// That of a living process; `None` when there is none.
    fn of(pid: u32) -> Option<Birth> {
        let (space, at) = platform::birth(pid)?;
        Some(Birth { space, at })
    }
}

/// The condition for a dead holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It was silent for so long.
    Silence(Duration),
    /// The process that ran it reports it.
    Engine,
}

/// The leases to one trial, of which the last one counts.
#[derive(Clone, Debug)]
pub struct Leases {
    /// Their path without the number.
    prefix: Utf8PathBuf,
}

/// A lease, seen from outside.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number, from 1.
    pub number: u32,
    /// The creator; `None` if it cannot be read.
    pub holder: Option<Holder>,
    /// Why its holder gave it up.
    pub ended: Option<Ended>,
    /// When it was last heard of, by the file server's clock.
    pub heard: SystemTime,
}

/// Why a lease was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The trial has its record.
    Recorded,
    /// The trial was interrupted.
    Interrupted,
    /// Its input is bad.
    Refused,
}

/// The result of requesting a lease.
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(Lease),
    /// Another has it.
    Held(Seen),
}

/// A lease of ours.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    number: u32,
    file: File,
}

/// Whether a lease still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Ours,
    /// Another took us for dead.
    Lost,
}

impl Leases {
    /// Those whose files start with `prefix`.
    pub fn at(prefix: impl Into<Utf8PathBuf>) -> Leases {
        Leases {
            prefix: prefix.into(),
        }
    }

    /// Their path without the number.
    pub fn prefix(&self) -> &Utf8Path {
        &self.prefix
    }

    fn path(&self, number: u32) -> Utf8PathBuf {
        Utf8PathBuf::from(format!("{}.{number}", self.prefix))
    }

    /// The current lease; `None` if there never was one.
    pub fn last(&self) -> Result<Option<Seen>> {
        revalidate(self.folder());
        let mut last = None;
        for number in 1.. {
            match self.seen(number) {
                Ok(seen) => last = Some(seen),
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(last)
    }

    fn seen(&self, number: u32) -> Result<Seen> {
        // Opened each time: that is when shared file systems look at what the server has.
        let file = File::open(self.path(number))?;
        let heard = file.metadata()?.modified()?;
        let text = std::io::read_to_string(file)?;
        let mut lines = text.lines();
        Ok(Seen {
            number,
            holder: lines
                .next()
                .and_then(|line| serde_json::from_str(line).ok()),
            ended: lines
                .next()
                .and_then(|line| serde_json::from_str(line).ok()),
            heard,
        })
    }

    /// Takes the trial, unless a live process holds it. `now` is called only if needed.
    pub fn take(
        &self,
        who: &Holder,
        evidence: Evidence,
        now: &dyn Fn() -> Result<SystemTime>,
    ) -> Result<Taken> {
        loop {
            let number = match self.last()? {
                None => 1,
                Some(seen) if seen.is_free(who, evidence, now)? => seen.number + 1,
                Some(seen) => return Ok(Taken::Held(seen)),
            };
            match self.create(number, who) {
                Ok(file) => {
                    return Ok(Taken::Ours(Lease {
                        leases: self.clone(),
                        number,
                        file,
                    }));
                }
                // Another was faster: look again at who.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a lease that names its holder from its first instant: a process that is killed
    /// meanwhile leaves no lease without a holder.
    fn create(&self, number: u32, who: &Holder) -> Result<File> {
        std::fs::create_dir_all(self.folder())?;
        let mut file = NamedTempFile::new_in(self.folder())?;
        let mut line = serde_json::to_vec(who)?;
        line.push(b'\n');
        file.write_all(&line)?;
        let made = file.persist_noclobber(self.path(number));
        made.map_err(|error| error.error)
    }

    fn folder(&self) -> &Utf8Path {
        self.prefix.parent().unwrap_or(Utf8Path::new("."))
    }

    /// The current time of the file server: clocks of nodes may differ.
    pub fn server_time(&self) -> Result<SystemTime> {
        tempfile::tempfile_in(self.folder())?.metadata()?.modified()
    }
}

impl Seen {
    fn is_free(
        &self,
        who: &Holder,
        evidence: Evidence,
        now: &dyn Fn() -> Result<SystemTime>,
    ) -> Result<bool> {
        let holder = self.holder.as_ref();
        // The requesting process has released it: its earlier work no longer counts.
        let is_over = |held: &Holder| held.id == who.id || who.replaces(held) || held.is_gone();
        let is_dead = || holder.is_some_and(is_over);
        match evidence {
            Evidence::Engine => Ok(true),
            Evidence::Silence(_) if self.ended.is_some() || is_dead() => Ok(true),
            Evidence::Silence(limit) => Ok(self.is_silent(limit, now()?)),
        }
    }

    /// Whether nothing was heard of it for so long.
    pub fn is_silent(&self, limit: Duration, now: SystemTime) -> bool {
        now.duration_since(self.heard)
            .is_ok_and(|silence| silence > limit)
    }
}

impl Lease {
    /// Show that we live, and see whether we still have the trial.
    pub fn beat(&self) -> Result<Standing> {
        platform::touch(&self.file)?;
        self.standing()
    }

    /// The same at a time that is given, for simulations.
    pub fn beat_at(&self, at: SystemTime) -> Result<Standing> {
        self.file.set_modified(at)?;
        self.standing()
    }

    /// Whether we still have the trial.
    pub fn standing(&self) -> Result<Standing> {
        revalidate(self.leases.folder());
        match File::open(self.leases.path(self.number + 1)) {
            Ok(_) => Ok(Standing::Lost),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Standing::Ours),
            Err(error) => Err(error),
        }
    }

    /// Give the trial up.
    pub fn end(mut self, ended: Ended) -> Result<()> {
        let mut line = serde_json::to_vec(&ended)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn leases() -> (tempfile::TempDir, Leases) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().join("a/t/trial-1")).unwrap();
        (dir, Leases::at(path))
    }

    fn holder(job: Option<(&str, u32)>) -> Holder {
        let job = job.map(|(name, restarts)| JobName {
            name: name.to_owned(),
            restarts,
        });
        Holder::here("node", job)
    }

    fn take(leases: &Leases, who: &Holder, later: Duration) -> Taken {
        let now = || Ok(leases.server_time()? + later);
        leases.take(who, Evidence::Silence(LIMIT), &now).unwrap()
    }

    #[track_caller]
    fn ours(taken: Taken) -> Lease {
        match taken {
            Taken::Ours(lease) => lease,
            Taken::Held(seen) => panic!("held: {seen:?}"),
        }
    }

    #[track_caller]
    fn held(taken: Taken) -> Seen {
        match taken {
            Taken::Held(seen) => seen,
            Taken::Ours(lease) => panic!("ours: {lease:?}"),
        }
    }

    #[test]
    fn a_process_that_is_gone_from_this_machine_holds_nothing() {
        let (_dir, leases) = leases();
        let living = holder(None);
        let dead = Holder {
            pid: u32::MAX - 1,
            ..living.clone()
        };
        let elsewhere = Holder {
            birth: Some(Birth {
                space: "another kernel".to_owned(),
                at: 1,
            }),
            ..dead.clone()
        };
        for (first, is_free) in [(&living, false), (&elsewhere, false), (&dead, true)] {
            let leases = Leases::at(format!("{}-{is_free}-{}", leases.prefix(), first.pid));
            take(&leases, first, Duration::ZERO);
            let next = take(&leases, &holder(None), Duration::ZERO);
            assert_eq!(matches!(next, Taken::Ours(_)), is_free, "{first:?}");
        }
    }

    #[test]
    fn of_many_that_start_at_once_one_wins() {
        let (_dir, leases) = leases();
        let wins = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        matches!(take(&leases, &holder(None), Duration::ZERO), Taken::Ours(_))
                    })
                })
                .collect();
            let won = asking.into_iter().map(|asked| asked.join().unwrap());
            won.filter(|won| *won).count()
        });
        assert_eq!(wins, 1);
    }

    #[test]
    fn a_silent_holder_is_taken_over_once_and_sees_it() {
        let (_dir, leases) = leases();
        let first = holder(None);
        let lease = ours(take(&leases, &first, Duration::ZERO));
        assert_eq!(lease.beat().unwrap(), Standing::Ours);
        let seen = held(take(&leases, &holder(None), LIMIT / 2));
        assert_eq!(seen.holder, Some(first));
        let second = ours(take(&leases, &holder(None), LIMIT * 2));
        held(take(&leases, &holder(None), Duration::ZERO));
        assert_eq!(lease.beat().unwrap(), Standing::Lost);
        assert_eq!(second.beat().unwrap(), Standing::Ours);
    }

    #[test]
    fn what_was_given_up_is_free_at_once() {
        let (_dir, leases) = leases();
        let lease = ours(take(&leases, &holder(None), Duration::ZERO));
        lease.end(Ended::Interrupted).unwrap();
        let last = leases.last().unwrap().unwrap();
        assert_eq!((last.number, last.ended), (1, Some(Ended::Interrupted)));
        let who = holder(None);
        drop(ours(take(&leases, &who, Duration::ZERO)));
        held(take(&leases, &holder(None), Duration::ZERO));
        ours(take(&leases, &who, Duration::ZERO));
    }

    #[test]
    fn a_job_that_its_engine_starts_again_does_not_wait_for_itself() {
        let (_dir, leases) = leases();
        ours(take(&leases, &holder(Some(("12_7", 0))), Duration::ZERO));
        held(take(&leases, &holder(Some(("12_8", 1))), Duration::ZERO));
        held(take(&leases, &holder(Some(("12_7", 0))), Duration::ZERO));
        ours(take(&leases, &holder(Some(("12_7", 1))), Duration::ZERO));
    }
}
