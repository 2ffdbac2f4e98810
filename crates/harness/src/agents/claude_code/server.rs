//! The WebSocket side of Claude Code's control protocol on its own, for adapter scripts: it waits
//! for the CLI, hands over the task, approves tools, and leaves what was used in a sidecar file.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    control::{Control, Policy},
    stream::{AfterResult, ClaudeSession, Form},
};
use crate::{
    outcome::{EndedBy, Ending, Outcome},
    session::{Conclusion, Session, SessionEvent, SessionHost, Source, Text},
    sidecar::Sidecar,
    socket::{Socket, SocketEvent},
};

/// What a conversation came to.
#[derive(Debug)]
pub struct Served {
    /// What became of the agent.
    pub outcome: Outcome,
    /// What went wrong, in words.
    pub errors: Vec<String>,
    /// What was used.
    pub sidecar: Sidecar,
}

/// The server of one task.
pub struct SdkServer {
    socket: Socket,
    silence: Duration,
}

impl SdkServer {
    /// Listen on a port of loopback; 0 is any free one. A CLI that then says nothing for
    /// `silence` is stuck.
    pub async fn listen(port: u16, silence: Duration) -> std::io::Result<SdkServer> {
        let socket = Socket::listen_on(port).await?;
        Ok(SdkServer { socket, silence })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.socket.address.port()
    }

    /// Hand over the task, and see the conversation through to its result. `show` is told what
    /// happens, a line at a time.
    pub async fn serve(
        mut self,
        task: String,
        show: &mut dyn FnMut(&str),
        cancel: &CancellationToken,
    ) -> Served {
        let inner = ClaudeSession::new(Form::StreamJson, AfterResult::KeepOpen);
        let mut session = Box::new(Control::new(inner, task, Policy::Allow));
        let mut desk = Desk::new(show);
        let mut ended_by = None;
        while !desk.is_done {
            let event = tokio::select! {
                event = timeout(self.silence, self.socket.next()) => event,
                () = cancel.cancelled() => {
                    ended_by = Some(EndedBy::Cancelled);
                    break;
                }
            };
            match event {
                Ok(Some(SocketEvent::Opened)) => session.on_open(&mut desk),
                Ok(Some(SocketEvent::Frame(frame))) => {
                    let lines = frame.split(|byte| *byte == b'\n');
                    for line in lines.filter(|line| !line.is_empty()) {
                        session.on_line(Source::Socket, line, &mut desk);
                    }
                }
                Ok(None) => break,
                Err(_silent) => {
                    ended_by = Some(EndedBy::IdleLimit);
                    break;
                }
            }
            for reply in desk.replies.drain(..) {
                self.socket.send(reply);
            }
        }
        let ending = Ending {
            code: desk.is_done.then_some(0),
            signal: None,
            ended_by,
        };
        let conclusion = session.finish(&ending, &mut desk);
        served(conclusion, desk.tools)
    }
}

fn served(conclusion: Conclusion, tools_used: BTreeSet<String>) -> Served {
    let usage = conclusion.usage.as_ref();
    Served {
        outcome: conclusion.outcome,
        errors: conclusion
            .errors
            .into_iter()
            .map(|error| error.message)
            .collect(),
        sidecar: Sidecar {
            input_tokens: usage.and_then(|usage| usage.total.input_tokens),
            output_tokens: usage.and_then(|usage| usage.total.output_tokens),
            cache_read_tokens: usage.and_then(|usage| usage.total.cache_read_tokens),
            cache_creation_tokens: usage.and_then(|usage| usage.total.cache_creation_tokens),
            turns: conclusion.turns,
            tools_used: Some(tools_used.into_iter().collect()),
            total_cost_usd: usage.and_then(|usage| usage.total.cost_usd),
            duration_ms: conclusion.times.duration_ms,
        },
    }
}

/// What the session sees of the world.
struct Desk<'a> {
    show: &'a mut dyn FnMut(&str),
    replies: Vec<Vec<u8>>,
    tools: BTreeSet<String>,
    is_done: bool,
}

impl<'a> Desk<'a> {
    fn new(show: &'a mut dyn FnMut(&str)) -> Desk<'a> {
        Desk {
            show,
            replies: Vec::new(),
            tools: BTreeSet::new(),
            is_done: false,
        }
    }
}

impl SessionHost for Desk<'_> {
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

    /// The session asks for the end once the result is there.
    fn end_within(&mut self, _grace: Duration) {
        self.is_done = true;
    }
}
