//! Which commit a branch means throughout a run: the one that it meant first, also when the run is
//! resumed later or its trials are run by other machines.

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::task::Checkout;

/// The file in a run's folder.
const FILE: &str = "commits.ndjson";

/// Which commit of which repo, as tasks name it.
pub(super) type Wanted = (String, Option<String>);

pub(super) fn wanted(checkout: &Checkout) -> Wanted {
    let revision = checkout.revision().map(str::to_owned);
    (checkout.repo.to_string(), revision)
}

/// The commits that are known so far.
#[derive(Debug, Default)]
pub(super) struct Commits {
    known: Mutex<BTreeMap<Wanted, String>>,
    /// Where it is kept for those who resume the run.
    file: Option<Utf8PathBuf>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    repo: String,
    revision: Option<String>,
    commit: String,
}

impl Commits {
    /// Those of the run in a folder, whose lock the caller holds.
    pub(super) fn of_run(run: &Utf8Path) -> Commits {
        let file = run.join(FILE);
        let text = fs::read_to_string(&file).unwrap_or_default();
        // A last line that was cut off when Proctor was killed does not count.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let known = lines.map(|line: Line| ((line.repo, line.revision), line.commit));
        Commits {
            known: Mutex::new(known.collect()),
            file: Some(file),
        }
    }

    /// One that is known from elsewhere.
    pub(super) fn with(wanted: Wanted, commit: &str) -> Commits {
        Commits {
            known: Mutex::new(BTreeMap::from([(wanted, commit.to_owned())])),
            file: None,
        }
    }

    /// The commit of a name when it was first looked up.
    pub(super) fn get(&self, wanted: &Wanted) -> Option<String> {
        self.lock().get(wanted).cloned()
    }

    /// Hold on to what a name means.
    pub(super) fn keep(&self, wanted: &Wanted, commit: &str) -> std::io::Result<()> {
        let mut known = self.lock();
        if known.contains_key(wanted) {
            return Ok(());
        }
        known.insert(wanted.clone(), commit.to_owned());
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = Line {
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
