//! The standalone WebSocket server of Claude Code's control protocol, for adapter scripts: it waits
//! for the CLI, sends the task, approves tools, and writes the usage to a sidecar file.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use proctor_agents::claude_code::{
    control::{ControlSession, PromptPolicy},
    stream::{AfterResult, ClaudeSession, StreamFormat},
};
use proctor_record::{
    outcome::{EndedBy, Ending, Outcome},
    record::metrics_file::AgentMetrics,
    session::{Conclusion, LineSource, Session, SessionEvent, SessionHost, Text},
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::socket::{Farewell, Socket, SocketEvent};

/// The error of a client that disconnected.
const LOST: &str = "Claude Code closed the connection before its result and did not reconnect";

/// How long to wait for a client that initialises by itself, as in the flat form of the protocol.
/// Current CLIs wait for the server.
const GREETING: Duration = Duration::from_millis(250);

/// How long to wait for a client that disconnected before its result. Claude Code retries three
/// times within seven seconds.
const COMING_BACK: Duration = Duration::from_secs(15);

/// The result of a session.
#[derive(Debug)]
pub struct Served {
    /// The outcome of the agent.
    pub outcome: Outcome,
    /// The errors as text.
    pub errors: Vec<String>,
    /// The usage; `None` if there was no result and it is unknown.
    pub sidecar: Option<AgentMetrics>,
}

/// The server of one task.
pub struct SdkServer {
    socket: Socket,
    silence: Duration,
    farewell: Option<Farewell>,
}

/// The events of the server loop.
enum Step {
    Event(Option<SocketEvent>),
    Greet,
    Silent,
    Cancelled,
}

impl SdkServer {
    /// Listens on a loopback port; 0 selects a free one. A CLI without messages for `silence` is
    /// stuck.
    pub async fn listen(port: u16, silence: Duration) -> std::io::Result<SdkServer> {
        let socket = Socket::listen_on(port).await?;
        Ok(SdkServer {
            socket,
            silence,
            farewell: None,
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.socket.address.port()
    }

    /// Sends the task and serves the session until its result. `show` gets the events, one line at
    /// a time.
    pub async fn serve(
        &mut self,
        task: String,
        show: &mut dyn FnMut(&str),
        cancel: &CancellationToken,
    ) -> Served {
        let inner = ClaudeSession::new(StreamFormat::StreamJson, AfterResult::KeepOpen);
        let mut session = Box::new(ControlSession::new(inner, task, PromptPolicy::Allow));
        let mut session_host = ServedSession::new(show);
        let mut ending = Ending::default();
        let (mut greet_at, mut is_lost) = (None, false);
        while !session_host.is_done {
            match self.next(greet_at, is_lost, cancel).await {
                Step::Event(Some(SocketEvent::Opened)) => {
                    is_lost = false;
                    greet_at = Some(Instant::now() + GREETING);
                }
                Step::Event(Some(SocketEvent::Frame(frame))) => {
                    let lines = frame.split(|byte| *byte == b'\n');
                    for line in lines.filter(|line| !line.is_empty()) {
                        session.on_line(LineSource::Socket, line, &mut session_host);
                    }
                    greet_at = greet_at.filter(|_| !session.is_flat());
                }
                Step::Event(Some(SocketEvent::Closed)) => (is_lost, greet_at) = (true, None),
                Step::Greet => {
                    greet_at = None;
                    session.on_open(&mut session_host);
                }
                Step::Silent if is_lost => {
                    session_host.errors.push(LOST.to_owned());
                    break;
                }
                Step::Silent => {
                    ending.ended_by = Some(EndedBy::IdleLimit);
                    break;
                }
                Step::Cancelled => {
                    ending.ended_by = Some(EndedBy::Cancelled);
                    break;
                }
                Step::Event(None) => break,
            }
            for reply in session_host.replies.drain(..) {
                self.socket.send(reply);
            }
        }
        ending.code = session_host.is_done.then_some(0);
        self.farewell = match session.is_flat() {
            _ if is_lost => None,
            true => Some(Farewell::Normal),
            false => Some(Farewell::Final),
        };
        let conclusion = session.finish(&ending, &mut session_host);
        served(conclusion, session_host)
    }

    /// Closes the connection, so that the client can exit.
    pub async fn close(self) {
        if let Some(farewell) = self.farewell {
            self.socket.close(farewell).await;
        }
    }

    async fn next(
        &mut self,
        greet_at: Option<Instant>,
        is_lost: bool,
        cancel: &CancellationToken,
    ) -> Step {
        let patience = if is_lost {
            self.silence.min(COMING_BACK)
        } else {
            self.silence
        };
        let greet = async {
            match greet_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = timeout(patience, self.socket.next()) => event.map_or(Step::Silent, Step::Event),
            () = greet => Step::Greet,
            () = cancel.cancelled() => Step::Cancelled,
        }
    }
}

fn served(conclusion: Conclusion, session_host: ServedSession<'_>) -> Served {
    let usage = conclusion.usage.as_ref();
    let total = usage.map(|usage| &usage.total);
    // The file of a finished task must not contain null: missing figures are 0.
    let none = session_host.is_done.then_some(0);
    let sidecar = AgentMetrics {
        input_tokens: total.and_then(|total| total.input_tokens).or(none),
        output_tokens: total.and_then(|total| total.output_tokens).or(none),
        cache_read_tokens: total.and_then(|total| total.cache_read_tokens).or(none),
        cache_creation_tokens: total.and_then(|total| total.cache_creation_tokens).or(none),
        turns: conclusion.turns.or(none),
        tools_used: Some(session_host.tools.into_iter().collect()),
        total_cost_usd: total.and_then(|total| total.cost_usd),
        duration_ms: conclusion.times.duration_ms,
    };
    let errors = conclusion.errors.into_iter().map(|error| error.message);
    Served {
        outcome: conclusion.outcome,
        errors: session_host.errors.into_iter().chain(errors).collect(),
        sidecar: (session_host.is_done || usage.is_some()).then_some(sidecar),
    }
}

/// The environment of the session.
struct ServedSession<'a> {
    show: &'a mut dyn FnMut(&str),
    replies: Vec<Vec<u8>>,
    errors: Vec<String>,
    tools: BTreeSet<String>,
    is_done: bool,
}

impl<'a> ServedSession<'a> {
    fn new(show: &'a mut dyn FnMut(&str)) -> ServedSession<'a> {
        ServedSession {
            show,
            replies: Vec::new(),
            errors: Vec::new(),
            tools: BTreeSet::new(),
            is_done: false,
        }
    }
}

impl SessionHost for ServedSession<'_> {
    fn event(&mut self, event: SessionEvent<'_>) {
        match event {
            SessionEvent::Message { content, .. } => match content {
                Text::Plain(text) | Text::JsonString(text) | Text::Json(text) => (self.show)(text),
            },
            SessionEvent::ToolCall { name, .. } => {
                (self.show)(&format!("tool: {name}"));
                self.tools.insert(name.to_owned());
            }
            SessionEvent::Note(note) => (self.show)(note),
            _ => {}
        }
    }

    fn reply(&mut self, bytes: Vec<u8>) {
        self.replies.push(bytes);
    }

    fn close_input(&mut self) {}

    /// The session requests the end after the result.
    fn end_within(&mut self, _grace: Duration) {
        self.is_done = true;
    }
}
