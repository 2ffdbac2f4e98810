//! The differences of `yb` and `youbencha`: help, evaluators with their metrics, and files that a run
//! leaves in addition to Proctor's.

use std::fmt::Write;

use camino::Utf8Path;
use proctor_harness::{evaluate::EVALUATORS, run::RunSummary};
use proctor_record::record::{LOG_FILE, RESULTS_FILE, TrialStatus, TrialSummary};
use proctor_report as report;

/// The files of the built-in judge: for Copilot and for Claude Code.
pub const AGENT_FILES: [&str; 2] = [
    ".github/agents/agentic-judge.md",
    ".claude/agents/agentic-judge.md",
];

const ABOUT: &str = "youBencha - Evaluate and compare AI coding agents, run by Proctor";

/// The help of a command: its name, its purpose, its usage, and examples.
struct Help {
    command: &'static str,
    about: &'static str,
    usage: &'static str,
    examples: &'static [&'static str],
}

const COMMANDS: [Help; 6] = [
    Help {
        command: "init",
        about: "Create a starter testcase.yaml configuration, and the files of the built-in judge",
        usage: "[--force]",
        examples: &["init", "init --force"],
    },
    Help {
        command: "run",
        about: "Run a test case against an AI agent, and judge its work",
        usage: "-c <FILE> [OPTIONS]",
        examples: &[
            "run -c testcase.yaml",
            "run -c testcase.yaml --delete-workspace",
        ],
    },
    Help {
        command: "eval",
        about: "Run evaluators on an existing directory, without an agent",
        usage: "-c <FILE> [OPTIONS]",
        examples: &["eval -c eval.yaml"],
    },
    Help {
        command: "report",
        about: "Generate a human-readable report of a results.json",
        usage: "--from <FILE> [--format <FORMAT>] [--output <FILE>]",
        examples: &[
            "report --from .youbencha-workspace/run-ID/artifacts/results.json",
            "report --from results.json --format json --output report.json",
        ],
    },
    Help {
        command: "validate",
        about: "Validate a test case configuration without running it",
        usage: "-c <FILE> [-v]",
        examples: &["validate -c testcase.yaml", "validate -c testcase.yaml -v"],
    },
    Help {
        command: "list",
        about: "List the evaluators and their metrics",
        usage: "",
        examples: &["list"],
    },
];

/// The command line with youBencha's help.
pub fn command(command: clap::Command, program: &'static str) -> clap::Command {
    let exit_codes = "Exit codes: 0 the evaluation reached its end · 1 anything else";
    let command = command
        .name(program)
        .bin_name(program)
        .about(ABOUT)
        .after_help(exit_codes);
    COMMANDS.iter().fold(command, |command, help| {
        command.mut_subcommand(help.command, |command| {
            let name = help.command;
            let examples = help.examples.iter();
            let examples: Vec<String> = examples.map(|it| format!("  {program} {it}")).collect();
            command
                .about(help.about)
                .override_usage(format!("{program} {name} {}", help.usage))
                .after_help(format!("Examples:\n{}", examples.join("\n")))
        })
    })
}

/// The metrics of the evaluators that youBencha has.
const METRICS: [(&str, &str); 3] = [
    (
        "git-diff",
        "files_changed, lines_added, lines_removed, total_changes, change_entropy",
    ),
    (
        "expected-diff",
        "aggregate_similarity, threshold, files_matched, files_changed, files_added, files_removed",
    ),
    ("agentic-judge", "one score for each assertion"),
];

/// The evaluators with their metrics, for `list`.
pub fn evaluators() -> String {
    let mut text = "Available Evaluators:\n".to_owned();
    for (name, summary) in EVALUATORS {
        let _ = writeln!(text, "\n  {name}\n    {summary}");
        let metrics = METRICS.iter().find(|(known, _)| *known == name);
        if let Some((_, metrics)) = metrics {
            let _ = writeln!(text, "    metrics: {metrics}");
        }
    }
    text
}

/// Whether all trials were judged. A verdict that is an error counts, because youBencha skips such
/// evaluators.
pub fn reached_end(summary: &RunSummary) -> bool {
    let reached = |trial: &TrialSummary| match trial.status {
        TrialStatus::Passed | TrialStatus::Failed => true,
        TrialStatus::Error => !trial.outcome.is_infrastructure(),
        TrialStatus::Interrupted => false,
    };
    !summary.trials.is_empty() && summary.trials.iter().all(reached)
}

/// Adds youBencha's files to each trial of a finished run, and returns the text for the end.
pub fn completed(summary: &RunSummary, program: &str) -> std::io::Result<String> {
    let mut text = String::new();
    if reached_end(summary) {
        text.push_str("Evaluation completed successfully\n");
    }
    for trial in &summary.trials {
        let Some(artifacts) = trial.record.parent() else {
            continue;
        };
        add_files(artifacts)?;
        let results = artifacts.join(RESULTS_FILE);
        let _ = writeln!(
            text,
            "Results saved to: {results}\nReport: {program} report --from {results}"
        );
    }
    Ok(text)
}

/// The log under youBencha's name of it, and the report.
fn add_files(artifacts: &Utf8Path) -> std::io::Result<()> {
    let log = artifacts.join(LOG_FILE);
    if log.is_file() {
        fs_err::copy(log, artifacts.join("youbencha.log.json"))?;
    }
    if let Ok(json) = fs_err::read(artifacts.join(RESULTS_FILE))
        && let Ok(markdown) = report::results_youbencha(&json)
    {
        fs_err::write(artifacts.join("report.md"), markdown)?;
    }
    Ok(())
}
