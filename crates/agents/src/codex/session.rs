//! Reads the JSON lines of `codex exec --json`: a thread, its turns, and the items of a turn.

use std::{collections::BTreeSet, time::Duration};

use proctor_record::{
    outcome::Ending,
    session::{SessionEvent, SessionHost},
    usage::{Usage, UsageSource},
};
use serde_json::{Value, json};

use super::super::{
    fault::ApiFault,
    mcp,
    reader::Reader,
    tokens::{Tokens, number},
    transcript::{Failed, Transcript, answer, call, text, think},
    verdict::End,
};

/// The prefix of a failed call that is retried.
const RETRY: &str = "Reconnecting...";
/// The message of a CLI without a connection, which it repeats without limit.
const WAITING: &str = "waiting for network";
/// The message of a CLI that ends because of a server with `required = true`.
const NO_MCP_SERVER: &str = "required MCP servers failed to initialize: ";
/// The number of consecutive messages after which the CLI is ended.
const MAX_WAITS: u32 = 6;

/// Reads one `codex exec`.
#[derive(Default)]
pub(super) struct CodexReader {
    transcript: Transcript,
    tokens: Tokens,
    /// Tool calls without a result so far.
    open: BTreeSet<String>,
    /// Whether the model did anything at all.
    has_acted: bool,
    /// The number of consecutive messages about a missing connection.
    waits: u32,
}

impl CodexReader {
    /// Reads the end of the only turn. Its figures are sums over its calls, including cached input
    /// and reasoning.
    fn turn_completed(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let figure = |name: &str| number(event, &format!("/usage/{name}"));
        let tokens = Tokens {
            input: figure("input_tokens"),
            output: figure("output_tokens"),
            cache_read: figure("cached_input_tokens"),
            cache_write: figure("cache_write_input_tokens"),
            cost: None,
        };
        self.tokens = tokens.without_cached_input();
        self.transcript.end = if self.has_acted {
            End::Done
        } else {
            End::Failed(ApiFault::said("the model's reply was empty"))
        };
        self.tokens.report(host);
    }

    fn error(&mut self, message: &str, host: &mut dyn SessionHost) {
        if message.starts_with(RETRY) {
            self.transcript.retry(message, host);
            self.transcript.end = End::Retrying(fault(message));
            self.waits += u32::from(message.contains(WAITING));
            if self.waits == MAX_WAITS {
                host.end_within(Duration::ZERO);
            }
        } else {
            self.transcript.end = failure(message);
        }
    }

    fn item(&mut self, item: &Value, stage: Stage, host: &mut dyn SessionHost) {
        let kind = text(item, "/type").unwrap_or_default();
        let said = text(item, "/text").unwrap_or_default();
        if kind == "error" {
            // A warning of any kind.
            let message = text(item, "/message").unwrap_or_default();
            host.event(SessionEvent::Note(message));
            return;
        }
        self.transcript.end = End::Open;
        self.waits = 0;
        match (kind, stage) {
            ("agent_message", Stage::Over) => {
                self.has_acted |= !said.trim().is_empty();
                self.transcript.said(said, host);
            }
            ("reasoning", Stage::Over) => think(host, said, None),
            ("agent_message" | "reasoning", Stage::Begun) => {}
            _ => match tool(kind, item) {
                Some(tool) => self.tool(item, &tool, stage, host),
                None => self.transcript.counts.unknown_events += 1,
            },
        }
    }

    /// Reports a tool. Some tools are reported at their start and end, some only at their end.
    fn tool(
        &mut self,
        item: &Value,
        (name, arguments): &(String, Value),
        stage: Stage,
        host: &mut dyn SessionHost,
    ) {
        self.has_acted = true;
        let id = text(item, "/id").unwrap_or_default();
        if !self.open.contains(id) {
            call(host, Some(id), name, arguments, None);
            self.open.insert(id.to_owned());
        }
        if stage == Stage::Over {
            self.open.remove(id);
            answer(host, id, &output(item), failed(item));
        }
    }
}

impl Reader for CodexReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        match text(event, "/type").unwrap_or_default() {
            "thread.started" => {
                self.transcript.session_id = text(event, "/thread_id").map(str::to_owned);
                self.transcript.started(host);
            }
            "turn.started" => self.transcript.end = End::Open,
            "turn.completed" => self.turn_completed(event, host),
            "turn.failed" => {
                let message = text(event, "/error/message").unwrap_or_default();
                self.transcript.end = failure(message);
            }
            "error" => self.error(text(event, "/message").unwrap_or_default(), host),
            kind @ ("item.started" | "item.updated" | "item.completed") => {
                if let Some(item) = event.get("item") {
                    let is_over = kind == "item.completed";
                    let stage = if is_over { Stage::Over } else { Stage::Begun };
                    self.item(item, stage, host);
                }
            }
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    /// Servers without `required = true` that do not connect are not reported at all.
    fn stderr(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let stated = String::from_utf8_lossy(line);
        let failed = stated.split_once(NO_MCP_SERVER).map(|(_, failed)| failed);
        if let Some(failed) = failed.filter(|_| !matches!(self.transcript.end, End::Unready { .. }))
        {
            let names = failed.split("; ").filter_map(|one| one.split(": ").next());
            mcp::report_failed(names, host);
            self.transcript.end = End::Unready {
                code: "MCP_SERVER_FAILED",
                why: format!("could not start its MCP servers: {failed}"),
            };
        }
        self.transcript.stderr(line, host);
    }

    fn finish(&mut self, _ending: &Ending, _host: &mut dyn SessionHost) -> Option<Usage> {
        // A turn reports its tokens only at its end: the usage of an interrupted turn is unknown.
        self.tokens.usage(UsageSource::ResultEvent)
    }
}

/// The stage of an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begun,
    Over,
}

/// The tool of an item, and its input.
fn tool(kind: &str, item: &Value) -> Option<(String, Value)> {
    let arguments = match kind {
        "command_execution" => json!({ "command": item["command"] }),
        "file_change" => json!({ "changes": item["changes"] }),
        "web_search" => json!({ "query": item["query"] }),
        "todo_list" => json!({ "items": item["items"] }),
        "mcp_tool_call" => {
            let server = text(item, "/server").unwrap_or_default();
            let tool = text(item, "/tool").unwrap_or_default();
            return Some((format!("mcp__{server}__{tool}"), item["arguments"].clone()));
        }
        _ => return None,
    };
    Some((kind.to_owned(), arguments))
}

/// The result of a tool.
fn output(item: &Value) -> String {
    let stated = text(item, "/aggregated_output").or(text(item, "/error/message"));
    match stated {
        Some(stated) => stated.to_owned(),
        None if item["result"].is_null() => String::new(),
        None => item["result"].to_string(),
    }
}

fn failed(item: &Value) -> Failed {
    let has_failed = matches!(text(item, "/status"), Some("failed" | "declined"));
    let code = item["exit_code"].as_i64().unwrap_or_default();
    if has_failed || code != 0 {
        Failed::Yes
    } else {
        Failed::No
    }
}

fn failure(message: &str) -> End {
    if message.contains("ran out of room in the model's context window") {
        return End::gave_up("CONTEXT_FULL", "filled the model's context window");
    }
    End::Failed(fault(message))
}

/// The failed call from a message, which may contain the status.
fn fault(message: &str) -> ApiFault {
    let status = ["unexpected status ", "last status: "]
        .iter()
        .find_map(|before| message.split_once(before))
        .and_then(|(_, after)| after.get(..3)?.parse().ok());
    ApiFault {
        status,
        message: message.to_owned(),
    }
}
