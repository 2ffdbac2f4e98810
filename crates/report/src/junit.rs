//! The trials as JUnit XML: one test suite per agent, one test case per trial. Excluded trials are
//! errors and interrupted ones are skipped; neither is a failure.

use std::fmt::Write;

use proctor_record::record::TrialStatus;

use super::{
    markup,
    trials::{Trial, Trials},
};

/// All trials as JUnit XML.
pub fn junit(trials: &Trials) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = &trials.trials;
    let _ = writeln!(text, "<testsuites name=\"proctor\"{}>", counts(all));
    for own in all.chunk_by(|one, other| one.agent == other.agent) {
        let name = attribute(&trials.agents[own[0].agent].name);
        let _ = writeln!(text, "  <testsuite name=\"{name}\"{}>", counts(own));
        for trial in own {
            case(&mut text, trials, trial);
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn counts(trials: &[Trial]) -> String {
    let of = |status| trials.iter().filter(|trial| trial.status == status).count();
    let ms: u64 = trials.iter().filter_map(|trial| trial.duration_ms).sum();
    format!(
        " tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
        trials.len(),
        of(TrialStatus::Failed),
        of(TrialStatus::Error),
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
