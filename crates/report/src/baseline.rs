//! Saved baselines: the rows of a run's trials in one small file, to be kept in a repo and
//! compared with long after the run is gone.

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

/// A baseline cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Its name would be no file's.
    #[error("`{name}` is no name for a baseline")]
    Name {
        /// As given.
        name: String,
    },
    /// There is one of this name.
    #[error("the baseline {name} already exists")]
    Exists {
        /// Its name.
        name: String,
    },
    /// The file is not there, or is none of ours.
    #[error("{path} is no baseline")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether a baseline of this name is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It stays as it is.
    Never,
    /// The new one takes its place.
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

    /// Its file in a folder of baselines.
    pub fn path(folder: &Utf8Path, name: &str) -> Result<Utf8PathBuf, BaselineError> {
        let is_name = !name.is_empty() && !name.starts_with('.') && name.len() <= 100;
        if is_name && name.chars().all(is_name_char) {
            Ok(folder.join(format!("{name}.json")))
        } else {
            let name = name.to_owned();
            Err(BaselineError::Name { name })
        }
    }

    /// Write it into a folder of baselines.
    pub fn save(
        &self,
        folder: &Utf8Path,
        overwrite: Overwrite,
    ) -> Result<Utf8PathBuf, BaselineError> {
        let path = Baseline::path(folder, &self.name)?;
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

    /// Read one.
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
            let reason = "a trial names an agent, task or run that is not in it";
            Err(failed(std::io::Error::other(reason)))
        }
    }

    /// All baselines of a folder that can be read, by name.
    pub fn list(folder: &Utf8Path) -> Vec<Baseline> {
        let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
        let mut found: Vec<Baseline> = entries
            .filter(|entry| entry.path().extension() == Some("json"))
            .filter_map(|entry| Baseline::load(entry.path()).ok())
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Whether what trials name is there, and they lie in the order of rows.
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
