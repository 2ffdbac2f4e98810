//! The page's data of one trial: its prompt, session in order, verdicts with their output, calls and
//! diff, each with a bounded size. Truncation is marked, and the full data is in the trial's directory.

use std::{collections::BTreeMap, io::Read};

use camino::Utf8Path;
use fs_err as fs;
use jiff::Timestamp;
use proctor_record::{
    fs::beneath::UntrustedDir,
    record::{
        FailedTest, PATCH_FILE, PROMPT_FILE, Record, SandboxRecord, Verdict, VerdictEvidence,
        VerdictStatus, delivery::DeliveryRecord,
    },
    text::counted,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    super::read::record_path,
    bounded::{FileEnds, cut, plain},
    calls::{CALLS_FILE, LoggedCall, ShownCall},
    session::{self, Moment},
};

/// The system prompt and the tools that the gateway saw.
const CONTEXT_FILE: &str = "model-context.json";
/// The files of a trial that are listed at most.
const MOST_FILES: usize = 1000;
/// The smallest size of a trial with which it is worth showing, in bytes.
pub(super) const SMALLEST_TRIAL: usize = 1500;
/// The size of a trial of which next to nothing is left out, in bytes.
const LARGEST_TRIAL: usize = 4 << 20;

/// The size limits of one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct DetailLimits {
    /// Of the whole trial, in bytes.
    pub(super) trial: usize,
    /// Of one text.
    pub(super) text: usize,
    /// Of a log that is read for whole texts.
    pub(super) log: u64,
    /// Of the failed tests of a verdict.
    pub(super) tests: usize,
    /// Whether the files of the trial are listed, because the page can load them.
    pub(super) lists_files: bool,
}

impl DetailLimits {
    /// Limits for a trial that is loaded on demand. Longer texts are loaded on demand too.
    pub(super) const ON_DEMAND: DetailLimits = DetailLimits {
        trial: 16 << 20,
        text: 16 << 10,
        log: 256 << 20,
        tests: 1000,
        lists_files: true,
    };

    /// Limits for a single entry of a session.
    pub(super) const WHOLE: DetailLimits = DetailLimits {
        trial: 512 << 20,
        text: 256 << 20,
        ..DetailLimits::ON_DEMAND
    };

    /// Limits for a trial that is part of the page.
    pub(super) fn embedded(bytes: usize) -> DetailLimits {
        let trial = bytes.clamp(SMALLEST_TRIAL, LARGEST_TRIAL);
        DetailLimits {
            trial,
            text: (trial / 8).max(200),
            log: 8 << 20,
            tests: (trial / 1000).clamp(10, 1000),
            lists_files: false,
        }
    }

    fn cut(self, text: &str) -> String {
        cut(text, self.text)
    }
}

/// One trial.
#[derive(Default, Serialize)]
pub(super) struct Detail {
    facts: BTreeMap<&'static str, String>,
    prompt: String,
    /// The system prompt and the names of the tools, as the gateway saw them.
    system: String,
    tools: Vec<String>,
    /// The user's messages of the first call, with context files.
    messages: Vec<String>,
    delivery: Vec<String>,
    verdicts: Vec<VerdictDetail>,
    remarks: Vec<String>,
    pub(super) timeline: Vec<Moment>,
    calls: Vec<ShownCall>,
    diff: String,
    files: Vec<String>,
    /// The command that runs the trial again.
    rerun: String,
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct VerdictDetail {
    evaluator: String,
    status: VerdictStatus,
    message: String,
    /// The evaluator's own data, or the start of its text if it is long.
    evidence: Value,
    /// The tests that did not pass.
    failed_tests: Vec<FailedTest>,
    /// The number of others that did not pass.
    more_tests: usize,
    /// The file with the whole output.
    log: Option<String>,
    /// The end of the command's output, unless the verdict is passed.
    output: String,
    ms: u64,
}

/// Reads the data of the trial in this directory. Missing files are skipped.
pub(super) fn read(folder: &Utf8Path, suite: Option<&str>, bounds: DetailLimits) -> Detail {
    let mut detail = Detail::default();
    let path = record_path(folder);
    let record = fs::read(&path).ok();
    let record = record.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
    let Some((record, artifacts)) = record.zip(path.parent()) else {
        detail
            .left_out
            .push("The trial's directory no longer exists.".to_owned());
        return detail;
    };
    detail.facts = facts(&record);
    let prompt = fs::read(artifacts.join(PROMPT_FILE)).unwrap_or_default();
    detail.prompt = bounds.cut(&String::from_utf8_lossy(&prompt));
    detail.delivery = record.delivery.iter().map(delivery_line).collect();
    detail.verdicts = record
        .verdicts
        .iter()
        .map(|it| shown_verdict(it, artifacts, bounds))
        .collect();
    if bounds.lists_files {
        detail.files = UntrustedDir::new(artifacts.to_owned()).files(&[]);
        detail.files.truncate(MOST_FILES);
    }
    let errors = record.errors.iter().map(|error| error.message.as_str());
    let remarks = errors.chain(record.notes.iter().map(String::as_str));
    detail.remarks = remarks.take(20).map(|text| bounds.cut(text)).collect();
    detail.rerun = rerun(&record, suite);
    detail.add_context(artifacts, bounds);
    let (timeline, note) = session::read(artifacts, bounds);
    detail.timeline = timeline;
    detail.left_out.extend(note);
    detail.add_calls(artifacts, record.started_at.parse().ok(), bounds);
    detail.add_diff(artifacts, bounds);
    detail
}

/// The command that runs the trial again, from the directory in which its run was started.
fn rerun(record: &Record, suite: Option<&str>) -> String {
    let quoted = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if !text.is_empty() && text.chars().all(is_plain) {
            text.to_owned()
        } else {
            format!("'{}'", plain(text).replace('\'', "'\\''"))
        }
    };
    match suite {
        Some(suite) => format!(
            "proctor run {} --agent {} --task {} --trials 1",
            quoted(suite),
            quoted(&record.agent.name),
            quoted(&record.task.name)
        ),
        None => format!("proctor run {}", quoted(&record.task.config_file)),
    }
}

fn facts(record: &Record) -> BTreeMap<&'static str, String> {
    let sandbox = match &record.sandbox {
        SandboxRecord::Local => "local".to_owned(),
        SandboxRecord::Docker(it) => {
            format!("{} ({}), network {}", it.image, it.image_id, it.network)
        }
    };
    let mut facts = BTreeMap::from([
        ("agent", record.agent.kind.clone()),
        ("sandbox", sandbox),
        ("started", started(&record.started_at)),
    ]);
    let mut add = |name, value: Option<String>| {
        if let Some(value) = value {
            facts.insert(name, value);
        }
    };
    add("version", record.agent.version.clone());
    add("model", record.agent.model.clone());
    add("turns", record.turns.map(|it| it.to_string()));
    let iterations = record.iterations.iter();
    let iterations = iterations.map(|it| format!("{}: {}", it.number, it.describe()));
    let iterations: Vec<String> = iterations.collect();
    add(
        "iterations",
        (!iterations.is_empty()).then(|| iterations.join("; ")),
    );
    let change = record.diff.as_ref();
    add(
        "change",
        change.map(|it| {
            format!(
                "{}, +{} −{}",
                counted(it.files_changed, "file"),
                it.lines_added,
                it.lines_removed
            )
        }),
    );
    facts
}

/// A time to the second.
fn started(at: &str) -> String {
    let time: Option<Timestamp> = at.parse().ok();
    time.map_or_else(
        || plain(at),
        |it| it.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// Whether a part of a treatment reached the model.
fn delivery_line(part: &DeliveryRecord) -> String {
    let kind = part.kind.as_str();
    let state = match (part.delivered, part.first_call) {
        (Some(true), Some(call)) => format!("reached the model in call {call}"),
        (Some(true), None) => "reached the model".to_owned(),
        (Some(false), _) => "did not reach the model".to_owned(),
        (None, _) => "delivery unknown".to_owned(),
    };
    let digest = part.digest.as_deref().and_then(|it| it.get(..12));
    let digest = digest.map_or(String::new(), |it| format!(" {it}"));
    let used = match part.used {
        Some(true) => ", and was used",
        Some(false) => ", and was not used",
        None => "",
    };
    format!("{kind} {}{digest} {state}{used}", part.name)
}

fn shown_verdict(verdict: &Verdict, artifacts: &Utf8Path, bounds: DetailLimits) -> VerdictDetail {
    let shown = if verdict.status == VerdictStatus::Passed {
        VerdictEvidence::default()
    } else {
        VerdictEvidence::read(verdict, artifacts, bounds.text as u64)
    };
    let more_tests = shown.failed_tests.len().saturating_sub(bounds.tests);
    let failed = shown.failed_tests.into_iter().take(bounds.tests);
    let failed = failed.map(|test| FailedTest {
        name: bounds.cut(&test.name),
        message: test.message.map(|text| bounds.cut(&text)),
    });
    let log = verdict.artifacts.iter().find(|it| it.kind == "log");
    VerdictDetail {
        evaluator: verdict.evaluator.clone(),
        status: verdict.status,
        message: bounds.cut(&verdict.message),
        evidence: evidence(verdict, bounds),
        failed_tests: failed.collect(),
        more_tests,
        log: log.map(|it| it.path.clone()),
        output: bounds.cut(&shown.output),
        ms: verdict.duration_ms,
    }
}

fn evidence(verdict: &Verdict, bounds: DetailLimits) -> Value {
    if verdict.metrics.is_empty() {
        return Value::Null;
    }
    let text = serde_json::to_string_pretty(&verdict.metrics).unwrap_or_default();
    if text.len() > bounds.text {
        return Value::String(bounds.cut(&text));
    }
    serde_json::to_value(&verdict.metrics).map_or(Value::Null, visible)
}

/// Data with the control characters of its texts made visible.
fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain(&text)),
        Value::Array(values) => values.into_iter().map(visible).collect(),
        Value::Object(values) => values
            .into_iter()
            .map(|(name, value)| (plain(&name), visible(value)))
            .collect(),
        other => other,
    }
}

/// The context that the gateway saw.
#[derive(Default, Deserialize)]
struct SeenContext {
    system: Option<String>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    messages: Vec<String>,
}

impl Detail {
    fn add_context(&mut self, artifacts: &Utf8Path, bounds: DetailLimits) {
        let bytes = fs::read(artifacts.join(CONTEXT_FILE)).unwrap_or_default();
        let context: SeenContext = serde_json::from_slice(&bytes).unwrap_or_default();
        self.system = bounds.cut(&context.system.unwrap_or_default());
        let names = context.tools.iter();
        let names = names.filter_map(|it| it.pointer("/function/name").or(it.get("name")));
        let names = names.filter_map(Value::as_str).map(|it| cut(it, 100));
        self.tools = names.take(bounds.trial / 1000).collect();
        let messages = context.messages.iter().take(bounds.trial / 1000);
        self.messages = messages.map(|text| bounds.cut(text)).collect();
    }

    fn add_calls(
        &mut self,
        artifacts: &Utf8Path,
        started: Option<Timestamp>,
        bounds: DetailLimits,
    ) {
        let ends = FileEnds::read(&artifacts.join(CALLS_FILE), bounds.trial);
        let calls = ends
            .lines()
            .filter_map(|line| serde_json::from_slice(line).ok());
        let all: Vec<LoggedCall> = calls.collect();
        let most = bounds.trial / 8 / 200 + 3;
        if all.len() > most || ends.skipped > 0 {
            self.left_out
                .push(format!("Some calls are omitted: {CALLS_FILE} is complete."));
        }
        let shown = all.into_iter().take(most).map(|it| it.shown(started));
        self.calls = shown.collect();
    }

    fn add_diff(&mut self, artifacts: &Utf8Path, bounds: DetailLimits) {
        let Ok(mut file) = fs::File::open(artifacts.join(PATCH_FILE)) else {
            return;
        };
        let most = bounds.trial / 3;
        let mut bytes = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        if Read::by_ref(&mut file)
            .take(limit)
            .read_to_end(&mut bytes)
            .is_err()
        {
            return;
        }
        let length = file.metadata().map_or(0, |it| it.len());
        if length > limit {
            // An incomplete line would look like a different change.
            let end = bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .unwrap_or(bytes.len());
            bytes.truncate(end);
            self.left_out.push(format!(
                "The change is truncated after {} of {length} bytes: {PATCH_FILE} is complete.",
                bytes.len()
            ));
        }
        self.diff = plain(&String::from_utf8_lossy(&bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_evidence_stay_visible() {
        let verdict: Verdict = serde_json::from_value(serde_json::json!({
            "evaluator": "judge", "status": "failed", "message": "", "duration_ms": 1, "timestamp": "",
            "metrics": {"quote": "a\u{202e}b\u{1b}[0m"},
        }))
        .unwrap();
        let value = evidence(&verdict, DetailLimits::ON_DEMAND);
        assert_eq!(value["quote"], "a\\u{202e}b\\x1b[0m");
        let short = evidence(
            &verdict,
            DetailLimits {
                text: 10,
                ..DetailLimits::ON_DEMAND
            },
        );
        assert!(short.as_str().unwrap().contains("more bytes"), "{short}");
    }
}
