//! The trials as JUnit XML: one test suite per agent, one test case per trial. Excluded trials are
//! errors and interrupted ones are skipped; neither is a failure. Floor and ceiling agents fail no
//! build, unless there are no others. Records that cannot be read are errors in a test suite of their
//! run.

use std::fmt::Write;

use proctor_record::record::TrialStatus;

use super::{
    markup,
    model::agent::Role,
    trials::{RunRow, Trial, Trials},
};

/// All trials as JUnit XML.
pub fn junit(trials: &Trials) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = &trials.trials;
    let lost = trials.runs.iter().map(|run| run.unreadable.len()).sum();
    let total = counts(trials, all, lost);
    let _ = writeln!(text, "<testsuites name=\"proctor\"{total}>");
    for own in all.chunk_by(|one, other| one.agent == other.agent) {
        let name = attribute(&trials.agents[own[0].agent].name);
        let counts = counts(trials, own, 0);
        let _ = writeln!(text, "  <testsuite name=\"{name}\"{counts}>");
        for trial in own {
            case(&mut text, trials, trial);
        }
        text.push_str("  </testsuite>\n");
    }
    for run in &trials.runs {
        unreadable(&mut text, trials, run);
    }
    text.push_str("</testsuites>\n");
    text
}

/// The records of a run that could not be read: a failed build must not look like an empty one.
fn unreadable(text: &mut String, trials: &Trials, run: &RunRow) {
    if run.unreadable.is_empty() {
        return;
    }
    let class = attribute(&run.name);
    let total = counts(trials, &[], run.unreadable.len());
    let _ = writeln!(text, "  <testsuite name=\"{class}\"{total}>");
    for record in &run.unreadable {
        let name = attribute(record);
        let _ = writeln!(
            text,
            "    <testcase name=\"{name}\" classname=\"{class}\" time=\"0.000\">\n      <error message=\"unreadable or misplaced record\" type=\"record\"/>\n    </testcase>"
        );
    }
    text.push_str("  </testsuite>\n");
}

/// The result of a test case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CaseResult {
    Passed,
    Failure,
    Error,
    Skipped,
    /// A failed or excluded trial of an agent that does not decide, with its role.
    NotCounted(Role),
}

impl CaseResult {
    fn of(trials: &Trials, trial: &Trial) -> CaseResult {
        let role = Role::of(&trials.agents[trial.agent]);
        let has_contender = || {
            let mut agents = trials.agents.iter();
            agents.any(|agent| Role::of(agent) == Role::Contender)
        };
        match trial.status {
            TrialStatus::Passed => CaseResult::Passed,
            TrialStatus::Interrupted => CaseResult::Skipped,
            _ if role != Role::Contender && has_contender() => CaseResult::NotCounted(role),
            TrialStatus::Failed => CaseResult::Failure,
            TrialStatus::Error => CaseResult::Error,
        }
    }
}

/// The totals of trials, and of records that could not be read.
fn counts(all: &Trials, trials: &[Trial], unreadable: usize) -> String {
    let results: Vec<CaseResult> = trials.iter().map(|it| CaseResult::of(all, it)).collect();
    let of = |wanted: &[CaseResult]| results.iter().filter(|it| wanted.contains(it)).count();
    let not_counted = [Role::Floor, Role::Ceiling].map(CaseResult::NotCounted);
    let ms: u64 = trials.iter().filter_map(|trial| trial.duration_ms).sum();
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        trials.len() + unreadable,
        of(&[CaseResult::Failure]),
        of(&[CaseResult::Error]) + unreadable,
        of(&[CaseResult::Skipped]) + of(&not_counted),
        seconds(ms)
    )
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn case(text: &mut String, trials: &Trials, trial: &Trial) {
    let many = trials.runs.len() > 1;
    let run = if many {
        format!(" of {}", trials.runs[trial.run].name)
    } else {
        String::new()
    };
    let task = &trials.tasks[trial.task].name;
    let name = attribute(&format!("{task}, trial {}{run}", trial.trial));
    let class = attribute(&trials.agents[trial.agent].name);
    let time = seconds(trial.duration_ms.unwrap_or(0));
    let _ = write!(
        text,
        "    <testcase name=\"{name}\" classname=\"{class}\" time=\"{time}\""
    );
    let message = attribute(&trial.message);
    let outcome = trial.outcome.as_str();
    let element = match CaseResult::of(trials, trial) {
        CaseResult::Passed => {
            text.push_str("/>\n");
            return;
        }
        CaseResult::Failure => format!("failure message=\"{message}\" type=\"{outcome}\""),
        CaseResult::Error => format!("error message=\"{message}\" type=\"{outcome}\""),
        CaseResult::Skipped => format!("skipped message=\"{message}\""),
        CaseResult::NotCounted(role) => format!(
            "skipped message=\"not counted, {} agent: {message}\"",
            role.as_str()
        ),
    };
    let _ = writeln!(text, ">\n      <{element}/>\n    </testcase>");
}

/// The value of an attribute, without characters that XML cannot represent.
fn attribute(text: &str) -> String {
    let known = text
        .chars()
        .filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'));
    let plain: String = known
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    markup::escape(&plain)
}
