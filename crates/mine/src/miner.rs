//! Examines the candidates of a repository, one after the other, and writes the accepted ones.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use camino::Utf8Path;
use proctor_harness::{
    config::{Execution, KeepWorkspace, Settings},
    run::check::check,
    task::harbor::load,
};
use proctor_record::{error_chain::chain, fs::hex};
use proctor_sandbox::host::Host;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    detect::{TestCommand, literal},
    error::MineError,
    harbor::NewTask,
    history::{Repository, Unit, blobs},
    leaks,
    ledger::{Entry, LEDGER_FILE, Ledger, MinedTask, Status},
    options::{MinerOptions, Selection, TaskFormat},
    output::{self, TaskWriter},
    plan::{Plan, Planner, parts, rejected},
    prompt::{PromptTier, prompt},
    reject::{Reject, Rejection},
    sets::{Observed, Sets, TestRun, decide},
    split::{Split, needed_blobs},
    states::{Runs, StateRunner},
    strength::{self, Strength},
    trees::{TreeStore, Trees},
};

/// The length of the digest in a task's name.
const ID_DIGITS: usize = 8;

/// Examines candidates.
pub struct Miner<'a> {
    /// The options.
    pub options: &'a MinerOptions,
    /// The host.
    pub host: &'a Host,
    /// The user's settings.
    pub settings: &'a Settings,
    /// Stops mining.
    pub cancel: &'a CancellationToken,
    /// Called with the plan and with each result.
    pub on_event: &'a dyn Fn(MiningEvent<'_>),
}

/// The progress of mining.
#[derive(Clone, Copy, Debug)]
pub enum MiningEvent<'a> {
    /// The candidates are known.
    Planned(&'a Plan),
    /// A candidate has a result.
    Examined(&'a Entry),
}

/// The places and settings of one examination.
struct MiningContext<'a> {
    repo: Repository,
    store: &'a TreeStore,
    runner: StateRunner<'a>,
    tasks: &'a TaskWriter,
}

impl Miner<'_> {
    /// Finds the candidates. Nothing is run or written.
    pub async fn plan(&self) -> Result<Plan, MineError> {
        self.check_options()?;
        let scratch = tempfile::tempdir_in(&self.host.temp)?;
        let repo = Repository::open(&self.options.repo, self.host).await?;
        let store = self.store(scratch.path(), &repo).await?;
        let ledger = Ledger::read(&self.options.out)?;
        self.planner().plan(&repo, &store, ledger.as_ref()).await
    }

    /// The duration of one run of the tests on the newest commit.
    pub async fn measure(&self, plan: &Plan) -> Result<Duration, MineError> {
        let scratch = tempfile::tempdir_in(&self.host.temp)?;
        let repo = Repository::open(&self.options.repo, self.host).await?;
        let store = self.store(scratch.path(), &repo).await?;
        let execution = self.execution();
        let runner = self.runner(&plan.command, &store, &execution);
        let tree = repo.git.line(["rev-parse", "HEAD^{tree}"]).await?;
        let runs = runner.run(&BTreeSet::from([tree.as_str()]), 1).await?;
        let mut millis = 0;
        for run in runs.into_values().flatten() {
            run.tests
                .map_err(|reason| MineError::NoResults { reason })?;
            millis += run.millis;
        }
        Ok(Duration::from_millis(millis))
    }

    /// Examines all candidates and writes the output directory.
    pub async fn mine(&self) -> Result<Ledger, MineError> {
        self.check_options()?;
        let out = &self.options.out;
        let scratch = tempfile::tempdir_in(&self.host.temp)?;
        let repo = Repository::open(&self.options.repo, self.host).await?;
        let store = self.store(scratch.path(), &repo).await?;
        let earlier = Ledger::read(out)?;
        self.check_ledger(earlier.as_ref())?;
        let plan = self.planner().plan(&repo, &store, earlier.as_ref()).await?;
        let mut ledger = self.ledger(&repo, &plan, earlier)?;
        fs_err::create_dir_all(out)?;
        let execution = self.execution();
        let tasks = TaskWriter::open(self.options, &store, self.host).await?;
        let context = MiningContext {
            runner: self.runner(&plan.command, &store, &execution),
            store: &store,
            tasks: &tasks,
            repo,
        };
        (self.on_event)(MiningEvent::Planned(&plan));
        for entry in plan.rejected {
            (self.on_event)(MiningEvent::Examined(&entry));
            ledger.add(entry);
        }
        output::save(&ledger, out)?;
        let mut carried = Runs::new();
        for unit in &plan.units {
            if self
                .options
                .accept
                .is_some_and(|most| ledger.tasks().count() >= most)
            {
                break;
            }
            let (runs, millis) = context.runner.spent.get();
            let examined = self.examine(&context, unit, &ledger, &mut carried).await;
            let mut entry = match examined {
                Err(MineError::Interrupted) => return Err(MineError::Interrupted),
                Err(error) => failed(unit, &error),
                Ok(entry) => entry,
            };
            let (runs_now, millis_now) = context.runner.spent.get();
            entry.test_runs = runs_now - runs;
            ledger.test_runs += runs_now - runs;
            ledger.test_ms += millis_now - millis;
            (self.on_event)(MiningEvent::Examined(&entry));
            ledger.add(entry);
            output::save(&ledger, out)?;
            if let Some(reason) = ledger.without_reports() {
                return Err(MineError::NoResults {
                    reason: reason.to_owned(),
                });
            }
        }
        let is_walk = matches!(
            self.options.selection,
            Selection::History { .. } | Selection::New
        );
        if is_walk || ledger.head.is_empty() {
            ledger.head.clone_from(&plan.head);
        }
        ledger.write(out)?;
        tasks.pack().await?;
        Ok(ledger)
    }

    fn check_options(&self) -> Result<(), MineError> {
        let needs_image = self.options.format == TaskFormat::Harbor;
        if needs_image && self.options.image.is_none() {
            return Err(MineError::NoImage);
        }
        Ok(())
    }

    fn planner(&self) -> Planner<'_> {
        Planner {
            options: self.options,
            host: self.host,
            cancel: self.cancel,
        }
    }

    async fn store(
        &self,
        scratch: &std::path::Path,
        repo: &Repository,
    ) -> Result<TreeStore, MineError> {
        let scratch = Utf8Path::from_path(scratch).unwrap_or(&self.host.temp);
        TreeStore::create(&scratch.join("trees.git"), repo, self.host).await
    }

    fn execution(&self) -> Execution {
        Execution {
            sandbox: self.options.sandbox,
            image: self.options.image.clone(),
            keep_workspace: KeepWorkspace::None,
            ..Execution::default()
        }
    }

    fn runner<'a>(
        &'a self,
        command: &'a TestCommand,
        store: &'a TreeStore,
        execution: &'a Execution,
    ) -> StateRunner<'a> {
        StateRunner {
            host: self.host,
            settings: self.settings,
            execution,
            command,
            store,
            parallel: self.options.parallel,
            cancel: self.cancel,
            spent: Cell::default(),
        }
    }

    /// Fails if the output directory has results that would be lost or mixed.
    fn check_ledger(&self, earlier: Option<&Ledger>) -> Result<(), MineError> {
        let path = || self.options.out.join(LEDGER_FILE);
        match (&self.options.selection, earlier) {
            (Selection::History { .. }, Some(_)) if !self.options.resume => {
                Err(MineError::LedgerExists { path: path() })
            }
            (Selection::New, None) => Err(MineError::NoLedger { path: path() }),
            _ => Ok(()),
        }
    }

    fn ledger(
        &self,
        repo: &Repository,
        plan: &Plan,
        earlier: Option<Ledger>,
    ) -> Result<Ledger, MineError> {
        let options = self.options;
        let now = Ledger::new(&repo.path, plan.command.clone(), options);
        let mut ledger = match earlier {
            Some(earlier) => {
                earlier.check_same(&now, &options.out)?;
                earlier
            }
            None => now,
        };
        match options.selection {
            Selection::History { .. } => ledger.skipped = plan.skipped,
            Selection::New => {
                let (all, new) = (&mut ledger.skipped, plan.skipped);
                all.root += new.root;
                all.no_source += new.no_source;
                all.no_tests += new.no_tests;
            }
            Selection::Commit(_) | Selection::WorkingTree => {}
        }
        Ok(ledger)
    }

    /// Examines one candidate.
    async fn examine(
        &self,
        context: &MiningContext<'_>,
        unit: &Unit,
        ledger: &Ledger,
        carried: &mut Runs,
    ) -> Result<Entry, MineError> {
        let blobs = blobs(&context.store.git, needed_blobs(unit)).await?;
        let parts = match parts(self.options, unit, &blobs) {
            Ok(Ok(parts)) => parts,
            Ok(Err(rejection)) => return Ok(rejected(unit, &rejection)),
            Err(reason) => {
                return Err(MineError::NotACandidate {
                    what: unit.commit.clone(),
                    reason: reason.reason(),
                });
            }
        };
        let trees = context.store.build(unit, &parts).await?;
        let diff = context
            .store
            .diff(&trees.with_tests, &trees.rebuilt)
            .await?;
        let change = digest_of_change(&diff);
        let result = match ledger.with_change(&change) {
            Some(commit) => {
                let evidence = format!("{commit} has the same change");
                Err(Rejection::new(Reject::Duplicate, evidence))
            }
            None => match self.observe(context, &trees, carried).await? {
                Err(rejection) => Err(rejection),
                Ok((sets, observed)) => {
                    let found = Found {
                        unit,
                        parts: &parts,
                        trees: &trees,
                        sets,
                        observed,
                        diff: &diff,
                    };
                    self.accept(context, found).await?
                }
            },
        };
        Ok(match result {
            Ok(task) => Entry {
                task: Some(task),
                change: Some(change),
                ..Entry::new(unit, Status::Accepted)
            },
            Err(rejection) => Entry {
                change: (rejection.code != Reject::Duplicate).then_some(change),
                ..rejected(unit, &rejection)
            },
        })
    }

    /// Runs the tests of the four states: once, and more often if that does not reject the
    /// candidate. Runs of the base are kept for the next candidate, which may be the parent.
    async fn observe(
        &self,
        context: &MiningContext<'_>,
        trees: &Trees,
        carried: &mut Runs,
    ) -> Result<Result<(Sets, Observed), Rejection>, MineError> {
        let limit = u64::try_from(self.options.test_timeout.as_millis()).unwrap_or(u64::MAX);
        let wanted = [
            &trees.base,
            &trees.with_tests,
            &trees.commit,
            &trees.rebuilt,
        ];
        let mut runs = std::mem::take(carried);
        runs.retain(|tree, _| wanted.contains(&tree));
        let mut decided = Err(Rejection::new(Reject::NoReport, "the tests were not run"));
        for target in BTreeSet::from([1, self.options.times]) {
            for missing in 1..=target {
                let lacks = |tree: &&String| {
                    let count = runs.get(*tree).map_or(0, Vec::len);
                    u32::try_from(count).unwrap_or(u32::MAX) + missing == target
                };
                let trees: BTreeSet<&str> = wanted
                    .iter()
                    .filter(|it| lacks(it))
                    .map(|it| it.as_str())
                    .collect();
                for (tree, more) in context.runner.run(&trees, missing).await? {
                    runs.entry(tree).or_default().extend(more);
                }
            }
            let of =
                |tree: &String| -> Vec<TestRun> { runs.get(tree).cloned().unwrap_or_default() };
            let observed = Observed {
                base: of(&trees.base),
                with_tests: of(&trees.with_tests),
                commit: of(&trees.commit),
                rebuilt: of(&trees.rebuilt),
            };
            decided = decide(&observed, limit).map(|sets| (sets, observed));
            if decided.is_err() {
                break;
            }
        }
        runs.retain(|tree, _| *tree == trees.base);
        *carried = runs;
        Ok(decided)
    }

    /// Writes a task, if the judge confirms it: the null agent fails, and the solution passes.
    async fn accept(
        &self,
        context: &MiningContext<'_>,
        found: Found<'_>,
    ) -> Result<Result<MinedTask, Rejection>, MineError> {
        let Found {
            unit,
            parts,
            trees,
            sets,
            observed,
            diff,
        } = found;
        let git = &context.store.git;
        let tests = context.store.diff(&trees.base, &trees.with_tests).await?;
        let new_names = leaks::new_names(git, &trees.base, &tests, diff).await?;
        let failures = failures(&sets, &observed);
        let wording = prompt(self.options.prompt, &unit.message, &failures, &new_names);
        let solution_names = match wording.tier {
            PromptTier::Tests => Vec::new(),
            _ => leaks::in_message(git, &trees.base, &unit.message, diff).await?,
        };
        let task = MinedTask {
            id: task_id(&context.repo.path, &unit.commit),
            prompt: wording.text,
            prompt_tier: wording.tier,
            new_names,
            solution_names,
            leaks: leaks::in_base(git, &trees.base, &unit.commit, &unit.message).await?,
            source_files: parts.source_files(),
            source_lines: parts.lines,
            cutoff: unit.date.clone(),
            fail_to_pass: sets.fail_to_pass.clone(),
            pass_to_pass: sets.pass_to_pass.clone(),
            flaky: sets.flaky.clone(),
            by_build: sets.by_build,
            inline_tests: parts.inline.iter().map(|file| file.path.clone()).collect(),
            strength: Strength::default(),
        };
        let new = NewTask {
            task: &task,
            commit: &unit.commit,
            trees,
            command: context.runner.command,
        };
        context.tasks.add(&new, context.store).await?;
        let problems = self.check(context, &task).await?;
        if !problems.is_empty() {
            context.tasks.remove(&task.id).await?;
            let evidence = format!("the judge disagrees: {}", problems.join("; "));
            return Ok(Err(Rejection::new(Reject::SplitWrong, evidence)));
        }
        let strength = strength::measure(&context.runner, trees, &sets).await?;
        let task = MinedTask {
            strength,
            ..task.clone()
        };
        context.tasks.complete(&NewTask { task: &task, ..new })?;
        Ok(Ok(task))
    }

    /// The problems of a task, as `proctor task check` reports them.
    async fn check(
        &self,
        context: &MiningContext<'_>,
        task: &MinedTask,
    ) -> Result<Vec<String>, MineError> {
        let tasks = match context.tasks {
            TaskWriter::Repo(_) => {
                let repo = output::repo_path(&self.options.out);
                let command = context.runner.command;
                let entry = output::entry(task, command, &literal(repo.as_str()));
                context.runner.load(vec![entry])?
            }
            TaskWriter::Harbor(folders) => {
                let folder = folders.path(&task.id);
                vec![Arc::new(load(&folder, &self.host.env, self.settings)?)]
            }
        };
        let mut problems = Vec::new();
        for task in tasks {
            let execution = self.execution();
            let checked = check(&task, (self.host, &execution), 1, self.cancel).await?;
            if self.cancel.is_cancelled() {
                return Err(MineError::Interrupted);
            }
            if let Some(reason) = checked.infrastructure.into_iter().next() {
                return Err(MineError::Infrastructure {
                    commit: task.name.clone(),
                    reason,
                });
            }
            problems.extend(checked.problems);
        }
        Ok(problems)
    }
}

/// A candidate that passed the tests of its states.
struct Found<'a> {
    unit: &'a Unit,
    parts: &'a Split,
    trees: &'a Trees,
    sets: Sets,
    observed: Observed,
    diff: &'a str,
}

/// The tests that fail before the work, with their messages.
fn failures(sets: &Sets, observed: &Observed) -> BTreeMap<String, Option<String>> {
    let message = |name: &String| {
        let mut runs = observed.with_tests.iter();
        runs.find_map(|run| run.tests.as_ref().ok()?.get(name)?.message.clone())
    };
    let names = sets.fail_to_pass.iter();
    names.map(|name| (name.clone(), message(name))).collect()
}

/// The entry of a candidate that could not be examined.
fn failed(unit: &Unit, error: &MineError) -> Entry {
    Entry {
        evidence: Some(chain(error)),
        ..Entry::new(unit, Status::Error)
    }
}

/// The name of a task: of the repository, and of its commit without naming it.
fn task_id(repo: &Utf8Path, commit: &str) -> String {
    let name = repo.file_name().unwrap_or("task").trim_end_matches(".git");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let name: String = name
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '-' })
        .collect();
    let digest = hex(&Sha256::digest(commit.as_bytes()));
    format!("{name}-{}", &digest[..ID_DIGITS])
}

/// The digest of the changed lines and their files, without their positions.
fn digest_of_change(diff: &str) -> String {
    let mut digest = Sha256::new();
    for line in diff.lines().filter(|line| line.starts_with(['+', '-'])) {
        digest.update(line.trim_end().as_bytes());
        digest.update(b"\n");
    }
    hex(&digest.finalize())
}
