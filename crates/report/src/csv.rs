//! The trials as CSV (RFC 4180): one line each, unknown figures empty.

use super::trials::Trials;

/// The head of the table.
const HEAD: &str = "run,agent,task,category,trial,status,outcome,score,cost_usd,duration_ms,tokens,cached_tokens,components,source\r\n";

/// All trials, one line each.
pub fn csv(trials: &Trials) -> String {
    let mut text = String::from(HEAD);
    for trial in &trials.trials {
        let task = &trials.tasks[trial.task];
        let number = |value: Option<String>| value.unwrap_or_default();
        let components: Vec<String> = trial
            .components
            .iter()
            .map(|it| format!("{}={}", it.name, it.value))
            .collect();
        let cells = [
            quoted(&trials.runs[trial.run].name),
            quoted(&trials.agents[trial.agent].name),
            quoted(&task.name),
            quoted(task.category.as_deref().unwrap_or_default()),
            trial.trial.to_string(),
            trial.status.as_str().to_owned(),
            trial.outcome.as_str().to_owned(),
            number(trial.score.map(|it| it.to_string())),
            number(trial.cost_usd.map(|it| it.dollars().to_string())),
            number(trial.duration_ms.map(|it| it.to_string())),
            number(trial.tokens.map(|it| it.to_string())),
            number(trial.cached_tokens.map(|it| it.to_string())),
            quoted(&components.join(";")),
            trial.source.as_str().to_owned(),
        ];
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

/// A cell with any text. A text that a spreadsheet would interpret as a formula gets an apostrophe,
/// which spreadsheets do not show.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if guard.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_cell_and_not_a_formula() {
        for (text, expect) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"\nnow", "\"say \"\"hi\"\"\nnow\""),
            ("=1+1", "\"'=1+1\""),
        ] {
            assert_eq!(quoted(text), expect);
        }
    }
}
