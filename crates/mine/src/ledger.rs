//! `ledger.json`: every candidate with its result, and the settings that it was made with.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::record;
use proctor_sandbox::SandboxKind;
use serde::{Deserialize, Serialize};

use crate::{
    detect::TestCommand,
    error::MineError,
    history::Unit,
    options::{MinerOptions, TaskFormat},
    prompt::PromptTier,
    reject::Reject,
    strength::Strength,
};

/// The file in the output directory.
pub const LEDGER_FILE: &str = "ledger.json";

/// The number of candidates without test results after which the test command is to blame.
const MAX_WITHOUT_REPORT: usize = 3;

/// The version of the format.
const VERSION: u32 = 1;

/// The candidates of a repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ledger {
    /// The version of this format.
    pub version: u32,
    /// The repository.
    pub repository: Utf8PathBuf,
    /// The newest commit that was examined.
    pub head: String,
    /// The commands.
    #[serde(flatten)]
    pub command: TestCommand,
    /// The sandbox of the tests.
    pub sandbox: SandboxKind,
    /// The image of the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The form of the tasks.
    #[serde(default)]
    pub format: TaskFormat,
    /// The wanted source of prompts.
    pub prompt: PromptTier,
    /// The number of runs of each state.
    pub times: u32,
    /// Commits that are not candidates.
    pub skipped: Skipped,
    /// The number of runs of the tests.
    pub test_runs: u64,
    /// The total duration of these runs, in milliseconds.
    pub test_ms: u64,
    /// The candidates, in the order of their examination.
    pub candidates: Vec<Entry>,
}

/// The numbers of commits that are not candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Commits without a parent.
    pub root: usize,
    /// Commits that change no source file.
    pub no_source: usize,
    /// Commits that change no test.
    pub no_tests: usize,
    /// Candidates that a sample of `--representative` left out.
    pub not_sampled: usize,
}

/// One candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The commit.
    pub commit: String,
    /// The time of the commit.
    pub date: String,
    /// The first line of its message.
    pub subject: String,
    /// The result.
    pub status: Status,
    /// The reason of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Reject>,
    /// The observation that led to the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The digest of the source part as a change, to find duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The number of runs of the tests.
    pub test_runs: u64,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<MinedTask>,
}

impl Entry {
    /// The entry of a candidate without details of its result.
    pub(crate) fn new(unit: &Unit, status: Status) -> Entry {
        Entry {
            commit: unit.commit.clone(),
            date: unit.date.clone(),
            subject: unit.subject().to_owned(),
            status,
            code: None,
            evidence: None,
            change: None,
            test_runs: 0,
            task: None,
        }
    }
}

/// The result of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is a task.
    Accepted,
    /// It is not suitable.
    Rejected,
    /// It could not be examined; `--resume` tries again.
    Error,
}

/// A task made from a commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MinedTask {
    /// Its name.
    pub id: String,
    /// The prompt.
    pub prompt: String,
    /// The source of the prompt.
    pub prompt_tier: PromptTier,
    /// Names that the tests expect of the solution, and that the base does not have.
    #[serde(default)]
    pub new_names: Vec<String>,
    /// Names in the commit's message that only the solution has.
    pub solution_names: Vec<String>,
    /// Traces of the commit in the base.
    pub leaks: Vec<String>,
    /// The number of source files that the solution changes.
    pub source_files: usize,
    /// The number of source lines that the solution changes.
    pub source_lines: u64,
    /// Models that were trained on data after this time may know the solution.
    pub cutoff: String,
    /// The tests that fail before the work and must pass after it.
    pub fail_to_pass: Vec<String>,
    /// The tests that pass before the work and must still pass.
    pub pass_to_pass: Vec<String>,
    /// Tests with different results in equal runs, which do not count.
    pub flaky: Vec<String>,
    /// Tests of `fail_to_pass` that do not build or load before the work.
    pub by_build: usize,
    /// Rust files with hidden unit tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inline_tests: Vec<String>,
    /// The strength of the tests.
    pub strength: Strength,
}

impl Ledger {
    /// The ledger of an output directory; `None` if there is none.
    pub fn read(out: &Utf8Path) -> Result<Option<Ledger>, MineError> {
        let path = out.join(LEDGER_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let unreadable = |reason: String| MineError::Ledger {
            path: path.clone(),
            reason,
        };
        let bytes = fs_err::read(&path).map_err(|error| unreadable(error.to_string()))?;
        let ledger: Ledger =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        if ledger.version != VERSION {
            return Err(unreadable(format!("unknown version {}", ledger.version)));
        }
        Ok(Some(ledger))
    }

    /// Writes the ledger.
    pub fn write(&self, out: &Utf8Path) -> Result<(), MineError> {
        record::write_json(&out.join(LEDGER_FILE), self)?;
        Ok(())
    }

    /// An empty ledger of a repository.
    pub(crate) fn new(
        repository: &Utf8Path,
        command: TestCommand,
        options: &MinerOptions,
    ) -> Ledger {
        Ledger {
            version: VERSION,
            repository: repository.to_owned(),
            head: String::new(),
            command,
            sandbox: options.sandbox,
            image: options.image.clone(),
            format: options.format,
            prompt: options.prompt,
            times: options.times,
            skipped: Skipped::default(),
            test_runs: 0,
            test_ms: 0,
            candidates: Vec::new(),
        }
    }

    /// Fails if an earlier ledger was made with other settings: its tasks are not comparable.
    pub(crate) fn check_same(&self, now: &Ledger, out: &Utf8Path) -> Result<(), MineError> {
        let sandbox = |ledger: &Ledger| format!("{:?} {:?}", ledger.sandbox, ledger.image);
        for (what, was, is) in [
            (
                "the repository",
                self.repository.to_string(),
                now.repository.to_string(),
            ),
            (
                "--test-cmd",
                self.command.test_cmd.clone(),
                now.command.test_cmd.clone(),
            ),
            ("--sandbox or --image", sandbox(self), sandbox(now)),
            (
                "--format",
                format!("{:?}", self.format),
                format!("{:?}", now.format),
            ),
            (
                "--prompt",
                format!("{:?}", self.prompt),
                format!("{:?}", now.prompt),
            ),
            ("--times", self.times.to_string(), now.times.to_string()),
        ] {
            if was != is {
                return Err(MineError::OtherLedger {
                    path: out.join(LEDGER_FILE),
                    what,
                    was,
                    is,
                });
            }
        }
        Ok(())
    }

    /// Whether a commit has a result.
    pub(crate) fn has(&self, commit: &str) -> bool {
        let mut entries = self.candidates.iter();
        entries.any(|entry| entry.commit == commit && entry.status != Status::Error)
    }

    /// The reason of the first candidates if the tests of none of them gave results.
    pub(crate) fn without_reports(&self) -> Option<&str> {
        let examined = self.candidates.iter().filter(|entry| entry.test_runs > 0);
        let is_silent = |entry: &&Entry| entry.code == Some(Reject::NoReport);
        let all = examined.clone().all(|entry| is_silent(&entry));
        let last = examined.clone().nth(MAX_WITHOUT_REPORT - 1);
        last.filter(|_| all)?.evidence.as_deref()
    }

    /// Adds the result of a candidate, instead of an earlier one.
    pub(crate) fn add(&mut self, entry: Entry) {
        self.candidates
            .retain(|earlier| earlier.commit != entry.commit);
        self.candidates.push(entry);
    }

    /// The commit with the same change.
    pub(crate) fn with_change(&self, change: &str) -> Option<&str> {
        let mut entries = self.candidates.iter();
        let same = entries.find(|entry| entry.change.as_deref() == Some(change));
        same.map(|entry| entry.commit.as_str())
    }

    /// The tasks.
    pub fn tasks(&self) -> impl Iterator<Item = &MinedTask> {
        self.candidates
            .iter()
            .filter_map(|entry| entry.task.as_ref())
    }
}
