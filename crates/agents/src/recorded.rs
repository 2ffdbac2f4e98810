//! For tests: plays a recorded output to an adapter's session and shows what it made of it.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use camino::Utf8Path;
use proctor_document::{Fault, Node, Span, Value};
use proctor_record::{
    outcome::{EndedBy, Ending},
    record::cli::Installed,
    session::{Conclusion, MessageKind, SessionEvent, SessionHost, Source, Text},
    usage::Figures,
};
use proptest::prelude::*;

use crate::agent::{Adapter, Agent, AgentSection, Endpoint, Launch, LaunchContext, LaunchError};

/// The events of a session, one line each.
#[derive(Default)]
pub(super) struct Told(pub(super) String);

impl SessionHost for Told {
    fn event(&mut self, event: SessionEvent<'_>) {
        let line = match event {
            SessionEvent::Started {
                model, session_id, ..
            } => {
                format!(
                    "started {} {}",
                    model.unwrap_or("?"),
                    session_id.unwrap_or("?")
                )
            }
            SessionEvent::Message {
                role,
                kind,
                content,
                parent,
                ..
            } => {
                let verb = match kind {
                    MessageKind::Text => "says",
                    MessageKind::Thinking => "thinks",
                };
                let parent = parent.map_or_else(String::new, |parent| format!(" (under {parent})"));
                format!("{role:?} {verb}{parent} {}", shown(content))
            }
            SessionEvent::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                format!("calls {name} [{}] {}", id.unwrap_or("?"), shown(arguments))
            }
            SessionEvent::ToolResult {
                id,
                content,
                is_error,
            } => {
                let state = if is_error { "failed" } else { "done" };
                let content = content.map_or_else(|| "nothing".to_owned(), shown);
                format!("{state} [{id}] {content}")
            }
            SessionEvent::Progress {
                input_tokens,
                output_tokens,
            } => {
                format!("progress {input_tokens} in, {output_tokens} out")
            }
            SessionEvent::Note(note) => format!("note {note:?}"),
        };
        self.0.push_str(&line);
        self.0.push('\n');
    }
    fn reply(&mut self, _bytes: Vec<u8>) {}
    fn close_input(&mut self) {}
    fn end_within(&mut self, grace: Duration) {
        writeln!(self.0, "asks to be ended within {grace:?}").unwrap();
    }
}

fn shown(text: Text<'_>) -> String {
    match text {
        Text::Plain(text) => format!("{text:?}"),
        Text::JsonString(json) | Text::Json(json) => json.to_owned(),
    }
}

/// How the session of `adapter` concludes on this output.
pub(super) fn conclude(
    adapter: &dyn Adapter,
    stdout: &str,
    stderr: &str,
    ending: Ending,
) -> (Conclusion, Told) {
    let mut told = Told::default();
    let mut session = adapter.recorded_session().unwrap();
    for line in stderr.lines() {
        session.on_line(Source::Stderr, line.as_bytes(), &mut told);
    }
    for line in stdout.lines() {
        session.on_line(Source::Stdout, line.as_bytes(), &mut told);
    }
    let conclusion = session.finish(&ending, &mut told);
    (conclusion, told)
}

/// Everything that comes of an output, as text.
pub(super) fn replay(adapter: &dyn Adapter, stdout: &str, ending: Ending) -> String {
    let (conclusion, Told(mut text)) = conclude(adapter, stdout, "", ending);
    let outcome = conclusion.outcome.as_str();
    writeln!(text, "{outcome}, last word {:?}", conclusion.final_text).unwrap();
    if let Some(usage) = &conclusion.usage {
        let bound = if usage.lower_bound { "at least " } else { "" };
        writeln!(
            text,
            "used {bound}{} ({:?})",
            figures(&usage.total),
            usage.source
        )
        .unwrap();
        for (model, used) in &usage.per_model {
            writeln!(text, "  {model}: {}", figures(used)).unwrap();
        }
    }
    let counts = conclusion.counts;
    writeln!(
        text,
        "{} retries, {} unknown, {} malformed",
        counts.retries, counts.unknown_events, counts.malformed_lines
    )
    .unwrap();
    for error in &conclusion.errors {
        let code = error.code.as_deref().unwrap_or_default();
        writeln!(text, "{code}: {}", error.message).unwrap();
    }
    text
}

fn figures(figures: &Figures) -> String {
    let shown = |figure: Option<u64>| figure.map_or_else(|| "?".to_owned(), |n| n.to_string());
    format!(
        "{} in, {} out, {} cache read, {} cache written",
        shown(figures.input_tokens),
        shown(figures.output_tokens),
        shown(figures.cache_read_tokens),
        shown(figures.cache_creation_tokens)
    )
}

pub(super) fn exited(code: i32) -> Ending {
    Ending {
        code: Some(code),
        ..Ending::default()
    }
}

pub(super) fn ended(by: EndedBy) -> Ending {
    Ending {
        signal: Some(9),
        ended_by: Some(by),
        ..Ending::default()
    }
}

/// Recorded lines, each of them cut, garbled or spliced somewhere.
pub(super) fn damaged(recorded: &'static str) -> impl Strategy<Value = String> {
    let damage = (0..3_u8, any::<prop::sample::Index>(), any::<char>());
    let count = recorded.lines().count();
    prop::collection::vec(damage, count).prop_map(move |damages| {
        let lines = recorded.lines().zip(damages);
        let lines = lines.map(|(line, (kind, at, with))| {
            let at = line.floor_char_boundary(at.index(line.len().max(1)));
            let (head, tail) = line.split_at(at);
            match kind {
                0 => line.to_owned(),
                1 => head.to_owned(),
                _ => format!("{head}{with}{}", tail.get(1..).unwrap_or_default()),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// The agent that `config` makes, or what is wrong with it.
pub(super) fn configured(
    adapter: &dyn Adapter,
    config: &serde_json::Value,
) -> Result<Box<dyn Agent>, Vec<Fault>> {
    let config = node(config);
    adapter.configure(&AgentSection {
        node: &Node::empty_map(Span::default()),
        agent_name: None,
        model: None,
        config: &config,
        folder: Utf8Path::new("/"),
        prompt: None,
    })
}

/// Faults of `config`, each with its hint.
pub(super) fn refusals(adapter: &dyn Adapter, config: &serde_json::Value) -> String {
    let faults = configured(adapter, config).err().unwrap_or_default();
    let lines = faults.iter().map(|fault| {
        let hint = fault.hint.as_deref().unwrap_or("none");
        format!("{} | {hint}\n", fault.message)
    });
    lines.collect()
}

fn node(value: &serde_json::Value) -> Node {
    use serde_json::Value as Json;
    let span = Span::default();
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(value) => Value::Int(value.as_i64().unwrap()),
        Json::String(value) => Value::String(value.clone()),
        Json::Array(items) => Value::List(items.iter().map(node).collect()),
        Json::Object(members) => {
            let members = members.iter();
            Value::Map(
                members
                    .map(|(key, value)| (span, key.clone(), node(value)))
                    .collect(),
            )
        }
    };
    Node { span, value }
}

/// How `config` is launched: with this help text, in this environment, towards this endpoint.
pub(super) struct Start<'a> {
    pub(super) help: &'a str,
    pub(super) prompt: &'a str,
    pub(super) env: &'a [(&'a str, &'a str)],
    pub(super) endpoint: Option<Endpoint>,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Start {
            help: "",
            prompt: "do it",
            env: &[],
            endpoint: None,
        }
    }
}

impl Start<'_> {
    pub(super) fn launch(
        &self,
        adapter: &dyn Adapter,
        config: &serde_json::Value,
    ) -> Result<Launch, LaunchError> {
        let agent = configured(adapter, config).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let cli = Installed {
            path: "/bin/agent".into(),
            version: Some("1.2.3".to_owned()),
            help: self.help.to_owned(),
        };
        let launch = agent.launch(&LaunchContext {
            workspace: Utf8Path::new("/repo"),
            home: Utf8Path::new("/home"),
            scratch: Utf8Path::new("/scratch"),
            prompt: self.prompt,
            cli: Some(&cli),
            env: &self.env.iter().map(owned).collect(),
            is_root: true,
            socket: None,
            reference: None,
            definitions: &BTreeMap::new(),
            endpoint: self.endpoint.as_ref(),
            script: None,
        })?;
        Ok(launch.written_for(&["/repo", "/home", "/scratch"]))
    }
}

pub(super) fn gateway() -> Endpoint {
    Endpoint {
        base_url: "http://127.0.0.1:4000".to_owned(),
        key: "virtual".to_owned(),
    }
}

/// A launch as text: the words, the files, and the variables that it sets by itself.
pub(super) fn shown_launch(launch: &Launch) -> String {
    let mut text = format!("{}\n", launch.argv.join(" "));
    for (name, value) in &launch.env {
        writeln!(text, "{name}={value}").unwrap();
    }
    for (path, bytes) in &launch.files {
        write!(text, "--- {path}\n{}", String::from_utf8_lossy(bytes)).unwrap();
    }
    text
}
