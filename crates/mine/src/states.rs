//! Runs the tests of trees. Each run is a trial of the null agent, so that it has the clean copy, the
//! sandbox and the report readers of judging.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use camino::Utf8Path;
use proctor_harness::{
    config::{Execution, Settings, SuiteFile},
    plan::{RunPlan, TrialPlan, resolve_suite},
    run::{OnChange, OnEnd, Runner, control::Control},
    task::Task,
};
use proctor_record::record::{Record, Verdict, VerdictStatus};
use proctor_sandbox::{SandboxKind, host::Host};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    detect::TestCommand,
    error::MineError,
    sets::{TestResult, TestRun},
    trees::TreeStore,
};

/// The time limit of agents, which null agents never need.
const MINUTES: u32 = 10;

/// Runs tests of trees.
pub(crate) struct StateRunner<'a> {
    pub(crate) host: &'a Host,
    pub(crate) settings: &'a Settings,
    pub(crate) execution: &'a Execution,
    pub(crate) command: &'a TestCommand,
    pub(crate) store: &'a TreeStore,
    pub(crate) parallel: usize,
    pub(crate) cancel: &'a CancellationToken,
    /// The number of runs so far, and their total duration in milliseconds.
    pub(crate) spent: Cell<(u64, u64)>,
}

/// The runs of trees.
pub(crate) type Runs = BTreeMap<String, Vec<TestRun>>;

impl StateRunner<'_> {
    /// Runs the tests of each tree this many times.
    pub(crate) async fn run(&self, trees: &BTreeSet<&str>, times: u32) -> Result<Runs, MineError> {
        if trees.is_empty() || times == 0 {
            return Ok(Runs::new());
        }
        let tasks = self.tasks(trees).await?;
        let plans: Result<Vec<_>, _> = tasks
            .iter()
            .map(|task| TrialPlan::built_in("null", task))
            .collect();
        let plan = RunPlan::of_cases(plans?, times, None, self.execution, self.host);
        let folder = tempfile::tempdir_in(&self.host.temp)?;
        let folder = Utf8Path::from_path(folder.path()).unwrap_or(&self.host.temp);
        let runner = Runner {
            plan: &plan.expect("trees have unique names"),
            host: self.host,
            results_dir: folder,
            execution: self.execution,
            parallel: self.parallel,
            retries: 0,
            control: &Control::default(),
            on_change: OnChange::Refuse,
            on_end: &OnEnd::default(),
            run_jobs: None,
        };
        let summary = Box::pin(runner.run(&|_, _| {}, self.cancel)).await?;
        if self.cancel.is_cancelled() {
            return Err(MineError::Interrupted);
        }
        if let Some(failed) = summary.failed_starts.first() {
            return Err(MineError::Infrastructure {
                commit: failed.task.clone(),
                reason: failed.message.clone(),
            });
        }
        let mut found = Runs::new();
        for trial in &summary.trials {
            let record = Record::read(&trial.record)?;
            let run = test_run(&record, trial.record.parent().unwrap_or(folder))?;
            let (runs, millis) = self.spent.get();
            self.spent.set((runs + 1, millis + run.millis));
            found.entry(record.task.name).or_default().push(run);
        }
        Ok(found)
    }

    /// The command that prepares a copy. On this machine each lock file is installed once.
    fn install(&self) -> Option<String> {
        let install = self.command.install_cmd.as_deref()?;
        let cache = self.store.path.join("prepared");
        let is_shared = self.execution.sandbox == SandboxKind::Local;
        let prepared = is_shared.then(|| prepared_once(install, &cache)).flatten();
        Some(prepared.unwrap_or_else(|| install.to_owned()))
    }

    /// A task for each tree. Its name is the tree.
    async fn tasks(&self, trees: &BTreeSet<&str>) -> Result<Vec<Arc<Task>>, MineError> {
        let mut entries = Vec::new();
        for tree in trees {
            let mut entry = json!({
                "id": tree,
                "repo": self.store.path,
                "tag": self.store.commit(tree).await?,
                "prompt": "Do nothing.",
                "test_cmd": self.command.test_cmd,
                "time_limit_minutes": MINUTES,
            });
            if let Some(install) = self.install() {
                entry["install_cmd"] = json!(install);
            }
            entries.push(entry);
        }
        self.load(entries)
    }

    /// The tasks of suite entries.
    pub(crate) fn load(&self, entries: Vec<Value>) -> Result<Vec<Arc<Task>>, MineError> {
        let document = Map::from_iter([
            ("agents".to_owned(), json!([{"type": "null"}])),
            ("tasks".to_owned(), Value::Array(entries)),
        ]);
        let path = self.store.path.join("proctor.json");
        let file = SuiteFile::of_document(&path, document)?;
        let suite = resolve_suite(file, &self.host.env, self.settings);
        suite.map(|suite| suite.tasks).map_err(MineError::Config)
    }
}

/// The directories that installers fill, and the files that decide about their content.
const INSTALLERS: [(&str, &str, &str); 2] = [
    ("npm ", "node_modules", "package.json package-lock.json"),
    ("composer ", "vendor", "composer.json composer.lock"),
];

/// A shell command that installs the packages of a lock file once, into `cache`, and copies them. No
/// copy shares files with another one. `None` if the installer is not known.
fn prepared_once(install: &str, cache: &Utf8Path) -> Option<String> {
    let known = INSTALLERS.iter().find(|(tool, ..)| install.contains(tool));
    let (_, folder, files) = known?;
    Some(format!(
        r#"key=$(cat {files} | git hash-object --stdin) && mkdir -p '{cache}' && ready='{cache}'/$key
if [ -d "$ready" ]; then cp -a "$ready" {folder}; exit; fi
{install} || exit
if [ -d {folder} ] && mkdir "$ready.lock" 2>/dev/null; then
  cp -a {folder} "$ready.new" && mv "$ready.new" "$ready"
fi"#
    ))
}

/// The results of tests, as evaluators write them.
#[derive(Deserialize)]
struct TestsDocument {
    tests: Vec<TestEntry>,
}

#[derive(Deserialize)]
struct TestEntry {
    name: String,
    status: Option<String>,
    message: Option<String>,
}

/// The run of the tests in a trial whose files are in `artifacts`.
fn test_run(record: &Record, artifacts: &Utf8Path) -> Result<TestRun, MineError> {
    let failed = |reason: String| MineError::Infrastructure {
        commit: record.task.name.clone(),
        reason,
    };
    let Some(verdict) = record.verdicts.first() else {
        return Err(failed(record.reason().unwrap_or_default()));
    };
    let has_run = has_output(artifacts);
    if record.outcome.is_infrastructure() || verdict.status == VerdictStatus::Skipped || !has_run {
        let reason = record.reason().unwrap_or_else(|| verdict.message.clone());
        return Err(failed(reason));
    }
    Ok(TestRun {
        tests: tests(verdict, artifacts),
        millis: verdict.duration_ms,
    })
}

/// Whether the test command was started: it has an output file, even if it printed nothing.
fn has_output(artifacts: &Utf8Path) -> bool {
    let folders = artifacts.join("evaluators").read_dir_utf8();
    folders.is_ok_and(|mut folders| {
        folders.any(|it| it.is_ok_and(|folder| folder.path().join("output.log").exists()))
    })
}

fn tests(verdict: &Verdict, artifacts: &Utf8Path) -> Result<BTreeMap<String, TestResult>, String> {
    let unread = || verdict.message.clone();
    let report = verdict.artifacts.iter().find(|it| it.kind == "report");
    let report = report.ok_or_else(unread)?;
    let text = fs_err::read(artifacts.join(&report.path)).map_err(|error| error.to_string())?;
    let document: TestsDocument =
        serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let mut found: BTreeMap<String, TestResult> = BTreeMap::new();
    for test in document.tests {
        let has_passed = test.status.as_deref() == Some("passed");
        let message = test.message;
        // Of tests with the same name the worst result counts.
        let result = found.entry(test.name).or_insert_with(|| TestResult {
            has_passed,
            message: message.clone(),
        });
        if result.has_passed && !has_passed {
            *result = TestResult {
                has_passed,
                message,
            };
        }
    }
    if found.is_empty() {
        return Err(unread());
    }
    Ok(found)
}

#[cfg(all(test, unix))]
#[expect(
    clippy::disallowed_methods,
    reason = "a shell runs the line as in a trial"
)]
mod tests {
    use super::*;

    #[test]
    fn lock_file_is_installed_once_and_its_packages_are_copied() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let install = "npm() { mkdir -p node_modules && cat package-lock.json > node_modules/version && echo x >> ../installed; }; npm ci";
        let line = prepared_once(install, &root.join("cache")).unwrap();
        for (copy, lock, installations) in [("one", "1", 1), ("two", "1", 1), ("three", "2", 2)] {
            let folder = root.join(copy);
            fs_err::create_dir_all(&folder).unwrap();
            fs_err::write(folder.join("package.json"), "{}").unwrap();
            fs_err::write(folder.join("package-lock.json"), lock).unwrap();
            let status = std::process::Command::new("sh")
                .args(["-c", &line])
                .current_dir(&folder)
                .status()
                .unwrap();
            assert!(status.success());
            let installed = fs_err::read_to_string(root.join("installed")).unwrap();
            assert_eq!(installed.lines().count(), installations, "{copy}");
            let version = folder.join("node_modules/version");
            assert_eq!(fs_err::read_to_string(&version).unwrap(), lock, "{copy}");
            // A test that writes into its packages does not change those of the next copy.
            fs_err::write(version, "changed").unwrap();
        }
        assert_eq!(prepared_once("make install", root), None);
    }

    #[test]
    fn failed_installation_fails() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(scratch.path()).unwrap();
        let line = prepared_once("false npm ", &root.join("cache")).unwrap();
        let status = std::process::Command::new("sh")
            .args(["-c", &line])
            .current_dir(root)
            .status();
        assert!(!status.unwrap().success());
    }
}
