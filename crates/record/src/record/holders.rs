//! The processes that hold leases on trials of a run on a cluster.

use std::time::SystemTime;

use camino::Utf8Path;

use super::{
    lease::{Leases, STALE},
    run_folder,
};

/// The directory of a run's cluster files.
pub const CLUSTER_DIR: &str = "cluster";

/// Whether jobs of a run without a coordinator are active: their leases are fresh.
pub fn has_living(run: &Utf8Path) -> bool {
    Holders::of(run).living > 0
}

/// The number of trials whose process has not renewed its lease for long: its node may be dead or
/// unreachable.
pub fn silent(run: &Utf8Path) -> usize {
    run_folder(run).map_or(0, |run| Holders::of(&run).silent)
}

/// The processes that hold leases on trials of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Holders {
    living: usize,
    silent: usize,
}

impl Holders {
    fn of(run: &Utf8Path) -> Holders {
        let mut holders = Holders::default();
        let claims = run.join("claims");
        if !run.join(CLUSTER_DIR).is_dir() || !claims.is_dir() {
            return holders;
        }
        // By the file server's clock, which also set the times of the leases.
        let now = tempfile::tempfile_in(&claims).and_then(|file| file.metadata()?.modified());
        holders.count(&claims, now.unwrap_or_else(|_| SystemTime::now()));
        holders
    }

    fn count(&mut self, folder: &Utf8Path, now: SystemTime) {
        let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
        for entry in entries {
            if entry.path().is_dir() {
                self.count(entry.path(), now);
                continue;
            }
            // Each trial once, by its first lease.
            let Some(prefix) = entry.path().as_str().strip_suffix(".1") else {
                continue;
            };
            match Leases::at(prefix).last() {
                Ok(Some(seen)) if seen.ended.is_some() => {}
                Ok(Some(seen)) if seen.is_silent(STALE, now) => self.silent += 1,
                Ok(Some(_)) => self.living += 1,
                Ok(None) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::lease::{Ended, Evidence, Holder, Taken};

    #[test]
    fn holders_are_live_or_silent_until_they_release() {
        let dir = tempfile::tempdir().unwrap();
        let run = Utf8Path::from_path(dir.path()).unwrap();
        let claim = |trial: &str| {
            let claims = Leases::at(run.join("claims/agent/task").join(trial));
            let who = Holder::here("node", None);
            let now = || Ok(SystemTime::now());
            match claims.take(&who, Evidence::Engine, &now).unwrap() {
                Taken::Ours(claim) => claim,
                Taken::Held(seen) => panic!("{seen:?}"),
            }
        };
        let (living, silent, over) = (claim("trial-1"), claim("trial-2"), claim("trial-3"));
        assert_eq!(
            Holders::of(run),
            Holders::default(),
            "the run is not on a cluster"
        );
        fs_err::create_dir(run.join(CLUSTER_DIR)).unwrap();
        let long_ago = SystemTime::now() - STALE - Duration::from_secs(5);
        silent.beat_at(long_ago).unwrap();
        over.end(Ended::Recorded).unwrap();
        let expect = Holders {
            living: 1,
            silent: 1,
        };
        assert_eq!(Holders::of(run), expect);
        living.end(Ended::Interrupted).unwrap();
        // Another process has the lease now.
        claim("trial-2");
        assert_eq!(Holders::of(run).silent, 0);
    }
}
