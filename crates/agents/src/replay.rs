//! The test helper of all adapters: passes recorded output to a session and shows the result,
//! configures agents, and launches them.
#![expect(
    clippy::needless_pass_by_value,
    reason = "settings are literals in most calls"
)]

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use camino::Utf8Path;
use proctor_document::parse_yaml;
use proctor_record::{
    outcome::{EndedBy, Ending},
    record::cli::Installed,
    session::{Conclusion, LineSource, Session, SessionEvent, SessionHost, Text},
};
use serde_json::{Map, Value};

use crate::agent::{
    Adapter, Agent, AgentSection, Endpoint, Launch, LaunchContext, LaunchError, PromptSource,
};

/// The input of a session.
#[derive(Default)]
pub(super) struct Recorded<'a> {
    pub(super) stdout: &'a str,
    pub(super) stderr: &'a str,
    pub(super) files: &'a [(&'a str, &'a str)],
    pub(super) ending: Ending,
}

/// Records the events of a session, one per line.
#[derive(Default)]
struct Notes {
    shown: String,
    calls: BTreeSet<String>,
}

impl SessionHost for Notes {
    fn event(&mut self, event: SessionEvent<'_>) {
        let line = match event {
            SessionEvent::Started {
                model,
                version,
                session_id,
            } => format!("started {model:?} {version:?} {}", session_id.is_some()),
            SessionEvent::Message {
                role,
                kind,
                content,
                parent,
                ..
            } => {
                let parent = parent.map_or_else(String::new, |parent| format!(" (under {parent})"));
                format!("{role:?} {kind:?}{parent}: {}", short(content))
            }
            SessionEvent::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                self.calls.extend(id.map(str::to_owned));
                format!("call {name} {}", short(arguments))
            }
            SessionEvent::ToolResult {
                id,
                content,
                is_error,
            } => {
                let content = content.map_or_else(String::new, short);
                let of = if self.calls.contains(id) {
                    ""
                } else {
                    " of an unknown call"
                };
                format!("result{of} error={is_error} {content}")
            }
            SessionEvent::Progress {
                input_tokens,
                output_tokens,
            } => format!("progress {input_tokens}/{output_tokens}"),
            SessionEvent::Partial(_) | SessionEvent::McpServers([]) => return,
            SessionEvent::Note(note) => format!("note {note}"),
            SessionEvent::McpServers(servers) => format!("mcp servers {servers:?}"),
        };
        writeln!(self.shown, "{}", line.trim_end()).unwrap();
    }
    fn reply(&mut self, _bytes: Vec<u8>) {}
    fn close_input(&mut self) {}
    fn end_within(&mut self, grace: Duration) {
        writeln!(self.shown, "end within {grace:?}").unwrap();
    }
}

fn short(text: Text<'_>) -> String {
    let (Text::Plain(text) | Text::Json(text) | Text::JsonString(text)) = text;
    let line = text.trim().replace('\n', "⏎");
    match line.char_indices().nth(70) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The conclusion of the session, and its events.
pub(super) fn play(mut session: Box<dyn Session>, recorded: &Recorded<'_>) -> (Conclusion, String) {
    let mut notes = Notes::default();
    for line in recorded.stderr.lines() {
        session.on_line(LineSource::Stderr, line.as_bytes(), &mut notes);
    }
    for line in recorded.stdout.lines() {
        session.on_line(LineSource::Stdout, line.as_bytes(), &mut notes);
    }
    for (path, text) in recorded.files {
        session.on_file(Utf8Path::new(path), text.as_bytes(), &mut notes);
    }
    let conclusion = session.finish(&recorded.ending, &mut notes);
    (conclusion, notes.shown)
}

/// The same for an adapter whose agent writes no files.
pub(super) fn conclude(
    adapter: &dyn Adapter,
    stdout: &str,
    stderr: &str,
    ending: Ending,
) -> (Conclusion, String) {
    let recorded = Recorded {
        stdout,
        stderr,
        ending,
        ..Recorded::default()
    };
    play(adapter.recorded_session().unwrap(), &recorded)
}

/// Events and conclusion of an adapter's session for this output, for a snapshot.
pub(super) fn replay(adapter: &dyn Adapter, stdout: &str, ending: Ending) -> String {
    let recorded = Recorded {
        stdout,
        ending,
        ..Recorded::default()
    };
    show(adapter.recorded_session().unwrap(), &recorded)
}

/// Events and conclusion, for a snapshot.
pub(super) fn show(session: Box<dyn Session>, recorded: &Recorded<'_>) -> String {
    let (conclusion, mut shown) = play(session, recorded);
    shown.push_str(&summary(&conclusion));
    shown
}

/// The conclusion only, for a snapshot.
pub(super) fn summary(conclusion: &Conclusion) -> String {
    let mut shown = format!("= {}", conclusion.outcome.as_str());
    for error in &conclusion.errors {
        let code = error.code.as_deref().unwrap_or_default();
        write!(shown, "\n! {code}: {}", short(Text::Plain(&error.message))).unwrap();
    }
    if let Some(usage) = &conclusion.usage {
        let total = &usage.total;
        let cost = total.cost_usd.map(proctor_record::usage::Usd::nanos);
        write!(
            shown,
            "\n$ in {:?} out {:?} read {:?} write {:?} nanos {cost:?} {:?} lower_bound={}",
            total.input_tokens,
            total.output_tokens,
            total.cache_read_tokens,
            total.cache_creation_tokens,
            usage.source,
            usage.lower_bound
        )
        .unwrap();
        for (model, figures) in &usage.per_model {
            write!(shown, "\n$ {model}: in {:?}", figures.input_tokens).unwrap();
        }
    }
    let counts = conclusion.counts;
    write!(
        shown,
        "\n# model {:?} turns {:?} retries {} unknown {} malformed {} denied {}",
        conclusion.model,
        conclusion.turns,
        counts.retries,
        counts.unknown_events,
        counts.malformed_lines,
        counts.permission_denials
    )
    .unwrap();
    shown
}

pub(super) fn exited(code: i32) -> Ending {
    Ending {
        code: Some(code),
        ..Ending::default()
    }
}

pub(super) fn ended(by: EndedBy) -> Ending {
    Ending {
        signal: Some(15),
        ended_by: Some(by),
        ..Ending::default()
    }
}

/// An agent from its `agent.config`, as YAML or JSON; or error messages, with hints. A config
/// without a prompt is that of a suite.
pub(super) fn configure(
    adapter: &dyn Adapter,
    config: impl ToString,
) -> Result<Box<dyn Agent>, Vec<String>> {
    configure_in(Utf8Path::new("/cases"), adapter, config)
}

/// The same with these files beside the test case; complaints are one text.
pub(super) fn configure_with(
    adapter: &dyn Adapter,
    config: impl ToString,
    files: &[(&str, &str)],
) -> Result<Box<dyn Agent>, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let folder = Utf8Path::from_path(folder.path()).unwrap();
    configure_in(folder, adapter, config).map_err(|complaints| complaints.join("\n"))
}

fn configure_in(
    folder: &Utf8Path,
    adapter: &dyn Adapter,
    config: impl ToString,
) -> Result<Box<dyn Agent>, Vec<String>> {
    // YAML does not allow a raw DEL, JSON does.
    let config = config.to_string().replace('\u{7f}', "\\u007f");
    let node = parse_yaml(&config).unwrap();
    let prompt = PromptSource::Text("Do it.".to_owned());
    let section = AgentSection {
        node: &node,
        agent_name: None,
        model: None,
        config: &node,
        folder,
        prompt: node.get("prompt").is_none().then_some(&prompt),
    };
    adapter.configure(&section).map_err(|faults| {
        let faults = faults.into_iter();
        let shown = faults.map(|fault| {
            let hint = fault.hint.unwrap_or_default();
            format!("{} ({hint})", fault.message)
        });
        shown.collect()
    })
}

/// The error messages for `config`, one per line.
pub(super) fn refusals(adapter: &dyn Adapter, config: impl ToString) -> String {
    let complaints = configure(adapter, config).err();
    complaints.unwrap_or_default().join("\n")
}

/// The input of a launch: help text, environment, endpoint.
pub(super) struct Start<'a> {
    pub(super) version: &'a str,
    pub(super) help: &'a str,
    pub(super) prompt: &'a str,
    pub(super) env: &'a [(&'a str, &'a str)],
    pub(super) endpoint: Option<Endpoint>,
    pub(super) mcp_servers: Map<String, Value>,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Start {
            version: "1.2.3",
            help: "",
            prompt: "Say \"hi\"\n$HOME",
            env: &[],
            endpoint: None,
            mcp_servers: Map::new(),
        }
    }
}

impl Start<'_> {
    pub(super) fn launch(
        &self,
        adapter: &dyn Adapter,
        config: impl ToString,
    ) -> Result<Launch, LaunchError> {
        let agent = configure(adapter, config).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let cli = Installed {
            path: "/bin/cli".into(),
            version: Some(self.version.to_owned()),
            help: self.help.to_owned(),
        };
        let launch = agent.launch(&LaunchContext {
            workspace: "/work".into(),
            home: "/home".into(),
            scratch: "/scratch".into(),
            prompt: self.prompt,
            cli: Some(&cli),
            env: &self.env.iter().map(owned).collect(),
            is_root: true,
            socket: None,
            reference: None,
            definitions: &std::collections::BTreeMap::new(),
            endpoint: self.endpoint.as_ref(),
            script: None,
            mcp_servers: &self.mcp_servers,
        })?;
        Ok(launch.written_for(&["/work", "/home", "/scratch"]))
    }
}

/// The launch of an agent with this help text, optionally with an endpoint.
pub(super) fn launch(
    adapter: &dyn Adapter,
    config: &str,
    help: &str,
    endpoint: Option<&Endpoint>,
) -> Result<Launch, LaunchError> {
    let start = Start {
        help,
        endpoint: endpoint.cloned(),
        ..Start::default()
    };
    start.launch(adapter, config)
}

/// A launch as text: arguments, variables and files.
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

/// The endpoint of the tests.
pub(super) fn endpoint() -> Endpoint {
    Endpoint {
        base_url: "http://127.0.0.1:4000".to_owned(),
        key: "virtual".to_owned(),
    }
}

/// Recorded output with some changed bytes, on which no session may panic.
pub(super) fn damaged(output: &str, damage: &[(proptest::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = output.as_bytes().to_vec();
    for (at, byte) in damage {
        *at.get_mut(&mut bytes) = *byte;
    }
    bytes
}

/// Reads any bytes to the end.
pub(super) fn survive(mut session: Box<dyn Session>, bytes: &[u8]) {
    let mut notes = Notes::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        session.on_line(LineSource::Stdout, line, &mut notes);
    }
    session.on_file(Utf8Path::new("/scratch/file"), bytes, &mut notes);
    let _ = session.finish(&exited(0), &mut notes);
}
