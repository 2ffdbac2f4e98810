//! Finds and reads what a run of `proctor` left in a context.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use crate::{context::TestContext, youbencha};

impl TestContext {
    /// The directories of all runs, sorted: those with a directory `artifacts` in them.
    pub fn run_dirs(&self) -> Vec<Utf8PathBuf> {
        let mut found = Vec::new();
        for name in directories(self.root()) {
            if !["bin", "repo"].contains(&name.as_str()) {
                find_run_dirs(&self.root().join(name), &mut found);
            }
        }
        found.sort();
        found
    }

    /// The directory of the run, if there was exactly one.
    #[track_caller]
    pub fn only_run_dir(&self) -> Utf8PathBuf {
        let mut dirs = self.run_dirs();
        assert_eq!(dirs.len(), 1, "run directories: {dirs:?}");
        dirs.remove(0)
    }

    /// `record.json` of the only run, wherever in its directory it lies.
    #[track_caller]
    pub fn record(&self) -> Value {
        let mut found = Vec::new();
        find_files(&self.only_run_dir(), "record.json", &mut found);
        assert_eq!(found.len(), 1, "records: {found:?}");
        read_json(&found[0])
    }

    /// `artifacts/youbencha-log.json` of the only run, which has to be valid for youBencha.
    #[track_caller]
    pub fn log(&self) -> Value {
        let log = read_json(&self.artifact("youbencha-log.json"));
        youbencha::check_log(&log);
        log
    }

    /// `artifacts/results.json` of the only run, which has to be valid for youBencha.
    #[track_caller]
    pub fn results(&self) -> Value {
        let results = read_json(&self.artifact("results.json"));
        youbencha::check_results(&results);
        results
    }

    /// The path of an artifact of the only run.
    #[track_caller]
    pub fn artifact(&self, name: &str) -> Utf8PathBuf {
        self.only_run_dir().join("artifacts").join(name)
    }
}

fn find_run_dirs(dir: &Utf8Path, found: &mut Vec<Utf8PathBuf>) {
    if dir.join("artifacts").is_dir() {
        found.push(dir.to_owned());
        return;
    }
    for name in directories(dir) {
        find_run_dirs(&dir.join(name), found);
    }
}

fn find_files(dir: &Utf8Path, name: &str, found: &mut Vec<Utf8PathBuf>) {
    found.extend(Some(dir.join(name)).filter(|file| file.is_file()));
    for inner in directories(dir) {
        find_files(&dir.join(inner), name, found);
    }
}

/// The names of the directories in a directory, links excluded.
fn directories(dir: &Utf8Path) -> Vec<String> {
    let entries = fs_err::read_dir(dir.as_std_path()).into_iter().flatten();
    let dirs = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_dir.then(|| entry.file_name().into_string().ok())?
    });
    dirs.collect()
}

#[track_caller]
fn read_json(path: &Utf8Path) -> Value {
    let text = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(error) => panic!("{error}"),
    };
    match serde_json::from_str(&text) {
        Ok(json) => json,
        Err(error) => panic!("{path}: {error}\n{text}"),
    }
}
