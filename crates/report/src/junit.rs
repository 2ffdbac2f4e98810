//! The trials as JUnit XML: one test suite per agent, one test case per trial. Excluded trials are
//! errors and interrupted ones are skipped; neither is a failure. Records that cannot be read are
//! errors in a test suite of their run.

use std::fmt::Write;

use proctor_record::record::TrialStatus;

use super::{
    markup,
    trials::{RunRow, Trial, Trials},
};

/// All trials as JUnit XML.
pub fn junit(trials: &Trials) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = &trials.trials;
    let lost = trials.runs.iter().map(|run| run.unreadable.len()).sum();
    let _ = writeln!(text, "<testsuites name=\"proctor\"{}>", counts(all, lost));
    for own in all.chunk_by(|one, other| one.agent == other.agent) {
        let name = attribute(&trials.agents[own[0].agent].name);
        let _ = writeln!(text, "  <testsuite name=\"{name}\"{}>", counts(own, 0));
        for trial in own {
            case(&mut text, trials, trial);
        }
        text.push_str("  </testsuite>\n");
    }
    for run in &trials.runs {
        unreadable(&mut text, run);
    }
    text.push_str("</testsuites>\n");
    text
}

/// The records of a run that could not be read: a failed build must not look like an empty one.
fn unreadable(text: &mut String, run: &RunRow) {
    if run.unreadable.is_empty() {
        return;
    }
    let class = attribute(&run.name);
    let total = counts(&[], run.unreadable.len());
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

/// The totals of trials, and of records that could not be read.
fn counts(trials: &[Trial], unreadable: usize) -> String {
    let of = |status| trials.iter().filter(|trial| trial.status == status).count();
    let ms: u64 = trials.iter().filter_map(|trial| trial.duration_ms).sum();
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        trials.len() + unreadable,
        of(TrialStatus::Failed),
        of(TrialStatus::Error) + unreadable,
        of(TrialStatus::Interrupted),
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
    let _ = match trial.status {
        TrialStatus::Passed => writeln!(text, "/>"),
        TrialStatus::Failed => writeln!(
            text,
            ">\n      <failure message=\"{message}\" type=\"{outcome}\"/>\n    </testcase>"
        ),
        TrialStatus::Error => writeln!(
            text,
            ">\n      <error message=\"{message}\" type=\"{outcome}\"/>\n    </testcase>"
        ),
        TrialStatus::Interrupted => writeln!(
            text,
            ">\n      <skipped message=\"{message}\"/>\n    </testcase>"
        ),
    };
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
