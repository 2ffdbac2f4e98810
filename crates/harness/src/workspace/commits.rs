//! The commit of a branch throughout a run: the one at its first use, even if the run is resumed
//! later or its trials run on other machines.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::Checkout;

/// The file in a run's folder.
const FILE: &str = "commits.ndjson";

/// A repo and a revision, as tasks write them.
pub(super) type Wanted = (String, Option<String>);

pub(super) fn wanted(checkout: &Checkout) -> Wanted {
    let revision = checkout.revision().map(str::to_owned);
    (checkout.repo.to_string(), revision)
}

/// The known commits.
#[derive(Debug, Default)]
pub(super) struct Commits {
    known: Mutex<BTreeMap<Wanted, String>>,
    /// The file for processes that resume the run.
    file: Option<Utf8PathBuf>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct CommitLine {
    repo: String,
    revision: Option<String>,
    commit: String,
}

impl Commits {
    /// Reads the commits of the run in a directory, whose lock the caller holds.
    pub(super) fn of_run(run: &Utf8Path) -> Commits {
        let file = run.join(FILE);
        let text = fs::read_to_string(&file).unwrap_or_default();
        // The last line may be truncated if Proctor was killed; it is ignored.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let known = lines.map(|line: CommitLine| ((line.repo, line.revision), line.commit));
        Commits {
            known: Mutex::new(known.collect()),
            file: Some(file),
        }
    }

    /// A list with one commit that is known from elsewhere.
    pub(super) fn with(wanted: Wanted, commit: &str) -> Commits {
        Commits {
            known: Mutex::new(BTreeMap::from([(wanted, commit.to_owned())])),
            file: None,
        }
    }

    /// The commit of a revision at its first use.
    pub(super) fn get(&self, wanted: &Wanted) -> Option<String> {
        self.lock().get(wanted).cloned()
    }

    /// Records the commit of a revision.
    pub(super) fn keep(&self, wanted: &Wanted, commit: &str) -> std::io::Result<()> {
        let mut known = self.lock();
        if known.contains_key(wanted) {
            return Ok(());
        }
        known.insert(wanted.clone(), commit.to_owned());
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = CommitLine {
            repo: wanted.0.clone(),
            revision: wanted.1.clone(),
            commit: commit.to_owned(),
        };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)?;
        file.write_all(&bytes)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Wanted, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
