//! A lease: the process that runs a trial, as a file that only one process can create. It works on
//! shared file systems, without locks and with the clock of the file server only. A silent holder
//! is replaced; every lease has a number, and a process that finds a higher one has lost the trial.

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

/// The interval in which a holder renews its lease.
pub const BEAT: Duration = Duration::from_secs(3);
/// The time after which a silent holder is considered dead.
pub const STALE: Duration = Duration::from_secs(30);

/// The holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// A globally unique id.
    pub id: String,
    /// The machine.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// The unique start of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth: Option<Birth>,
    /// The cluster job of the process, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
}

/// A job of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobName {
    /// Its name, such as `slurm 12_7`.
    pub name: String,
    /// The number of restarts by the cluster.
    pub restarts: u32,
}

impl Holder {
    /// The holder for this process.
    pub fn here(host: &str, job: Option<JobName>) -> Holder {
        Holder {
            id: uuid::Uuid::now_v7().to_string(),
            host: host.to_owned(),
            pid: std::process::id(),
            birth: Birth::of(std::process::id()),
            job,
        }
    }

    /// Whether it was a process of this machine that no longer exists.
    pub fn is_gone(&self) -> bool {
        let Some(birth) = &self.birth else {
            return false;
        };
        let is_near = Birth::of(std::process::id()).is_some_and(|own| own.space == birth.space);
        is_near && Birth::of(self.pid).as_ref() != Some(birth)
    }

    /// Whether it was a process of the machine of `other` before a reboot.
    pub fn is_of_an_earlier_boot(&self, other: &Holder) -> bool {
        let (Some(ours), Some(theirs)) = (&self.birth, &other.birth) else {
            return false;
        };
        self.host == other.host && ours.kernel() != theirs.kernel()
    }

    /// Whether the cluster restarted us in place of `other`, which it does only if that one is
    /// dead.
    fn replaces(&self, other: &Holder) -> bool {
        let (Some(ours), Some(theirs)) = (&self.job, &other.job) else {
            return false;
        };
        ours.name == theirs.name && ours.restarts > theirs.restarts
    }
}

/// The start of a process. Pids are reused, and machines may share a name or have containers with
/// their own pids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Birth {
    /// The running kernel and its pid namespace.
    pub space: String,
    /// The start time: in ticks since boot on Linux, absolute elsewhere.
    pub at: u64,
}

impl Birth {
    /// The running kernel.
    fn kernel(&self) -> &str {
        self.space.split(' ').next().unwrap_or_default()
    }

    /// The start of a live process; `None` if there is none.
    fn of(pid: u32) -> Option<Birth> {
        let (space, at) = platform::birth(pid)?;
        Some(Birth { space, at })
    }
}

/// The evidence that a holder is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It was silent for this long.
    Silence(Duration),
    /// The cluster reports the end of its job.
    Engine,
}

/// The leases of one trial, of which the last one is valid.
#[derive(Clone, Debug)]
pub struct Leases {
    /// The path prefix, without the number.
    prefix: Utf8PathBuf,
}

/// An observed lease.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    /// Its number, from 1.
    pub number: u32,
    /// The holder; `None` if it is not readable.
    pub holder: Option<Holder>,
    /// Why its holder released it.
    pub ended: Option<Ended>,
    /// The time of the last renewal, by the file server's clock.
    pub heard: SystemTime,
}

/// Why a lease was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The trial has its record.
    Recorded,
    /// The trial was interrupted.
    Interrupted,
    /// Its input is invalid.
    Refused,
}

/// The result of requesting a lease.
#[derive(Debug)]
pub enum Taken {
    /// This process has the lease.
    Ours(Lease),
    /// Another process has it.
    Held(ObservedLease),
}

/// A lease of this process.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    number: u32,
    file: File,
}

/// Whether a lease is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It is.
    Ours,
    /// Another process has taken over.
    Lost,
}

impl Leases {
    /// The leases with this path prefix.
    pub fn at(prefix: impl Into<Utf8PathBuf>) -> Leases {
        Leases {
            prefix: prefix.into(),
        }
    }

    /// The path prefix, without the number.
    pub fn prefix(&self) -> &Utf8Path {
        &self.prefix
    }

    fn path(&self, number: u32) -> Utf8PathBuf {
        Utf8PathBuf::from(format!("{}.{number}", self.prefix))
    }

    /// The current lease; `None` if there never was one.
    pub fn last(&self) -> Result<Option<ObservedLease>> {
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

    fn seen(&self, number: u32) -> Result<ObservedLease> {
        // Opening the file makes shared file systems query the server.
        let file = File::open(self.path(number))?;
        let heard = file.metadata()?.modified()?;
        let text = std::io::read_to_string(file)?;
        let mut lines = text.lines();
        Ok(ObservedLease {
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

    /// Takes the lease, unless a live process holds it. `now` is called only if needed.
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
                // Another process was faster: check its lease.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a lease that contains its holder from the start, so that a process that is killed
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

impl ObservedLease {
    fn is_free(
        &self,
        who: &Holder,
        evidence: Evidence,
        now: &dyn Fn() -> Result<SystemTime>,
    ) -> Result<bool> {
        let holder = self.holder.as_ref();
        // The requesting process itself, its predecessor, or a dead process.
        let is_over = |held: &Holder| held.id == who.id || who.replaces(held) || held.is_gone();
        let is_dead = || holder.is_some_and(is_over);
        match evidence {
            Evidence::Engine => Ok(true),
            Evidence::Silence(_) if self.ended.is_some() || is_dead() => Ok(true),
            Evidence::Silence(limit) => Ok(self.is_silent(limit, now()?)),
        }
    }

    /// Whether it was not renewed for this long.
    pub fn is_silent(&self, limit: Duration, now: SystemTime) -> bool {
        now.duration_since(self.heard)
            .is_ok_and(|silence| silence > limit)
    }
}

impl Lease {
    /// Renews the lease. Returns whether it is still valid.
    pub fn beat(&self) -> Result<Ownership> {
        platform::touch(&self.file)?;
        self.ownership()
    }

    /// The same at a given time, for simulations.
    pub fn beat_at(&self, at: SystemTime) -> Result<Ownership> {
        self.file.set_modified(at)?;
        self.ownership()
    }

    /// Whether the lease is still valid.
    pub fn ownership(&self) -> Result<Ownership> {
        revalidate(self.leases.folder());
        match File::open(self.leases.path(self.number + 1)) {
            Ok(_) => Ok(Ownership::Lost),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Ownership::Ours),
            Err(error) => Err(error),
        }
    }

    /// Releases the lease.
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
    fn held(taken: Taken) -> ObservedLease {
        match taken {
            Taken::Held(seen) => seen,
            Taken::Ours(lease) => panic!("ours: {lease:?}"),
        }
    }

    #[test]
    fn dead_process_of_this_machine_holds_no_lease() {
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
    fn only_one_of_many_concurrent_processes_gets_the_lease() {
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
    fn silent_holder_is_replaced_once_and_notices() {
        let (_dir, leases) = leases();
        let first = holder(None);
        let lease = ours(take(&leases, &first, Duration::ZERO));
        assert_eq!(lease.beat().unwrap(), Ownership::Ours);
        let seen = held(take(&leases, &holder(None), LIMIT / 2));
        assert_eq!(seen.holder, Some(first));
        let second = ours(take(&leases, &holder(None), LIMIT * 2));
        held(take(&leases, &holder(None), Duration::ZERO));
        assert_eq!(lease.beat().unwrap(), Ownership::Lost);
        assert_eq!(second.beat().unwrap(), Ownership::Ours);
    }

    #[test]
    fn released_lease_is_free_at_once() {
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
    fn restarted_job_does_not_wait_for_its_predecessor() {
        let (_dir, leases) = leases();
        ours(take(&leases, &holder(Some(("12_7", 0))), Duration::ZERO));
        held(take(&leases, &holder(Some(("12_8", 1))), Duration::ZERO));
        held(take(&leases, &holder(Some(("12_7", 0))), Duration::ZERO));
        ours(take(&leases, &holder(Some(("12_7", 1))), Duration::ZERO));
    }
}
