//! Compares LiteLLM's log with the counts of the gateway in front of it: two programs that read the
//! same responses independently.

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use super::LOG_FILE;
use crate::model_access::calls_below;

/// The usage of a run, from LiteLLM's own log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiteLlmAccount {
    /// The answered calls.
    pub calls: u64,
    /// The output tokens of models.
    pub output_tokens: u64,
    /// Figures that differ from the gateway's by more than 1 %.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

/// A line of LiteLLM's log.
#[derive(Deserialize)]
struct LiteLlmLogLine {
    status: Option<String>,
    completion_tokens: Option<u64>,
}

/// The relevant fields of a line in a trial's call log.
#[derive(Deserialize)]
struct CallLogLine {
    usage: Option<OutputUsage>,
}

#[derive(Deserialize)]
struct OutputUsage {
    output: u64,
}

impl LiteLlmAccount {
    /// The account of a run, with all attempts and judges; `None` if there is no LiteLLM log.
    pub fn read(run: &Utf8Path) -> Option<LiteLlmAccount> {
        let answered: Vec<LiteLlmLogLine> = lines(&run.join(LOG_FILE))?;
        let answered = answered.iter();
        let answered = answered.filter(|call| call.status.as_deref() == Some("success"));
        // Both logs also contain calls that only count tokens.
        let reported =
            answered.filter_map(|call| call.completion_tokens.filter(|tokens| *tokens > 0));
        let reported: Vec<u64> = reported.collect();
        let counted = calls_below::<CallLogLine>(run).into_iter();
        let counted = counted.filter_map(|call| call.usage.map(|usage| usage.output));
        let counted: Vec<u64> = counted.filter(|tokens| *tokens > 0).collect();
        let mut account = LiteLlmAccount {
            calls: reported.len() as u64,
            output_tokens: reported.iter().sum(),
            differences: Vec::new(),
        };
        account.compare("calls", account.calls, counted.len() as u64);
        let written = counted.iter().sum();
        account.compare("output tokens", account.output_tokens, written);
        Some(account)
    }

    fn compare(&mut self, what: &str, litellm: u64, gateway: u64) {
        if litellm.abs_diff(gateway) * 100 > litellm.max(gateway) {
            let difference = format!("{what}: {litellm} by LiteLLM, {gateway} by the gateway");
            self.differences.push(difference);
        }
    }
}

/// Parses the lines of a file. Malformed lines are skipped, because the last one may be truncated.
fn lines<T: for<'de> Deserialize<'de>>(path: &Utf8Path) -> Option<Vec<T>> {
    let text = fs_err::read_to_string(path).ok()?;
    let read = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Some(read.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_access::CALLS_FILE;

    fn account(litellm: &[u64], gateway: &[&[u64]]) -> LiteLlmAccount {
        let dir = tempfile::tempdir().unwrap();
        let run = Utf8Path::from_path(dir.path()).unwrap();
        let line =
            |tokens: &u64| format!("{{\"status\":\"success\",\"completion_tokens\":{tokens}}}\n");
        let mut text: String = litellm.iter().map(line).collect();
        text.push_str("{\"status\":\"failure\",\"completion_tokens\":0}\n{\"status\":\"succ");
        fs_err::write(run.join(LOG_FILE), text).unwrap();
        for (number, calls) in gateway.iter().enumerate() {
            let artifacts = run.join(format!("trials/a/t/trial-{number}/artifacts"));
            fs_err::create_dir_all(&artifacts).unwrap();
            let line = |tokens: &u64| format!("{{\"usage\":{{\"output\":{tokens}}}}}\n");
            let text: String = calls.iter().map(line).collect();
            fs_err::write(artifacts.join(CALLS_FILE), text + "{\"usage\":null}\n").unwrap();
        }
        let planted = run.join("trials/a/t/trial-0/src-modified");
        fs_err::create_dir_all(&planted).unwrap();
        fs_err::write(planted.join(CALLS_FILE), "{\"usage\":{\"output\":9}}\n").unwrap();
        LiteLlmAccount::read(run).unwrap()
    }

    #[test]
    fn differences_are_reported_with_both_figures() {
        let same = account(&[10, 20], &[&[10], &[20]]);
        assert_eq!((same.calls, same.output_tokens), (2, 30));
        assert_eq!(same.differences, Vec::<String>::new());
        let lost = account(&[10], &[&[10], &[20]]);
        let expect = [
            "calls: 1 by LiteLLM, 2 by the gateway",
            "output tokens: 10 by LiteLLM, 30 by the gateway",
        ];
        assert_eq!(lost.differences, expect);
    }
}
