//! Which texts, skills and MCP tools reach a model. Only short parts of each text are kept, and only numbers and places
//! of calls are reported, so that no prompt is stored.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem;
use proctor_model_api::Wire;
use serde_json::Value;

use super::conversation::{Conversation, RequestPart};

/// The number of parts of a text that are looked for.
const MOST_PARTS: usize = 8;
/// The longest part, in characters.
const LONGEST_PART: usize = 160;
/// A text with fewer letters and digits occurs by chance.
const FEWEST_LETTERS: usize = 8;

/// Something to look for in the requests of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watch {
    /// A text, such as the content of a context file.
    Text(TextProbe),
    /// A skill: it is announced by its description, and it fires when its body is sent or its tool is called.
    Skill {
        /// Its name.
        name: String,
        /// The description in its header.
        description: TextProbe,
        /// The instructions.
        body: TextProbe,
    },
    /// The tools of an MCP server, by the server's name.
    McpServer(String),
}

/// The distinctive lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextProbe {
    parts: Vec<ProbePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ProbePart {
    /// The line with single spaces.
    line: String,
    /// A part of it that is the same in JSON, for a fast search; `None` if there is none.
    raw: Option<String>,
}

impl TextProbe {
    /// The longest lines of the parts of a text.
    pub fn of(text: &str) -> TextProbe {
        let mut lines: Vec<String> = text.lines().map(normalized).collect();
        lines.retain(|line| letters(line) >= FEWEST_LETTERS);
        let mut seen = std::collections::BTreeSet::new();
        lines.retain(|line| seen.insert(line.clone()));
        let size = lines.len().div_ceil(MOST_PARTS).max(1);
        let parts = lines.chunks(size).filter_map(|chunk| {
            // Quotes are escaped in JSON, also twice, and some CLIs remove comments.
            let is_plain = |line: &&String| !line.contains(['"', '\\', '<']);
            let longest = |line: &&String| line.len();
            let plain = chunk.iter().filter(is_plain).max_by_key(longest);
            plain.or_else(|| chunk.iter().max_by_key(longest))
        });
        TextProbe {
            parts: parts.map(|line| ProbePart::of(line)).collect(),
        }
    }

    /// Whether the text is too short to be recognized.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether a body may contain the text.
    fn may_be_in(&self, body: &[u8]) -> bool {
        let is_in = |raw: &String| memmem::find(body, raw.as_bytes()).is_some();
        self.parts
            .iter()
            .any(|part| part.raw.as_ref().is_none_or(is_in))
    }

    /// The place of the text, if at least half of its parts are there.
    fn find(&self, texts: &[(RequestPart, String)]) -> Option<RequestPart> {
        let found = self.parts.iter().filter_map(|part| {
            let mut places = texts.iter();
            places.find(|(_, text)| text.contains(&part.line))
        });
        let places: Vec<RequestPart> = found.map(|(place, _)| *place).collect();
        let is_enough = !places.is_empty() && places.len() * 2 >= self.parts.len();
        is_enough.then(|| places[0])
    }
}

impl ProbePart {
    fn of(line: &str) -> ProbePart {
        let line: String = line.chars().take(LONGEST_PART).collect();
        // Spaces may be line breaks elsewhere, and other characters may be escaped.
        let words = line.split(|c: char| !c.is_ascii_alphanumeric());
        let raw = words.max_by_key(|word| word.len()).unwrap_or_default();
        ProbePart {
            raw: (raw.len() > 3).then(|| raw.to_owned()),
            line: line.trim_end().to_owned(),
        }
    }
}

/// The first request with a watched item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The number of the call.
    pub call: u64,
    /// The part of the request.
    pub place: RequestPart,
}

/// The first appearance and use of a watched item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Where it reached the model first.
    pub reached: Option<Sighting>,
    /// The first call after a skill fired or a tool of a server was called.
    pub used: Option<u64>,
}

/// Looks for watched items in requests.
#[derive(Debug, Default)]
pub struct Watcher {
    items: Vec<Watch>,
    seen: Mutex<Vec<Observation>>,
}

impl Watcher {
    /// A watcher that has seen no request.
    pub fn new(items: Vec<Watch>) -> Watcher {
        Watcher {
            seen: Mutex::new(vec![Observation::default(); items.len()]),
            items,
        }
    }

    /// Reads the request of a call, unless there is nothing new in it.
    pub fn observe(&self, wire: Wire, body: &[u8], call: u64) {
        let is_open = {
            let seen = self.lock();
            let mut items = self.items.iter().zip(seen.iter());
            items.any(|(item, seen)| !item.is_settled(seen) && item.may_be_in(body))
        };
        if !is_open {
            return;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        self.take(&Conversation::of_request(wire, &body), call);
    }

    /// Reads a line of an agent's own output, for a session without a gateway. Its call number is unknown: 0.
    pub fn observe_session(&self, line: &[u8]) {
        let is_new = !self.items.is_empty() && line.first() == Some(&b'{');
        if let (true, Ok(event)) = (is_new, serde_json::from_slice::<Value>(line)) {
            self.take(&Conversation::of_session(&event), 0);
        }
    }

    fn take(&self, conversation: &Conversation, call: u64) {
        let texts = conversation.texts.iter();
        let texts: Vec<_> = texts
            .map(|(place, text)| (*place, normalized(text)))
            .collect();
        let mut seen = self.lock();
        for (item, seen) in self.items.iter().zip(seen.iter_mut()) {
            // Concurrent calls are not read in the order of their numbers.
            let is_earlier = |known: u64| call < known;
            if let Some(place) = item.reached(&texts, conversation)
                && seen.reached.is_none_or(|known| is_earlier(known.call))
            {
                seen.reached = Some(Sighting { call, place });
            }
            if item.is_used(&texts, conversation) && seen.used.is_none_or(is_earlier) {
                seen.used = Some(call);
            }
        }
    }

    /// The observation of each item.
    pub fn report(&self) -> Vec<Observation> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Observation>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Whether more requests cannot tell more.
    fn is_settled(&self, seen: &Observation) -> bool {
        let has_use = !matches!(self, Watch::Text(_));
        seen.reached.is_some() && (seen.used.is_some() || !has_use)
    }

    fn may_be_in(&self, body: &[u8]) -> bool {
        match self {
            Watch::Text(probe) => probe.may_be_in(body),
            Watch::Skill {
                name,
                description,
                body: instructions,
            } => {
                memmem::find(body, name.as_bytes()).is_some()
                    || description.may_be_in(body)
                    || instructions.may_be_in(body)
            }
            // The name may be written with other separators.
            Watch::McpServer(_) => true,
        }
    }

    fn reached(
        &self,
        texts: &[(RequestPart, String)],
        conversation: &Conversation,
    ) -> Option<RequestPart> {
        match self {
            Watch::Text(probe) => probe.find(texts),
            Watch::Skill {
                description, body, ..
            } => description.find(texts).or_else(|| body.find(texts)),
            Watch::McpServer(name) => {
                let mut tools = conversation.tools.iter();
                if tools.any(|tool| is_tool_of(name, tool)) {
                    return Some(RequestPart::Tools);
                }
                let mut texts = conversation.texts.iter();
                let listed = texts.find(|(_, text)| lists_tool_of(name, text));
                listed.map(|(place, _)| *place)
            }
        }
    }

    fn is_used(&self, texts: &[(RequestPart, String)], conversation: &Conversation) -> bool {
        let mut calls = conversation.calls.iter();
        match self {
            Watch::Text(_) => false,
            Watch::Skill { name, body, .. } => {
                let is_own = |(tool, input): &(String, Value)| {
                    tool.to_lowercase().contains("skill") && names(input, name)
                };
                body.find(texts).is_some() || calls.any(is_own)
            }
            Watch::McpServer(name) => calls.any(|(tool, _)| is_tool_of(name, tool)),
        }
    }
}

/// Whether a text lists a tool of an MCP server on a line of its own. Claude Code announces tools by
/// their names, and sends their definitions when the model asks for them.
fn lists_tool_of(server: &str, text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| {
        line.starts_with("mcp__") && !line.contains(char::is_whitespace) && is_tool_of(server, line)
    })
}

/// Whether a tool is one of an MCP server: `mcp__NAME__tool` and its shorter forms.
fn is_tool_of(server: &str, tool: &str) -> bool {
    let plain = |text: &str| {
        text.to_lowercase()
            .replace(|c: char| !c.is_alphanumeric(), "_")
    };
    let (server, tool) = (plain(server), plain(tool));
    let tool = tool.trim_start_matches("mcp").trim_start_matches('_');
    let rest = tool.strip_prefix(server.trim_start_matches('_'));
    rest.is_some_and(|rest| rest.starts_with('_') && rest.len() > 1)
}

/// Whether an argument of a call is this text.
fn names(input: &Value, name: &str) -> bool {
    match input {
        Value::String(text) => {
            let own = text.rsplit([':', '/']).next().unwrap_or(text);
            own == name
                || serde_json::from_str(text)
                    .is_ok_and(|inner: Value| !inner.is_string() && names(&inner, name))
        }
        Value::Array(items) => items.iter().any(|item| names(item, name)),
        Value::Object(map) => map.values().any(|item| names(item, name)),
        _ => false,
    }
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// The text with single spaces.
fn normalized(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !made.is_empty() {
            made.push(' ');
        }
        made.push_str(word);
    }
    made
}

#[cfg(test)]
mod tests;
