//! Saved baselines: the rows of a run's trials in one small file, to be kept in a repo and compared
//! with long after the run.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::is_name_char,
    record::{StoreError, write_json},
};
use serde::{Deserialize, Serialize};

use super::trials::Trials;

/// The version of the file.
const BASELINE_VERSION: &str = "1.0.0";

/// A saved baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The version of this format.
    pub version: String,
    /// Its name.
    pub name: String,
    /// The version of Proctor that saved it.
    pub proctor_version: String,
    /// Its content.
    #[serde(flatten)]
    pub trials: Trials,
}

/// Why a baseline is not usable.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The name is not a valid file name.
    #[error("invalid baseline name `{name}`")]
    Name {
        /// The name.
        name: String,
    },
    /// No trial could be read.
    #[error("no trial to save in the baseline {name}")]
    Empty {
        /// Its name.
        name: String,
    },
    /// The name exists.
    #[error("the baseline {name} already exists")]
    Exists {
        /// Its name.
        name: String,
    },
    /// The file does not exist, or is not a baseline.
    #[error("invalid baseline {path}")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether an existing baseline is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It is kept.
    Never,
    /// It is replaced.
    Replace,
}

impl Baseline {
    /// A baseline of these trials.
    pub fn new(name: &str, trials: Trials) -> Baseline {
        Baseline {
            version: BASELINE_VERSION.to_owned(),
            name: name.to_owned(),
            proctor_version: proctor_record::VERSION.to_owned(),
            trials,
        }
    }

    /// The path of a baseline in a directory.
    pub fn path(folder: &Utf8Path, name: &str) -> Result<Utf8PathBuf, BaselineError> {
        let is_name = !name.is_empty() && !name.starts_with('.') && name.len() <= 100;
        if is_name && name.chars().all(is_name_char) {
            Ok(folder.join(format!("{name}.json")))
        } else {
            let name = name.to_owned();
            Err(BaselineError::Name { name })
        }
    }

    /// Writes it to a directory of baselines.
    pub fn save(
        &self,
        folder: &Utf8Path,
        overwrite: Overwrite,
    ) -> Result<Utf8PathBuf, BaselineError> {
        let path = Baseline::path(folder, &self.name)?;
        // Every later comparison with it would fail.
        if self.trials.trials.is_empty() {
            let name = self.name.clone();
            return Err(BaselineError::Empty { name });
        }
        if overwrite == Overwrite::Never && path.exists() {
            let name = self.name.clone();
            return Err(BaselineError::Exists { name });
        }
        let failed = |source| StoreError {
            path: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        write_json(&path, self)?;
        Ok(path)
    }

    /// Reads a baseline.
    pub fn load(path: &Utf8Path) -> Result<Baseline, BaselineError> {
        let failed = |source| BaselineError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let bytes = fs::read(path).map_err(failed)?;
        let baseline: Baseline =
            serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
        if baseline.is_sound() {
            Ok(baseline)
        } else {
            let reason = "a trial refers to an unknown agent, task or run";
            Err(failed(std::io::Error::other(reason)))
        }
    }

    /// All readable baselines of a directory, by name.
    pub fn list(folder: &Utf8Path) -> Vec<Baseline> {
        let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
        let mut found: Vec<Baseline> = entries
            .filter(|entry| entry.path().extension() == Some("json"))
            .filter_map(|entry| Baseline::load(entry.path()).ok())
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Whether all references of trials are valid, and trials are in order.
    fn is_sound(&self) -> bool {
        let rows = &self.trials;
        let known = rows.trials.iter().all(|trial| {
            trial.agent < rows.agents.len()
                && trial.task < rows.tasks.len()
                && trial.run < rows.runs.len()
                && trial.score.is_none_or(f64::is_finite)
        });
        let key = |trial: &super::Trial| (trial.agent, trial.task, trial.run, trial.trial);
        known && rows.trials.is_sorted_by_key(key)
    }
}
