//! Finds the candidates of a repository before any test is run.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use proctor_sandbox::{SandboxKind, host::Host};
use tokio_util::sync::CancellationToken;

use crate::{
    detect::{RepositoryFiles, TestCommand, detect},
    error::MineError,
    history::{PAGE, Repository, Unit, Walk, blobs},
    ledger::{Entry, Ledger, Skipped, Status},
    options::{MinerOptions, Selection, TaskFormat},
    reject::{Reject, Rejection},
    select::{Traits, sample},
    split::{NoCandidate, Split, needed_blobs, split},
    strength::MAX_HUNKS,
    trees::TreeStore,
};

/// The number of states of a candidate.
const STATES: u64 = 4;

/// The number of runs that check one task besides those of its states: the null agent, the
/// solution, and the sentinel runs.
const CHECK_RUNS: u64 = 4;

/// The candidates, before any test is run.
#[derive(Debug)]
pub struct Plan {
    /// The commands.
    pub command: TestCommand,
    /// Candidates whose tests have to be run: commit and subject.
    pub candidates: Vec<(String, String)>,
    /// Candidates that are rejected without running tests.
    pub rejected: Vec<Entry>,
    /// Commits that are not candidates.
    pub skipped: Skipped,
    /// The maximum number of runs of the tests.
    pub test_runs: u64,
    pub(crate) units: Vec<Unit>,
    pub(crate) head: String,
}

/// Finds candidates.
pub(crate) struct Planner<'a> {
    pub(crate) options: &'a MinerOptions,
    pub(crate) host: &'a Host,
    pub(crate) cancel: &'a CancellationToken,
}

impl Planner<'_> {
    /// The commands: given by the user, or detected.
    async fn command(&self, repo: &Repository) -> Result<TestCommand, MineError> {
        if let Some(command) = &self.options.command {
            return Ok(command.clone());
        }
        let is_local = self.options.sandbox == SandboxKind::Local;
        let found = detected(repo, self.host, is_local).await?;
        found.ok_or_else(|| MineError::NoTestCommand {
            path: repo.path.clone(),
        })
    }

    /// The candidates of the selection.
    pub(crate) async fn plan(
        &self,
        repo: &Repository,
        store: &TreeStore,
        ledger: Option<&Ledger>,
    ) -> Result<Plan, MineError> {
        let mut plan = Plan {
            command: match ledger.filter(|_| self.options.command.is_none()) {
                Some(ledger) => ledger.command.clone(),
                None => self.command(repo).await?,
            },
            candidates: Vec::new(),
            rejected: Vec::new(),
            skipped: Skipped::default(),
            test_runs: 0,
            units: Vec::new(),
            head: repo.head.clone(),
        };
        match &self.options.selection {
            Selection::Commit(revision) => {
                let unit = one_commit(repo, revision).await?;
                self.plan_one(&mut plan, unit, store, revision).await?;
            }
            Selection::WorkingTree => {
                let unit = store.working_tree(repo, &self.options.out).await?;
                self.plan_one(&mut plan, unit, store, "the working tree")
                    .await?;
            }
            Selection::History { .. } | Selection::New => {
                self.plan_history(&mut plan, repo, ledger).await?;
            }
        }
        let of_one = |unit: &Unit| (unit.commit.clone(), unit.subject().to_owned());
        plan.candidates = plan.units.iter().map(of_one).collect();
        let of_states = u64::from(self.options.times) * STATES;
        let of_one = of_states + CHECK_RUNS + MAX_HUNKS as u64;
        plan.test_runs = plan.units.len() as u64 * of_one;
        Ok(plan)
    }

    async fn plan_one(
        &self,
        plan: &mut Plan,
        unit: Unit,
        store: &TreeStore,
        what: &str,
    ) -> Result<(), MineError> {
        let blobs = blobs(&store.git, needed_blobs(&unit)).await?;
        match parts(self.options, &unit, &blobs) {
            Err(reason) => Err(MineError::NotACandidate {
                what: what.to_owned(),
                reason: reason.reason(),
            }),
            Ok(Err(rejection)) => {
                plan.rejected.push(rejected(&unit, &rejection));
                Ok(())
            }
            Ok(Ok(_)) => {
                plan.units.push(unit);
                Ok(())
            }
        }
    }

    async fn plan_history(
        &self,
        plan: &mut Plan,
        repo: &Repository,
        ledger: Option<&Ledger>,
    ) -> Result<(), MineError> {
        let mut walk = Walk {
            from: repo.head.clone(),
            ..Walk::default()
        };
        let (limit, sampled) = if let Selection::History {
            since,
            paths,
            limit,
            representative,
        } = &self.options.selection
        {
            if let Some(since) = since {
                walk.limit(since, repo).await?;
            }
            walk.paths.clone_from(paths);
            (*limit, *representative)
        } else {
            let examined = ledger.map(|ledger| ledger.head.clone());
            walk.until = examined.filter(|head| !head.is_empty());
            (usize::MAX, None)
        };
        let mut traits = Vec::new();
        'pages: for page in 0.. {
            let units = walk.page(repo, page).await?;
            let is_last = units.len() < PAGE;
            let needed = units.iter().flat_map(needed_blobs);
            let blobs = blobs(&repo.git, needed).await?;
            for unit in units {
                let is_full = sampled.is_none() && plan.units.len() >= limit;
                if is_full {
                    break 'pages;
                }
                match parts(self.options, &unit, &blobs) {
                    Err(NoCandidate::Root) => plan.skipped.root += 1,
                    Err(NoCandidate::NoSource) => plan.skipped.no_source += 1,
                    Err(NoCandidate::NoTests) => plan.skipped.no_tests += 1,
                    Ok(Err(rejection)) => plan.rejected.push(rejected(&unit, &rejection)),
                    Ok(Ok(split)) => {
                        let first = split.source_paths().next().unwrap_or_default();
                        traits.push(Traits::of(first, split.lines, unit.subject()));
                        plan.units.push(unit);
                    }
                }
            }
            if is_last || self.cancel.is_cancelled() {
                break;
            }
        }
        if let Some(wanted) = sampled {
            let chosen = sample(&traits, wanted.min(limit));
            plan.skipped.not_sampled = plan.units.len() - chosen.len();
            let chosen: BTreeSet<usize> = chosen.into_iter().collect();
            let mut position = 0..;
            plan.units
                .retain(|_| position.next().is_some_and(|it| chosen.contains(&it)));
        }
        if let Some(ledger) = ledger {
            plan.units.retain(|unit| !ledger.has(&unit.commit));
            plan.rejected.retain(|entry| !ledger.has(&entry.commit));
        }
        Ok(())
    }
}

/// Splits a commit. Scripts of Harbor tasks cannot separate the unit tests of a file from its
/// code.
pub(crate) fn parts(
    options: &MinerOptions,
    unit: &Unit,
    blobs: &BTreeMap<String, Vec<u8>>,
) -> Result<Result<Split, Rejection>, NoCandidate> {
    let parts = split(unit, blobs)?;
    Ok(parts.and_then(|parts| match parts.inline.first() {
        Some(file) if options.format == TaskFormat::Harbor => {
            let evidence = format!("{} has unit tests; use `--format repo`", file.path);
            Err(Rejection::new(Reject::MixedHunk, evidence))
        }
        _ => Ok(parts),
    }))
}

/// The entry of a rejected candidate.
pub(crate) fn rejected(unit: &Unit, rejection: &Rejection) -> Entry {
    Entry {
        code: Some(rejection.code),
        evidence: Some(rejection.evidence.clone()),
        ..Entry::new(unit, Status::Rejected)
    }
}

/// One commit with its difference from its first parent.
async fn one_commit(repo: &Repository, revision: &str) -> Result<Unit, MineError> {
    let unknown = || MineError::UnknownCommit {
        text: revision.to_owned(),
    };
    let walk = Walk {
        from: repo.commit(revision).await.ok_or_else(unknown)?,
        ..Walk::default()
    };
    let first = walk.page(repo, 0).await?.into_iter().next();
    first.ok_or_else(unknown)
}

/// Detects the test command of a repository whose tests run on this machine; `None` if no runner is
/// recognized, or the directory is not the top of a repository.
pub async fn detect_test_command(repo: &Utf8Path, host: &Host) -> Option<TestCommand> {
    let repo = Repository::open(repo, host).await.ok()?;
    detected(&repo, host, true).await.ok()?
}

async fn detected(
    repo: &Repository,
    host: &Host,
    is_local: bool,
) -> Result<Option<TestCommand>, MineError> {
    let list = ["ls-tree", "-r", "-z", "--name-only", "HEAD"];
    let names = repo.git.run(list).await?;
    let names = String::from_utf8_lossy(&names);
    let names: BTreeSet<String> = names.split('\0').map(str::to_owned).collect();
    let package = repo
        .git
        .run(["cat-file", "blob", "HEAD:package.json"])
        .await;
    let package = package
        .ok()
        .map(|it| String::from_utf8_lossy(&it).into_owned());
    let home = host.home.as_ref();
    Ok(detect(&RepositoryFiles {
        uses_pytest: uses_pytest(repo, &names).await,
        names: &names,
        package_json: package.as_deref(),
        is_local,
        has_rustup: home.is_some_and(|home| home.join(".rustup").is_dir()),
    }))
}

/// Whether tests of Python use pytest: by a file of settings, or by an import.
async fn uses_pytest(repo: &Repository, names: &BTreeSet<String>) -> bool {
    let settings = ["conftest.py", "pytest.ini", "pytest.toml"];
    let is_setting = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        settings.contains(&name)
    };
    if names.iter().any(is_setting) {
        return true;
    }
    let tests = vec![":(glob)**/test*.py", ":(glob)**/*_test.py"];
    let grep = |text: &'static str, paths: Vec<&str>| {
        let args: Vec<String> = ["grep", "-q", "-w", "-F", "-e", text, "HEAD", "--"]
            .into_iter()
            .chain(paths)
            .map(str::to_owned)
            .collect();
        async move { repo.git.run(args.iter().map(String::as_str)).await.is_ok() }
    };
    let manifests = vec![
        "pyproject.toml",
        "setup.cfg",
        "tox.ini",
        "requirements*.txt",
    ];
    // Tests that import neither are functions, which only pytest finds.
    grep("pytest", tests.clone()).await
        || grep("pytest", manifests).await
        || !grep("unittest", tests).await
}
