//! The runs that are shown: found in their directories, and read when their page is requested. A few
//! pages are kept, so that memory does not grow with the number of runs.

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::{beneath::UntrustedDir, is_locked},
    record::{SUMMARY_FILE, list},
};
use proctor_report::{self as report, Basis, Report, Trials};

/// The pages that are kept.
const KEPT: usize = 4;
/// The age at which the page of a run that goes on is made again.
const LIVE: Duration = Duration::from_secs(2);
/// The pause after making such a page, in multiples of the time that it took: viewers use at most one percent of
/// a processor to read a run, however large it is.
const REST: u32 = 100;
/// The longest pause.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// The runs of a project.
#[derive(Debug)]
pub struct Library {
    places: Vec<Utf8PathBuf>,
    kept: Mutex<Vec<Arc<RunPages>>>,
}

/// The page of a run, and the trials that it shows by their numbers.
#[derive(Debug)]
pub(crate) struct RunPages {
    run: Utf8PathBuf,
    pub(crate) page: Bytes,
    pub(crate) trials: Trials,
    /// When the run ended; `None` while it goes on.
    summary: Option<SystemTime>,
    made: Instant,
    /// The time that making it took.
    took: Duration,
}

impl Library {
    /// The runs in these directories, or these runs themselves.
    pub fn new(places: Vec<Utf8PathBuf>) -> Library {
        Library {
            places,
            kept: Mutex::default(),
        }
    }

    /// The page with the list of runs.
    pub(crate) fn index(&self) -> io::Result<Bytes> {
        let mut runs: Vec<_> = self.places.iter().flat_map(|it| list::list(it)).collect();
        runs.sort_by(|one, other| {
            (other.started_at, &other.name).cmp(&(one.started_at, &one.name))
        });
        runs.dedup_by(|one, other| one.run_dir == other.run_dir);
        let mut page = Vec::new();
        report::index_html(&runs, &mut page)?;
        Ok(page.into())
    }

    /// The directory of a run, by its name.
    pub(crate) fn find(&self, name: &str) -> Option<Utf8PathBuf> {
        let mut runs = self.places.iter().flat_map(|it| list::find(it));
        runs.find(|run| run.file_name() == Some(name))
    }

    /// The pages of a run.
    pub(crate) fn open(&self, name: &str) -> io::Result<Arc<RunPages>> {
        let run = self.find(name).ok_or_else(|| {
            io::Error::new(ErrorKind::NotFound, format!("there is no run {name}"))
        })?;
        let summary = ended(&run);
        let mut kept = self.kept();
        let known = kept.iter().find(|it| it.run == run);
        if let Some(known) = known.filter(|it| it.is_current(summary)) {
            return Ok(Arc::clone(known));
        }
        // Other requests wait meanwhile: 100 viewers of a run read it once.
        let pages = Arc::new(RunPages::read(run, summary)?);
        kept.retain(|it| it.run != pages.run);
        kept.insert(0, Arc::clone(&pages));
        kept.truncate(KEPT);
        Ok(pages)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Arc<RunPages>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a run ended; `None` while it goes on.
fn ended(run: &Utf8Path) -> Option<SystemTime> {
    let summary = run.join(SUMMARY_FILE).metadata().ok()?;
    (!is_locked(run)).then(|| summary.modified().ok()).flatten()
}

/// How long the page of a run that goes on is shown, from the time that making it took.
fn lasting(took: Duration) -> Duration {
    (took * REST).clamp(LIVE, LONGEST_REST)
}

impl RunPages {
    fn read(run: Utf8PathBuf, summary: Option<SystemTime>) -> io::Result<RunPages> {
        let began = Instant::now();
        let trials = report::read(std::slice::from_ref(&run));
        let trials = trials.map_err(|error| io::Error::new(ErrorKind::NotFound, error))?;
        let mut page = Vec::new();
        let figures = Report::new(&trials, Basis::default());
        report::served_html(&figures, &trials, &mut page)?;
        Ok(RunPages {
            run,
            page: page.into(),
            trials,
            summary,
            made: Instant::now(),
            took: began.elapsed(),
        })
    }

    fn is_current(&self, summary: Option<SystemTime>) -> bool {
        self.summary == summary && (summary.is_some() || self.made.elapsed() < lasting(self.took))
    }

    /// The number of the trial with this directory.
    pub(crate) fn number(&self, folder: &str) -> io::Result<usize> {
        let mut trials = self.trials.all();
        let number = trials.position(|it| it.folder == folder);
        number.ok_or_else(|| {
            io::Error::new(ErrorKind::NotFound, format!("there is no trial {folder}"))
        })
    }

    /// The data of a trial.
    pub(crate) fn trial(&self, folder: &str) -> io::Result<Bytes> {
        Ok(report::trial_json(&self.trials, self.number(folder)?)?.into())
    }

    /// One entry of a trial's session, with its whole texts.
    pub(crate) fn entry(&self, folder: &str, entry: usize) -> io::Result<Bytes> {
        let json = report::trial_entry_json(&self.trials, self.number(folder)?, entry);
        Ok(json.ok_or(ErrorKind::NotFound)??.into())
    }

    /// A file of a trial's artifacts. Links lead nowhere.
    pub(crate) fn file(&self, folder: &str, path: &str) -> io::Result<File> {
        let number = self.number(folder)?;
        let artifacts = self.artifacts(number).ok_or(ErrorKind::NotFound)?;
        UntrustedDir::new(artifacts).open(Path::new(path))
    }

    pub(crate) fn artifacts(&self, number: usize) -> Option<Utf8PathBuf> {
        let trial = self.trials.get(number)?;
        let folder = self.trials.runs[trial.run].folder.join(&trial.folder);
        let artifacts = folder.join("artifacts");
        Some(if artifacts.is_dir() {
            artifacts
        } else {
            folder
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_are_made_less_often() {
        let rows = [(1, 2000), (30, 3000), (2000, 60_000)];
        for (took, pause) in rows {
            let expected = Duration::from_millis(pause);
            assert_eq!(lasting(Duration::from_millis(took)), expected);
        }
    }
}
