//! The result of a run as text.

use std::{collections::BTreeMap, fmt::Write, io};

use proctor_harness::run::RunSummary;
use proctor_record::text::{counted, one_line};
use proctor_record::{
    record::{
        NotPassed, ReasonGroup, Record, ReplayRecord, TrialStatus, TrialSummary, Verdict,
        VerdictStatus,
        delivery::DeliverySummary,
        score::{Score, exclusion},
    },
    usage::{Usage, UsageSource, Usd},
};
use proctor_report::Role;

/// The maximum number of differences to a recording shown per trial.
const SHOWN_DIFFERENCES: usize = 5;
/// The maximum number of reasons why trials did not pass.
const SHOWN_REASONS: usize = 20;

/// Print each trial of a run.
pub fn report(summary: &RunSummary) -> io::Result<()> {
    let mut text = String::new();
    for trial in &summary.trials {
        match Record::read(&trial.record) {
            Ok(record) => text.push_str(&one(&record, trial.record.as_str())),
            Err(error) => {
                let _ = writeln!(text, "{}: cannot read its record: {error}", trial.task);
            }
        }
        text.push_str(&replay(&trial.task, trial.replay.as_ref()));
        text.push('\n');
    }
    if summary.trials.len() + summary.not_run > 1 {
        text.push_str(&totals(summary));
        text.push_str(&exclusions(&summary.trials));
        text.push_str(&super::next_step(summary));
    }
    super::print_wrapped(&text)
}

/// The line below the trials of a run.
pub(super) fn totals(summary: &RunSummary) -> String {
    let count = |status| of(&summary.trials, status);
    format!(
        "{}: {} passed, {} failed, {} excluded, {} not run · {}\n",
        counted(summary.trials.len() + summary.not_run, "trial"),
        count(TrialStatus::Passed),
        count(TrialStatus::Failed),
        count(TrialStatus::Error) + count(TrialStatus::Interrupted),
        summary.not_run,
        summary.run_dir,
    )
}

/// Print the result of a suite: a row for each agent and task.
pub fn suite_report(summary: &RunSummary) -> io::Result<()> {
    let head = [
        "agent", "task", "passed", "failed", "excluded", "tokens", "cached", "cost",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    let is_same = |one: &TrialSummary, other: &TrialSummary| {
        one.agent == other.agent && one.task == other.task
    };
    rows.extend(summary.trials.chunk_by(is_same).map(row));
    let mut text = super::table(&rows, 2);
    text.push('\n');
    text.push_str(&totals(summary));
    text.push_str(&exclusions(&summary.trials));
    text.push_str(&failures(&summary.trials, |_| true));
    for warning in summary.delivery.iter().filter_map(DeliverySummary::warning) {
        let _ = writeln!(text, "{warning}");
    }
    let litellm = summary
        .litellm
        .iter()
        .flat_map(|account| &account.differences);
    for difference in litellm {
        let _ = writeln!(text, "LiteLLM and the gateway differ: {difference}");
    }
    for trial in &summary.trials {
        let name = format!("{} on {}, trial {}", trial.agent, trial.task, trial.trial);
        if let Some(times) = trial.iterations.filter(|times| *times > 1) {
            let _ = writeln!(text, "{name}: started {times} times");
        }
        text.push_str(&replay(&name, trial.replay.as_ref()));
    }
    text.push_str(&super::next_step(summary));
    super::print_wrapped(&text)
}

/// The excluded trials, by reason; empty if there are none.
fn exclusions(trials: &[TrialSummary]) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.score.is_none()) {
        let reason = exclusion(trial.status, trial.outcome);
        *reasons.entry(reason).or_default() += 1;
    }
    if reasons.is_empty() {
        return String::new();
    }
    let reasons: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!("excluded from scores: {}\n", reasons.join(", "))
}

/// Why trials were excluded, one line for each agent and reason; empty if none were.
pub fn exclusion_reasons(summary: &RunSummary) -> String {
    failures(&summary.trials, |trial| trial.score.is_none())
}

/// Why trials did not pass, one line for each agent and reason.
fn failures(trials: &[TrialSummary], is_shown: fn(&TrialSummary) -> bool) -> String {
    let shown = trials.iter().filter(|trial| is_shown(trial));
    let not_passed = shown.filter_map(|trial| {
        Some(NotPassed {
            agent: &trial.agent,
            task: &trial.task,
            status: trial.status,
            outcome: trial.outcome,
            reason: trial.reason.as_deref()?,
        })
    });
    let groups = ReasonGroup::all(not_passed);
    let mut text = String::new();
    for group in groups.iter().take(SHOWN_REASONS) {
        let _ = writeln!(text, "{group}");
    }
    if groups.len() > SHOWN_REASONS {
        let more = counted(groups.len() - SHOWN_REASONS, "more reason");
        let _ = writeln!(text, "and {more}: `proctor report` shows all trials");
    }
    text
}

/// Whether the agent of a trial is a contestant.
pub(super) fn is_contender(trial: &TrialSummary) -> bool {
    Role::named(&trial.agent, &trial.agent_type) == Role::Contender
}

fn of(trials: &[TrialSummary], status: TrialStatus) -> usize {
    trials.iter().filter(|trial| trial.status == status).count()
}

/// The row for the trials of one agent on one task. A sum is unknown if a part is unknown.
fn row(trials: &[TrialSummary]) -> [String; 8] {
    let sum = |figure: fn(&Usage) -> Option<u64>| -> Option<u64> {
        let known = |trial: &TrialSummary| trial.usage.as_ref().and_then(figure);
        trials.iter().map(known).sum()
    };
    let cost: Option<Usd> = trials.iter().map(|trial| trial.cost_usd).sum();
    let unknown = || "–".to_owned();
    let number = |status| of(trials, status).to_string();
    let excluded = of(trials, TrialStatus::Error) + of(trials, TrialStatus::Interrupted);
    [
        super::tame(&trials[0].agent),
        super::tame(&trials[0].task),
        number(TrialStatus::Passed),
        number(TrialStatus::Failed),
        excluded.to_string(),
        sum(Usage::tokens).map_or_else(unknown, count),
        sum(Usage::cached_tokens).map_or_else(unknown, count),
        cost.map_or_else(unknown, |cost| format!("${:.4}", cost.dollars())),
    ]
}

/// One trial.
pub(super) fn one(record: &Record, path: &str) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<11} {value}");
    };
    row("agent", &agent(record));
    row("outcome", &outcome(record));
    for iteration in &record.iterations {
        let text = format!("{}: {}", iteration.number, iteration.describe());
        row("iteration", &text);
    }
    row(
        "usage",
        &record.usage.as_ref().map_or("unknown".to_owned(), usage),
    );
    if let Some(diff) = &record.diff {
        row(
            "change",
            &format!(
                "{}, +{} −{} lines",
                counted(diff.files_changed, "file"),
                diff.lines_added,
                diff.lines_removed
            ),
        );
    }
    if let Some(score) = &record.score {
        row("score", &worth(score));
    }
    for verdict in &record.verdicts {
        row(
            &verdict.evaluator,
            &format!("{} {}", mark(verdict.status), message(verdict)),
        );
    }
    for error in &record.errors {
        row(
            "error",
            &format!(
                "{}{}",
                error
                    .code
                    .as_deref()
                    .map_or(String::new(), |code| format!("{code}: ")),
                super::tame(&error.message)
            ),
        );
    }
    for note in &record.notes {
        row("note", &super::tame(note));
    }
    row("record", path);
    let task = super::tame(&record.task.name);
    format!("{} {task}\n{text}", badge(record.status))
}

/// The score. If the agent did not complete, adds the score that its work would have.
fn worth(score: &Score) -> String {
    match score.judged {
        Some(judged) if judged > score.value => {
            format!("{:.2} (its work would score {judged:.2})", score.value)
        }
        _ => format!("{:.2}", score.value),
    }
}

fn agent(record: &Record) -> String {
    let parts = [
        Some(record.agent.kind.as_str()),
        record.agent.version.as_deref(),
        record.agent.model.as_deref(),
    ];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    super::tame(&parts.join(" · "))
}

fn outcome(record: &Record) -> String {
    let outcome = record.outcome.as_str();
    let Some(ms) = record.agent_ms() else {
        return format!("{outcome}; the agent was not run");
    };
    let times = match record.iterations.len() {
        0 | 1 => String::new(),
        times => format!(", started {times} times"),
    };
    format!("{outcome} after {:.1} s{times}", ms as f64 / 1000.0)
}

fn usage(usage: &Usage) -> String {
    let mut parts = Vec::new();
    let mut part = |value: Option<u64>, name: &str| {
        if let Some(value) = value {
            parts.push(format!("{} {name}", count(value)));
        }
    };
    part(usage.total.input_tokens, "in");
    part(usage.total.output_tokens, "out");
    part(usage.total.cache_read_tokens, "cache read");
    part(usage.total.cache_creation_tokens, "cache written");
    parts.push(
        usage
            .total
            .cost_usd
            .map_or("cost unknown".to_owned(), |cost| {
                format!("${:.4}", cost.dollars())
            }),
    );
    let source = match usage.source {
        UsageSource::ResultEvent => "reported by the agent",
        UsageSource::Messages => "summed over messages",
        UsageSource::Text => "parsed from text",
        UsageSource::Gateway => "counted by the gateway",
        UsageSource::Sidecar => "from the agent's metrics file",
        UsageSource::Iterations => "summed over iterations",
    };
    let least = if usage.lower_bound { "at least " } else { "" };
    format!("{least}{} ({source})", parts.join(" · "))
}

fn message(verdict: &Verdict) -> String {
    one_line(&super::tame(&verdict.message))
}

fn mark(status: VerdictStatus) -> &'static str {
    match status {
        VerdictStatus::Passed => "\x1b[32m✓\x1b[0m",
        VerdictStatus::Failed => "\x1b[31m✗\x1b[0m",
        VerdictStatus::Skipped => "–",
        VerdictStatus::Error => "\x1b[33m!\x1b[0m",
    }
}

pub(super) fn badge(status: TrialStatus) -> &'static str {
    match status {
        TrialStatus::Passed => "\x1b[1;32mPASSED\x1b[0m",
        TrialStatus::Failed => "\x1b[1;31mFAILED\x1b[0m",
        TrialStatus::Error => "\x1b[1;33mEXCLUDED\x1b[0m",
        TrialStatus::Interrupted => "\x1b[1;33mINTERRUPTED\x1b[0m",
    }
}

/// Differences between the calls and a recording; empty if they match.
pub fn replay(trial: &str, replay: Option<&ReplayRecord>) -> String {
    let Some(replay) = replay.filter(|replay| replay.missed + replay.unused > 0) else {
        return String::new();
    };
    let mut text = format!(
        "replay of {trial}: {} answered, {} not recorded, {} recorded but not used\n",
        replay.answered, replay.missed, replay.unused
    );
    for difference in replay.differences.iter().take(SHOWN_DIFFERENCES) {
        let line: String = difference.chars().filter(|c| !c.is_control()).collect();
        let _ = writeln!(text, "  {}", &line[..line.floor_char_boundary(200)]);
    }
    text
}

/// A number with thousands separators.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn count_has_thousands_separators() {
        for (number, expect) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), expect);
        }
    }
}
