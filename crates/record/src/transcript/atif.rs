//! Writes a session as an ATIF v1.8 trajectory, the format of leaderboards: a step for each turn of
//! the agent, with its tool calls and their results. Steps are written in the order of their start,
//! as soon as they are complete.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Write},
};

use serde_json::{Value, json, value::RawValue};

use super::{
    Account,
    escape::write_string,
    text::{lossy_text, strip_ansi, write_text},
};
use crate::{
    session::{MessageKind, Role, SessionEvent, Text},
    usage::Usage,
};

const SCHEMA: &str = "ATIF-v1.8";
/// The maximum size of steps that wait for results; older ones are then written incomplete.
const MAX_HELD_BYTES: usize = 8 << 20;

/// Data about a session in addition to its output.
#[derive(Clone, Debug, Default)]
pub struct SessionInfo {
    /// The agent's prompt, if its output does not repeat it.
    pub prompt: Option<String>,
    /// The system prompt, if the gateway observed it.
    pub system: Option<String>,
    /// The tools in OpenAI's format, if the gateway observed them.
    pub tools: Vec<Value>,
}

/// Writes one trajectory from the events of one session.
pub struct AtifWriter<W: Write> {
    out: W,
    known: SessionInfo,
    steps: VecDeque<OpenStep>,
    /// The number of the current step of each agent, by the call that started the agent.
    turns: BTreeMap<String, u64>,
    /// The numbers of steps with calls that wait for results, by call id.
    waiting: BTreeMap<String, VecDeque<u64>>,
    held_bytes: usize,
    /// The number of written steps, which is the number of the first held step.
    written: u64,
    calls: u64,
    failure: Option<io::Error>,
}

/// A step that is not written yet. Texts are held as JSON, in their final form.
#[derive(Default)]
struct OpenStep {
    source: &'static str,
    message: JsonText,
    reasoning: JsonText,
    timestamp: Option<String>,
    calls: Vec<ToolCallStep>,
    loose: Vec<LooseAnswer>,
    /// The call that started the sub-agent of this step.
    parent: Option<String>,
    is_over: bool,
}

/// A JSON string literal without its closing quote; empty for an empty text.
#[derive(Default)]
struct JsonText(Vec<u8>);

impl JsonText {
    fn push(&mut self, text: Text<'_>) {
        let mut literal = Vec::new();
        write_text(&mut literal, text).expect("writing to memory cannot fail");
        literal.pop();
        if self.is_empty() {
            self.0 = literal;
        } else {
            self.0.extend_from_slice(br"\n\n");
            self.0.extend_from_slice(&literal[1..]);
        }
    }

    fn is_empty(&self) -> bool {
        // The literal has an opening quote.
        self.0.len() <= 1
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.is_empty() {
            return out.write_all(b"\"\"");
        }
        out.write_all(&self.0)?;
        out.write_all(b"\"")
    }
}

struct ToolCallStep {
    id: String,
    name: String,
    arguments: Box<RawValue>,
    answer: Option<ToolAnswer>,
}

struct ToolAnswer {
    content: Option<JsonText>,
    is_error: bool,
}

/// A result whose call is not in this step.
struct LooseAnswer {
    call: String,
    answer: ToolAnswer,
}

impl<W: Write> AtifWriter<W> {
    /// A writer of one trajectory.
    pub fn new(out: W, known: SessionInfo) -> AtifWriter<W> {
        let mut writer = AtifWriter {
            out,
            known,
            steps: VecDeque::new(),
            turns: BTreeMap::new(),
            waiting: BTreeMap::new(),
            held_bytes: 0,
            written: 0,
            calls: 0,
            failure: None,
        };
        let system = writer.known.system.take().map(|text| ("system", text));
        let user = writer.known.prompt.clone().map(|text| ("user", text));
        for (source, message) in system.into_iter().chain(user) {
            writer.stated(source, Text::Plain(&message), None, None);
        }
        writer
    }

    /// Adds an event of a session. A write error is reported by `finish`.
    pub fn event(&mut self, event: SessionEvent<'_>) {
        match event {
            SessionEvent::Message {
                role,
                kind,
                content,
                timestamp,
                parent,
            } => match role {
                Role::Assistant => self.said(kind, content, timestamp, parent),
                Role::User if self.repeats_prompt(content) => self.known.prompt = None,
                Role::User => self.stated("user", content, timestamp, parent),
                Role::System => self.stated("system", content, timestamp, parent),
            },
            SessionEvent::ToolCall {
                id,
                name,
                arguments,
                parent,
            } => self.called(id, name, arguments, parent),
            SessionEvent::ToolResult {
                id,
                content,
                is_error,
            } => {
                let content = content.map(|text| {
                    let mut literal = JsonText::default();
                    literal.push(text);
                    literal
                });
                self.answered(id, ToolAnswer { content, is_error });
            }
            SessionEvent::Started { .. }
            | SessionEvent::Partial(_)
            | SessionEvent::Progress { .. }
            | SessionEvent::McpServers(_)
            | SessionEvent::Note(_) => {}
        }
        self.release();
    }

    /// Completes the trajectory. Returns the output.
    pub fn finish(mut self, account: &Account) -> io::Result<W> {
        if self.written == 0 && self.steps.is_empty() {
            let nothing = Text::Plain("The session has no messages.");
            self.stated("system", nothing, None, None);
        }
        while let Some(step) = self.steps.pop_front() {
            self.write(&step);
        }
        if let Some(error) = self.failure {
            return Err(error);
        }
        self.out.write_all(b"]")?;
        for (key, value) in closing(account, std::mem::take(&mut self.known.tools), self.written) {
            write!(self.out, ",\n{}:{value}", json!(key))?;
        }
        self.out.write_all(b"}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn said(
        &mut self,
        kind: MessageKind,
        text: Text<'_>,
        timestamp: Option<&str>,
        parent: Option<&str>,
    ) {
        let step = self.turn(parent);
        let place = match kind {
            MessageKind::Text => &mut step.message,
            MessageKind::Thinking => &mut step.reasoning,
        };
        let before = place.0.len();
        place.push(text);
        let added = place.0.len() - before;
        step.timestamp = step.timestamp.take().or(timestamp.map(str::to_owned));
        self.held_bytes += added;
    }

    /// Whether the session repeats the prompt, which is already written.
    fn repeats_prompt(&self, text: Text<'_>) -> bool {
        let prompt = self.known.prompt.as_ref();
        prompt.is_some_and(|prompt| *prompt == words(text))
    }

    fn stated(
        &mut self,
        source: &'static str,
        text: Text<'_>,
        timestamp: Option<&str>,
        parent: Option<&str>,
    ) {
        self.end_turn(parent);
        let mut message = JsonText::default();
        message.push(text);
        self.push(OpenStep {
            source,
            message,
            timestamp: timestamp.map(str::to_owned),
            parent: parent.map(str::to_owned),
            is_over: true,
            ..OpenStep::default()
        });
    }

    fn called(&mut self, id: Option<&str>, name: &str, arguments: Text<'_>, parent: Option<&str>) {
        self.calls += 1;
        let call = ToolCallStep {
            id: id.map_or_else(|| format!("call-{}", self.calls), str::to_owned),
            name: name.to_owned(),
            arguments: object(arguments),
            // A call without an id cannot have a result.
            answer: id.is_none().then_some(ToolAnswer {
                content: None,
                is_error: false,
            }),
        };
        self.held_bytes += call.arguments.get().len();
        let number = self.turn_number(parent);
        if call.answer.is_none() {
            let waiting = self.waiting.entry(call.id.clone()).or_default();
            waiting.push_back(number);
        }
        self.step(number).calls.push(call);
    }

    fn answered(&mut self, id: &str, answer: ToolAnswer) {
        self.held_bytes += answer.size();
        let Some(number) = self.take_waiting(id) else {
            return self.turn(None).loose.push(LooseAnswer {
                call: id.to_owned(),
                answer,
            });
        };
        let mut calls = self.step(number).calls.iter_mut();
        if let Some(call) = calls.find(|call| call.id == id && call.answer.is_none()) {
            call.answer = Some(answer);
        }
    }

    /// The number of the first step with a waiting call of this id.
    fn take_waiting(&mut self, id: &str) -> Option<u64> {
        let numbers = self.waiting.get_mut(id)?;
        let first = numbers.pop_front();
        if numbers.is_empty() {
            self.waiting.remove(id);
        }
        first
    }

    /// The held step with this number.
    fn step(&mut self, number: u64) -> &mut OpenStep {
        let at = usize::try_from(number - self.written).expect("the number of held steps fits");
        &mut self.steps[at]
    }

    /// The current turn of `parent`'s agent: a new one if the last has all results.
    fn turn(&mut self, parent: Option<&str>) -> &mut OpenStep {
        let number = self.turn_number(parent);
        self.step(number)
    }

    fn turn_number(&mut self, parent: Option<&str>) -> u64 {
        let key = parent.unwrap_or_default();
        let last = self.turns.get(key).copied();
        let going = last.filter(|number| *number >= self.written);
        if let Some(number) = going
            && self
                .step(number)
                .calls
                .iter()
                .all(|call| call.answer.is_none())
        {
            return number;
        }
        self.end_turn(parent);
        self.push(OpenStep {
            source: "agent",
            parent: parent.map(str::to_owned),
            ..OpenStep::default()
        });
        let number = self.written + self.steps.len() as u64 - 1;
        self.turns.insert(key.to_owned(), number);
        number
    }

    /// Ends the current turn of `parent`'s agent.
    fn end_turn(&mut self, parent: Option<&str>) {
        let number = self.turns.remove(parent.unwrap_or_default());
        if let Some(number) = number.filter(|number| *number >= self.written) {
            self.step(number).is_over = true;
        }
    }

    fn push(&mut self, step: OpenStep) {
        self.held_bytes += step.message.0.len();
        self.steps.push_back(step);
    }

    /// Writes the complete steps at the front.
    fn release(&mut self) {
        let is_done =
            |step: &OpenStep| step.is_over && step.calls.iter().all(|call| call.answer.is_some());
        while let Some(step) = self.steps.pop_front_if(|step| {
            // The last turn is kept, because it may still grow.
            is_done(step) || self.held_bytes > MAX_HELD_BYTES
        }) {
            self.held_bytes = self.held_bytes.saturating_sub(step.size());
            for call in step.calls.iter().filter(|call| call.answer.is_none()) {
                self.take_waiting(&call.id);
            }
            self.write(&step);
        }
    }

    fn write(&mut self, step: &OpenStep) {
        self.written += 1;
        if self.failure.is_none()
            && let Err(error) = self.write_step(step)
        {
            self.failure = Some(error);
        }
    }

    fn write_step(&mut self, step: &OpenStep) -> io::Result<()> {
        let before = match self.written {
            1 => format!("{{\"schema_version\":\"{SCHEMA}\",\n\"steps\":[\n"),
            _ => ",\n".to_owned(),
        };
        self.out.write_all(before.as_bytes())?;
        step.write(self.written, &mut self.out)
    }
}

impl OpenStep {
    fn size(&self) -> usize {
        let calls = self.calls.iter().map(|call| {
            let answer = call.answer.as_ref();
            call.arguments.get().len() + answer.map_or(0, ToolAnswer::size)
        });
        let loose = self.loose.iter().map(|loose| loose.answer.size());
        self.message.0.len() + self.reasoning.0.len() + calls.chain(loose).sum::<usize>()
    }

    /// Writes the step in ATIF.
    fn write(&self, id: u64, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{{\"step_id\":{id}")?;
        if let Some(timestamp) = &self.timestamp {
            out.write_all(b",\"timestamp\":")?;
            write_string(out, timestamp)?;
        }
        write!(out, ",\"source\":\"{}\",\"message\":", self.source)?;
        self.message.write(out)?;
        if !self.reasoning.is_empty() {
            out.write_all(b",\"reasoning_content\":")?;
            self.reasoning.write(out)?;
        }
        self.write_calls(out)?;
        self.write_answers(out)?;
        if let Some(parent) = &self.parent {
            let extra = json!({"is_sidechain": true, "parent_tool_call_id": parent});
            write!(out, ",\"extra\":{extra}")?;
        }
        out.write_all(b"}")
    }

    fn write_calls(&self, out: &mut impl Write) -> io::Result<()> {
        for (number, call) in self.calls.iter().enumerate() {
            out.write_all(match number {
                0 => b",\"tool_calls\":[",
                _ => b",",
            })?;
            out.write_all(b"{\"tool_call_id\":")?;
            write_string(out, &call.id)?;
            out.write_all(b",\"function_name\":")?;
            write_string(out, &call.name)?;
            write!(out, ",\"arguments\":{}}}", call.arguments.get())?;
        }
        out.write_all(if self.calls.is_empty() { b"" } else { b"]" })
    }

    fn write_answers(&self, out: &mut impl Write) -> io::Result<()> {
        let answered = self.calls.iter().filter_map(|call| {
            let answer = call.answer.as_ref()?;
            let has_result = answer.content.is_some() || answer.is_error;
            has_result.then_some((answer, Some(&call.id), None))
        });
        let loose = self.loose.iter();
        let loose = loose.map(|loose| (&loose.answer, None, Some(&loose.call)));
        let mut is_first = true;
        for (answer, call, late_for) in answered.chain(loose) {
            out.write_all(if is_first {
                b",\"observation\":{\"results\":["
            } else {
                b","
            })?;
            is_first = false;
            answer.write(out, call, late_for)?;
        }
        out.write_all(if is_first { b"" } else { b"]}" })
    }
}

impl ToolAnswer {
    fn size(&self) -> usize {
        self.content.as_ref().map_or(0, |content| content.0.len())
    }

    fn write(
        &self,
        out: &mut impl Write,
        call: Option<&String>,
        late_for: Option<&String>,
    ) -> io::Result<()> {
        let mut before: &[u8] = b"{";
        if let Some(call) = call {
            out.write_all(b"{\"source_call_id\":")?;
            write_string(out, call)?;
            before = b",";
        }
        if let Some(content) = &self.content {
            out.write_all(before)?;
            out.write_all(b"\"content\":")?;
            content.write(out)?;
            before = b",";
        }
        let mut extra = serde_json::Map::new();
        extra.extend(late_for.map(|call| ("late_answer_to".to_owned(), json!(call))));
        if self.is_error {
            extra.insert("is_error".to_owned(), Value::Bool(true));
        }
        if !extra.is_empty() {
            out.write_all(before)?;
            write!(out, "\"extra\":{}", Value::Object(extra))?;
            before = b",";
        }
        out.write_all(if before == b"{" { b"{}" } else { b"}" })
    }
}

/// The fields after the steps, which are known only at the end.
fn closing(account: &Account, tools: Vec<Value>, steps: u64) -> Vec<(&'static str, Value)> {
    let mut agent = json!({
        "name": account.agent_info.name,
        "version": account.agent_info.version,
        "model_name": account.model_info.name,
        "extra": {"adapter_version": account.agent_info.adapter_version},
    });
    if !tools.is_empty() {
        agent["tool_definitions"] = Value::Array(tools);
    }
    let id = account.execution.session_id.as_ref();
    let mut closing = Vec::from_iter(id.map(|id| ("session_id", json!(id))));
    closing.push(("agent", agent));
    closing.push(("final_metrics", metrics(account.usage.as_ref(), steps)));
    let outcome = json!({"outcome": account.execution.outcome});
    closing.push(("extra", outcome));
    closing
}

/// The metrics. ATIF counts cached tokens as prompt tokens.
fn metrics(usage: Option<&Usage>, steps: u64) -> Value {
    let mut metrics = json!({"total_steps": steps});
    let Some(usage) = usage else {
        return metrics;
    };
    let total = &usage.total;
    let cached = [total.cache_read_tokens, total.cache_creation_tokens];
    let prompt = total
        .input_tokens
        .map(|input| input + cached.into_iter().flatten().sum::<u64>());
    let figures = [
        ("total_prompt_tokens", prompt.map(Value::from)),
        (
            "total_completion_tokens",
            total.output_tokens.map(Value::from),
        ),
        (
            "total_cached_tokens",
            total.cache_read_tokens.map(Value::from),
        ),
        ("total_cost_usd", total.cost_usd.map(|cost| json!(cost))),
        ("extra", Some(json!({"source": usage.source}))),
    ];
    for (name, figure) in figures {
        if let Some(figure) = figure {
            metrics[name] = figure;
        }
    }
    metrics
}

/// Arguments as the object that ATIF requires; any other value becomes the value of `input`.
fn object(arguments: Text<'_>) -> Box<RawValue> {
    let whole = match arguments {
        Text::Json(json) => RawValue::from_string(json.trim().to_owned()).ok(),
        Text::Plain(_) | Text::JsonString(_) => None,
    };
    let whole = whole.filter(|raw| raw.get().starts_with('{'));
    whole.unwrap_or_else(|| {
        let input = match arguments {
            Text::Json(json) => serde_json::from_str(json).unwrap_or_else(|_| json!(json)),
            Text::Plain(_) | Text::JsonString(_) => json!(words(arguments)),
        };
        RawValue::from_string(json!({ "input": input }).to_string())
            .expect("a value can be serialized")
    })
}

/// Text without terminal escapes; malformed parts are dropped.
fn words(text: Text<'_>) -> String {
    match text {
        Text::Plain(text) | Text::Json(text) => strip_ansi(text).into_owned(),
        Text::JsonString(literal) => strip_ansi(&lossy_text(literal)).into_owned(),
    }
}

#[cfg(test)]
mod tests;
