//! The page's data of one trial: its prompt, session in order, verdicts with their output, calls and
//! diff, each with a bounded size. Truncation is marked, and the full data is in the trial's directory.

use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom},
};

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{
    fs::{beneath::UntrustedDir, hex},
    record::{
        EVENTS_FILE, Entry, Event, FailedTest, LOG_FILE, PATCH_FILE, PROMPT_FILE, Record,
        SandboxRecord, Verdict, VerdictEvidence, VerdictStatus, delivery::DeliveryRecord,
    },
    text::{counted, is_direction},
    transcript::{Message, ToolCall},
};
use serde::{Deserialize, Serialize};

use super::super::read::record_path;

/// The calls that the gateway logged.
const CALLS_FILE: &str = "calls.ndjson";
/// The maximum size of all trials together in a page, in bytes.
const PAGE_BYTES: usize = 24 << 20;
/// The maximum size of logs that are read for the arguments and results of tools.
const LARGEST_LOG: u64 = 8 << 20;
/// The maximum number of failed tests of a verdict.
const MOST_TESTS: usize = 10;
/// The files of a trial that are listed at most.
const MOST_FILES: usize = 1000;

/// The size limits of one trial.
#[derive(Clone, Copy)]
pub(super) struct DetailLimits {
    /// Of the whole trial, in bytes.
    trial: usize,
    /// Of one text.
    text: usize,
    /// Whether the files of the trial are listed, because the page can load them.
    lists_files: bool,
}

impl DetailLimits {
    /// Limits for a trial that is loaded on demand.
    pub(super) const ON_DEMAND: DetailLimits = DetailLimits {
        trial: 16 << 20,
        text: 1 << 20,
        lists_files: true,
    };

    /// Limits with which the page stays usable with ten thousand trials, and a few trials are
    /// nearly complete.
    pub(super) fn for_trials(trials: usize) -> DetailLimits {
        let trial = (PAGE_BYTES / trials.max(1)).clamp(1500, 96 << 10);
        DetailLimits {
            trial,
            text: (trial / 8).clamp(200, 4000),
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
    delivery: Vec<String>,
    verdicts: Vec<VerdictDetail>,
    remarks: Vec<String>,
    timeline: Vec<Moment>,
    calls: Vec<ShownCall>,
    diff: String,
    files: Vec<String>,
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct VerdictDetail {
    evaluator: String,
    status: VerdictStatus,
    message: String,
    evidence: String,
    /// The tests that did not pass.
    failed_tests: Vec<FailedTest>,
    /// The end of the command's output, unless the verdict is passed.
    output: String,
    ms: u64,
}

/// The time, the kind, the text, and details on demand.
#[derive(Serialize)]
struct Moment(Option<u64>, &'static str, String, String);

impl Moment {
    fn size(&self) -> usize {
        self.2.len() + self.3.len() + 24
    }
}

#[derive(Serialize)]
struct ShownCall {
    ms: u64,
    status: String,
    text: String,
    is_fault: bool,
}

/// Reads the data of the trial in this directory. Missing files are skipped.
pub(super) fn read(folder: &Utf8Path, bounds: DetailLimits) -> Detail {
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
    detail.add_timeline(artifacts, bounds);
    detail.add_calls(artifacts, bounds);
    detail.add_diff(artifacts, bounds);
    detail
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
        ("started", record.started_at.clone()),
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
    let failed = shown.failed_tests.into_iter().take(MOST_TESTS);
    let failed = failed.map(|test| FailedTest {
        name: bounds.cut(&test.name),
        message: test.message.map(|text| bounds.cut(&text)),
    });
    let evidence = if verdict.metrics.is_empty() {
        String::new()
    } else {
        serde_json::to_string_pretty(&verdict.metrics).unwrap_or_default()
    };
    VerdictDetail {
        evaluator: verdict.evaluator.clone(),
        status: verdict.status,
        message: bounds.cut(&verdict.message),
        evidence: bounds.cut(&evidence),
        failed_tests: failed.collect(),
        output: bounds.cut(&shown.output),
        ms: verdict.duration_ms,
    }
}

/// A tool's arguments and result.
type Tools = BTreeMap<String, (String, String)>;

/// The parts of the log that the events do not have.
#[derive(Default, Deserialize)]
struct SessionDetail {
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
}

impl Detail {
    fn add_timeline(&mut self, artifacts: &Utf8Path, bounds: DetailLimits) {
        let ends = Ends::read(&artifacts.join(EVENTS_FILE), bounds.trial * 8);
        let log = artifacts.join(LOG_FILE);
        let is_small = fs::metadata(&log).is_ok_and(|it| it.len() <= LARGEST_LOG);
        // With thousands of trials the page has no room for the log.
        let is_wanted = is_small && (bounds.text >= 1000 || ends.is_empty());
        let session = is_wanted.then(|| fs::read(&log).ok()).flatten();
        let session =
            session.and_then(|bytes| serde_json::from_slice::<SessionDetail>(&bytes).ok());
        let session = session.unwrap_or_default();
        let mut moments = if ends.is_empty() {
            of_messages(&session.messages, bounds)
        } else {
            of_events(&ends, &tools(&session, bounds), bounds)
        };
        let left_out = keep_ends(&mut moments, bounds.trial / 2);
        if left_out > 0 || ends.skipped > 0 {
            self.left_out.push(format!(
                "The middle of the session is left out (entries: {left_out}, bytes: {}): {EVENTS_FILE} and {LOG_FILE} have it whole.",
                ends.skipped
            ));
        }
        self.timeline = moments;
    }

    fn add_calls(&mut self, artifacts: &Utf8Path, bounds: DetailLimits) {
        let ends = Ends::read(&artifacts.join(CALLS_FILE), bounds.trial);
        let calls = ends
            .lines()
            .filter_map(|line| serde_json::from_slice(line).ok());
        let all: Vec<LoggedCall> = calls.collect();
        let most = bounds.trial / 8 / 100 + 3;
        if all.len() > most || ends.skipped > 0 {
            self.left_out
                .push(format!("Some calls are omitted: {CALLS_FILE} is complete."));
        }
        self.calls = all.into_iter().take(most).map(LoggedCall::shown).collect();
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

/// The start and the end of a file of lines.
struct Ends {
    bytes: Vec<u8>,
    skipped: u64,
}

impl Ends {
    fn read(path: &Utf8Path, most: usize) -> Ends {
        Ends::try_read(path, most as u64).unwrap_or(Ends {
            bytes: Vec::new(),
            skipped: 0,
        })
    }

    fn try_read(path: &Utf8Path, most: u64) -> std::io::Result<Ends> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        if length <= most {
            file.read_to_end(&mut bytes)?;
            return Ok(Ends { bytes, skipped: 0 });
        }
        Read::by_ref(&mut file)
            .take(most / 2)
            .read_to_end(&mut bytes)?;
        let skipped = length - 2 * (most / 2);
        // The first and the last line may be incomplete and are skipped.
        bytes.push(b'\n');
        file.seek(SeekFrom::Start(most / 2 + skipped))?;
        file.take(most / 2).read_to_end(&mut bytes)?;
        Ok(Ends { bytes, skipped })
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'\n')
    }
}

fn tools(session: &SessionDetail, bounds: DetailLimits) -> Tools {
    let calls = session.tool_calls.iter().filter_map(|call| {
        let id = call.id.clone()?;
        let answer = call.result.as_deref().unwrap_or_default();
        Some((id, (bounds.cut(&call.arguments), bounds.cut(answer))))
    });
    calls.collect()
}

fn of_messages(messages: &[Message], bounds: DetailLimits) -> Vec<Moment> {
    let moments = messages.iter().map(|message| {
        let kind = match message.role {
            proctor_record::session::Role::Assistant => "said",
            _ => "message",
        };
        Moment(None, kind, bounds.cut(&message.content), String::new())
    });
    moments.collect()
}

fn of_events(ends: &Ends, tools: &Tools, bounds: DetailLimits) -> Vec<Moment> {
    let mut failed = std::collections::BTreeSet::new();
    let entries: Vec<Entry> = ends
        .lines()
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    for entry in &entries {
        if let Event::ToolResult { id, is_error: true } = &entry.event {
            failed.insert(id.as_str());
        }
    }
    let moment = |entry: &Entry| {
        let (kind, text, more) = shown(&entry.event, tools, bounds)?;
        let has_failed = matches!(&entry.event, Event::Tool { id: Some(id), .. } if failed.contains(id.as_str()));
        let kind = if has_failed { "tool failed" } else { kind };
        Some(Moment(Some(entry.t), kind, text, more))
    };
    entries.iter().filter_map(moment).collect()
}

/// The display of an event: its kind, its text, and details on demand.
fn shown(
    event: &Event,
    tools: &Tools,
    bounds: DetailLimits,
) -> Option<(&'static str, String, String)> {
    let none = String::new;
    Some(match event {
        Event::Phase { phase } => ("phase", phase.as_str().to_owned(), none()),
        Event::Iteration {
            number,
            agent,
            reason,
        } => {
            let text = format!("iteration {number}, {agent}: {}", reason.describe());
            ("phase", text, none())
        }
        Event::Session { model, version, .. } => {
            let known = [model, version].into_iter().flatten();
            let text: Vec<&str> = known.map(String::as_str).collect();
            ("session", text.join(" · "), none())
        }
        Event::Said(passage) => ("said", bounds.cut(&passage.text), none()),
        Event::Thought(passage) => ("thought", bounds.cut(&passage.text), none()),
        Event::Note(passage) => ("note", bounds.cut(&passage.text), none()),
        Event::Tool { id, tool, target } => {
            let known = id.as_ref().and_then(|id| tools.get(id));
            let more = known.map_or_else(none, |(arguments, answer)| {
                format!("{arguments}\n→ {answer}")
            });
            let target = target.as_deref().unwrap_or_default();
            ("tool", bounds.cut(&format!("{tool} {target}")), more)
        }
        Event::Judged {
            evaluator,
            status,
            message,
        } => {
            let status = serde_json::to_value(status).ok()?;
            let status = status.as_str()?.to_owned();
            (
                "judged",
                bounds.cut(&format!("{evaluator}: {status}: {message}")),
                none(),
            )
        }
        Event::Lost { events } => (
            "lost",
            format!("not kept: {}", counted(*events, "event")),
            none(),
        ),
        Event::RunStarted { .. }
        | Event::Started { .. }
        | Event::Saying(_)
        | Event::ToolResult { .. }
        | Event::Usage { .. }
        | Event::Ended(_)
        | Event::Unknown => return None,
    })
}

/// Keeps the start and the end of a session within a number of bytes. Returns the number of removed
/// entries.
fn keep_ends(moments: &mut Vec<Moment>, most: usize) -> usize {
    let fits = |sizes: &mut dyn Iterator<Item = usize>| {
        let mut sum = 0;
        sizes
            .take_while(|size| {
                sum += size;
                sum <= most / 2
            })
            .count()
    };
    let first = fits(&mut moments.iter().map(Moment::size));
    let last = fits(&mut moments.iter().rev().map(Moment::size));
    if first + last >= moments.len() {
        return 0;
    }
    let end = moments.len() - last;
    moments.drain(first..end).count()
}

/// The part of a logged call that is shown.
#[derive(Deserialize)]
struct LoggedCall {
    #[serde(default)]
    path: String,
    model: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    total_ms: u64,
    error: Option<String>,
    cost_nano_usd: Option<u64>,
    #[serde(default)]
    retries: u32,
}

impl LoggedCall {
    fn shown(self) -> ShownCall {
        let mut parts = vec![self.path];
        parts.extend(self.model);
        parts.extend(
            self.cost_nano_usd
                .map(|nanos| crate::dollars(nanos as f64 / 1e9)),
        );
        if self.retries > 0 {
            parts.push(format!("{} retries", self.retries));
        }
        parts.extend(self.error);
        ShownCall {
            ms: self.total_ms,
            status: self
                .status
                .map_or("none".to_owned(), |status| status.to_string()),
            is_fault: self.status.is_none_or(|status| status >= 400),
            text: cut(&parts.join(" · "), 300),
        }
    }
}

/// At most `most` bytes of a text, and the number of omitted bytes.
fn cut(text: &str, most: usize) -> String {
    let kept = text.floor_char_boundary(most);
    let shown = plain(&text[..kept]);
    if kept == text.len() {
        shown
    } else {
        format!("{shown}… ({} more bytes)", text.len() - kept)
    }
}

/// Text with control and bidirectional formatting characters, other than tabs and line ends, made visible.
fn plain(text: &str) -> String {
    let is_shown = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_direction(c));
    if text.chars().all(is_shown) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            c if is_shown(c) => shown.push(c),
            c if is_direction(c) => shown.extend(c.escape_unicode()),
            c => {
                let code = u32::from(c);
                let byte = u8::try_from(code).unwrap_or(0xff);
                shown.extend(["\\x", &hex(&[byte])]);
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_session_keeps_its_start_and_end() {
        let mut moments: Vec<Moment> = (0..100)
            .map(|t| Moment(Some(t), "said", "x".repeat(76), String::new()))
            .collect();
        assert_eq!(keep_ends(&mut moments, 2000), 80);
        let times: Vec<u64> = moments.iter().filter_map(|it| it.0).collect();
        assert_eq!((times[9], times[10], times[19]), (9, 90, 99));
    }

    #[test]
    fn truncated_text_is_marked() {
        assert_eq!(cut("ääää", 5), "ää… (4 more bytes)");
        assert_eq!(plain("a\x1b[0m\tb\r\n\0"), "a\\x1b[0m\tb\n\\x00");
        assert_eq!(plain("a\u{202e}b"), "a\\u{202e}b");
    }
}
