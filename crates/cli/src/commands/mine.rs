//! `proctor task mine` and `proctor task refresh`: tasks from the history of a repository.

use std::{fmt::Write, time::Duration};

use camino::Utf8Path;
use proctor_mine::{
    Entry, LEDGER_FILE, Ledger, MineError, Miner, MinerOptions, MiningEvent, Plan, PromptTier,
    SUITE_FILE, Selection, Skipped, Status, TaskFormat, TestCommand,
};
use proctor_report::millis;
use proctor_sandbox::{SandboxKind, host::Host};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{FormatArg, MineArgs, ProgressStyle, PromptArg, RefreshArgs, SandboxArg, SelectionArgs},
    error::{CliError, Exit},
    host, ui,
};

/// The directory of the tasks that `proctor init` makes.
const TASKS_DIR: &str = "proctor-tasks";

/// The length of a commit id on the screen.
const SHORT_ID: usize = 10;

pub fn mine(args: &MineArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let options = options(args, &host)?;
    if args.dry_run {
        return dry_run(&options, &host, args.json);
    }
    run(&options, &host, args.json, None)
}

pub fn refresh(args: &RefreshArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let out = host.cwd.join(&args.out);
    let missing = || MineError::NoLedger {
        path: out.join(LEDGER_FILE),
    };
    let ledger = Ledger::read(&out)?.ok_or_else(missing)?;
    let options = MinerOptions {
        repo: ledger.repository,
        out,
        selection: Selection::New,
        command: Some(ledger.command),
        sandbox: ledger.sandbox,
        image: ledger.image,
        format: ledger.format,
        prompt: ledger.prompt,
        times: ledger.times,
        parallel: usize::from(args.parallel),
        test_timeout: Duration::from_secs(args.test_timeout),
        accept: None,
        resume: true,
    };
    run(&options, &host, args.json, None)
}

/// Makes tasks from the repository in the working directory, and a suite that runs them.
pub(super) fn init(suite: &Utf8Path, count: u32) -> Result<Exit, CliError> {
    let host = host::host()?;
    let out = host.cwd.join(suite).with_file_name(TASKS_DIR);
    let options = MinerOptions {
        accept: usize::try_from(count).ok(),
        resume: true,
        ..MinerOptions::of_history(&host.cwd, &out)
    };
    run(&options, &host, false, Some(suite))
}

fn options(args: &MineArgs, host: &Host) -> Result<MinerOptions, CliError> {
    let repo = host.cwd.join(&args.repo);
    let not_one = || MineError::NotARepository { path: repo.clone() };
    let repo = repo.canonicalize_utf8().map_err(|_| not_one())?;
    Ok(MinerOptions {
        repo,
        out: host.cwd.join(&args.out),
        selection: selection(&args.selection),
        command: args.test_cmd.as_deref().map(TestCommand::of_line),
        sandbox: match (&args.image, args.sandbox) {
            (Some(_), _) | (None, Some(SandboxArg::Docker)) => SandboxKind::Docker,
            (None, _) => SandboxKind::Local,
        },
        image: args.image.clone(),
        format: match args.format {
            FormatArg::Repo => TaskFormat::Repo,
            FormatArg::Harbor => TaskFormat::Harbor,
        },
        prompt: match args.prompt {
            PromptArg::Message => PromptTier::Message,
            PromptArg::Tests => PromptTier::Tests,
            PromptArg::Both => PromptTier::Both,
        },
        times: args.times,
        parallel: usize::from(args.parallel),
        test_timeout: Duration::from_secs(args.test_timeout),
        accept: None,
        resume: args.resume,
    })
}

fn selection(args: &SelectionArgs) -> Selection {
    let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    match &args.from_commit {
        Some(commit) => Selection::Commit(commit.clone()),
        None if args.from_working_tree => Selection::WorkingTree,
        None => Selection::History {
            since: args.since.clone(),
            paths: args.paths.clone(),
            limit: whole(args.limit),
            representative: args.representative.map(whole),
        },
    }
}

/// Calls `work` with a miner, until it is done or a signal stops it.
fn with_miner<T>(
    options: &MinerOptions,
    host: &Host,
    on_event: &dyn Fn(MiningEvent<'_>),
    work: impl AsyncFnOnce(&Miner<'_>) -> Result<T, MineError>,
) -> Result<T, CliError> {
    let settings = super::settings(host)?;
    let progress = ui::Progress::new(ProgressStyle::Quiet, host);
    let cancel = CancellationToken::new();
    let miner = Miner {
        options,
        host,
        settings: &settings,
        cancel: &cancel,
        on_event,
    };
    until_done(work(&miner), &progress, &cancel)
}

/// Mines and prints the results. `suite` is a further file that runs the tasks.
fn run(
    options: &MinerOptions,
    host: &Host,
    json: bool,
    suite: Option<&Utf8Path>,
) -> Result<Exit, CliError> {
    let show = |event: MiningEvent<'_>| {
        if !json {
            // A closed standard output does not stop mining.
            let _ = ui::print(&match event {
                MiningEvent::Planned(plan) => format!("{}{}\n", command(plan), cost(plan)),
                MiningEvent::Examined(entry) => shown(entry),
            });
        }
    };
    let mined = with_miner(options, host, &show, async |miner| miner.mine().await);
    let ledger = match mined {
        Err(CliError::Mine(MineError::Interrupted)) => return Ok(Exit::Interrupted),
        other => other?,
    };
    let has_tasks = ledger.tasks().next().is_some();
    if let Some(suite) = suite.filter(|_| has_tasks) {
        fs_err::write(suite, ledger.suite(&format!("./{TASKS_DIR}")))?;
    }
    if json {
        ui::print_json(&ledger)?;
    } else {
        ui::print(&summary(&ledger, &options.out, suite))?;
    }
    let mut statuses = ledger.candidates.iter().map(|entry| entry.status);
    Ok(if statuses.any(|status| status == Status::Error) {
        Exit::Infrastructure
    } else if suite.is_some() && !has_tasks {
        Exit::Failed
    } else {
        Exit::Success
    })
}

fn dry_run(options: &MinerOptions, host: &Host, json: bool) -> Result<Exit, CliError> {
    let measured = with_miner(options, host, &|_| {}, async |miner| {
        let plan = miner.plan().await?;
        let run = miner.measure(&plan).await?;
        Ok((plan, run))
    });
    let (plan, run) = match measured {
        Err(CliError::Mine(MineError::Interrupted)) => return Ok(Exit::Interrupted),
        other => other?,
    };
    let parallel = u32::try_from(options.parallel).unwrap_or(1).max(1);
    let count = u32::try_from(plan.test_runs).unwrap_or(u32::MAX);
    let estimate = run.saturating_mul(count) / parallel;
    if json {
        ui::print_json(&json!({
            "test_cmd": plan.command.test_cmd,
            "install_cmd": plan.command.install_cmd,
            "candidates": plan.candidates.iter().map(|(commit, _)| commit).collect::<Vec<_>>(),
            "rejected": plan.rejected,
            "skipped": plan.skipped,
            "test_runs_at_most": plan.test_runs,
            "measured_run_ms": run.as_millis(),
            "estimated_ms_at_most": estimate.as_millis(),
        }))?;
        return Ok(Exit::Success);
    }
    ui::print(&planned(&plan, run, estimate))?;
    Ok(Exit::Success)
}

fn planned(plan: &Plan, run: Duration, estimate: Duration) -> String {
    let mut text = command(plan);
    for (commit, subject) in &plan.candidates {
        let _ = writeln!(text, "candidate  {}  {subject}", short(commit));
    }
    text.extend(plan.rejected.iter().map(shown));
    text.push_str(&skipped(plan.skipped));
    let _ = writeln!(
        text,
        "{} and {} (one run takes {}); nothing was written",
        cost(plan),
        time(estimate),
        time(run),
    );
    text
}

fn time(duration: Duration) -> String {
    millis(duration.as_secs_f64() * 1000.0)
}

/// The test command; a script of several lines is shortened.
fn command(plan: &Plan) -> String {
    let line = &plan.command.test_cmd;
    let first = line.lines().next().unwrap_or_default();
    let more = if first.len() < line.len() { "…" } else { "" };
    format!("test command: {first}{more}\n")
}

fn cost(plan: &Plan) -> String {
    format!(
        "{}, at most {}",
        ui::counted(plan.candidates.len(), "candidate"),
        ui::counted(
            usize::try_from(plan.test_runs).unwrap_or(usize::MAX),
            "test run"
        ),
    )
}

fn short(commit: &str) -> &str {
    commit.get(..SHORT_ID).unwrap_or(commit)
}

/// One line about a candidate.
fn shown(entry: &Entry) -> String {
    let commit = short(&entry.commit);
    let subject = &entry.subject;
    let evidence = entry.evidence.as_deref().unwrap_or_default();
    let evidence = evidence.lines().next().unwrap_or_default();
    match (&entry.task, entry.code) {
        (Some(task), _) => format!(
            "accepted  {commit}  {}  {} to pass, {} to keep, strength {}/{}  {subject}\n",
            task.id,
            task.fail_to_pass.len(),
            task.pass_to_pass.len(),
            task.strength.noticed,
            task.strength.undone,
        ),
        (None, Some(code)) => {
            format!(
                "rejected  {commit}  {}  {subject}: {evidence}\n",
                code.as_str()
            )
        }
        (None, None) => format!("error     {commit}  {subject}: {evidence}\n"),
    }
}

fn skipped(skipped: Skipped) -> String {
    let counts = [
        (skipped.no_source, "without a change of source files"),
        (skipped.no_tests, "without a change of tests"),
        (skipped.root, "without a parent"),
        (skipped.not_sampled, "not in the sample"),
    ];
    let parts = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("commits that are not candidates: {}\n", parts.join(", "))
}

fn summary(ledger: &Ledger, out: &Utf8Path, suite: Option<&Utf8Path>) -> String {
    let count = |status| {
        let entries = ledger.candidates.iter();
        entries.filter(|entry| entry.status == status).count()
    };
    let suite = suite.map_or_else(|| out.join(SUITE_FILE), Utf8Path::to_owned);
    let next = match ledger.tasks().next() {
        Some(_) => format!("wrote {suite}; run it with: proctor run {suite}"),
        None => format!(
            "no task was made; the reasons are in {}",
            out.join(LEDGER_FILE)
        ),
    };
    format!(
        "{}{} accepted, {} rejected, {} not examined; {} in {}\n{next}\n",
        skipped(ledger.skipped),
        count(Status::Accepted),
        count(Status::Rejected),
        count(Status::Error),
        ui::counted(
            usize::try_from(ledger.test_runs).unwrap_or(usize::MAX),
            "test run"
        ),
        time(Duration::from_millis(ledger.test_ms)),
    )
}
