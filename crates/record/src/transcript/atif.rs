//! Writes a session as an ATIF v1.8 trajectory, the format that leaderboards ask for: a step for
//! each turn of the agent, with its tool calls and what they answered. Steps are written in the
//! order in which they began, as soon as nothing more can be added to them.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    Account,
    text::{lossy_text, strip_ansi},
};
use crate::{
    session::{MessageKind, Role, SessionEvent, Text},
    usage::Usage,
};

const SCHEMA: &str = "ATIF-v1.8";
/// Steps that wait for answers are held up to this size; older ones are then written as they are.
const MAX_HELD_BYTES: usize = 8 << 20;

/// What is known of a session besides its output.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// What the agent was asked, if its output does not repeat it.
    pub prompt: Option<String>,
    /// The system prompt, when the gateway saw it.
    pub system: Option<String>,
    /// The tools in OpenAI's form, when the gateway saw them.
    pub tools: Vec<Value>,
}

/// Writes one trajectory from the events of one session.
pub struct AtifWriter<W: Write> {
    out: W,
    known: Known,
    steps: VecDeque<Open>,
    held_bytes: usize,
    written: u64,
    calls: u64,
    failure: Option<io::Error>,
}

/// A step that is not written yet.
#[derive(Default)]
struct Open {
    source: &'static str,
    message: String,
    reasoning: String,
    timestamp: Option<String>,
    calls: Vec<Call>,
    loose: Vec<Loose>,
    /// The call that started the sub-agent whose step it is.
    parent: Option<String>,
    is_over: bool,
}

struct Call {
    id: String,
    name: String,
    arguments: Box<RawValue>,
    answer: Option<Answer>,
}

struct Answer {
    content: Option<String>,
    is_error: bool,
}

/// An answer whose call is not in this step.
struct Loose {
    call: String,
    answer: Answer,
}

impl<W: Write> AtifWriter<W> {
    /// A writer of one trajectory.
    pub fn new(out: W, known: Known) -> AtifWriter<W> {
        let mut writer = AtifWriter {
            out,
            known,
            steps: VecDeque::new(),
            held_bytes: 0,
            written: 0,
            calls: 0,
            failure: None,
        };
        let system = writer.known.system.take().map(|text| ("system", text));
        let user = writer.known.prompt.clone().map(|text| ("user", text));
        for (source, message) in system.into_iter().chain(user) {
            writer.push(Open {
                source,
                message,
                is_over: true,
                ..Open::default()
            });
        }
        writer
    }

    /// Take in what a session understood. A failure to write is told by `finish`.
    pub fn event(&mut self, event: SessionEvent<'_>) {
        match event {
            SessionEvent::Message {
                role,
                kind,
                content,
                timestamp,
                parent,
            } => {
                let text = words(content);
                match role {
                    Role::Assistant => self.said(kind, &text, timestamp, parent),
                    Role::User => self.told("user", text, timestamp, parent),
                    Role::System => self.told("system", text, timestamp, parent),
                }
            }
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
                let content = content.map(words);
                self.answered(id, Answer { content, is_error });
            }
            SessionEvent::Started { .. }
            | SessionEvent::Progress { .. }
            | SessionEvent::Note(_) => {}
        }
        self.release();
    }

    /// Complete the trajectory and give back what it was written to.
    pub fn finish(mut self, account: &Account) -> io::Result<W> {
        if self.written == 0 && self.steps.is_empty() {
            self.told("system", "The session told nothing.".to_owned(), None, None);
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
        text: &str,
        timestamp: Option<&str>,
        parent: Option<&str>,
    ) {
        let step = self.turn(parent);
        let place = match kind {
            MessageKind::Text => &mut step.message,
            MessageKind::Thinking => &mut step.reasoning,
        };
        if !place.is_empty() {
            place.push_str("\n\n");
        }
        place.push_str(text);
        step.timestamp = step.timestamp.take().or(timestamp.map(str::to_owned));
        self.held_bytes += text.len();
    }

    fn told(
        &mut self,
        source: &'static str,
        message: String,
        timestamp: Option<&str>,
        parent: Option<&str>,
    ) {
        let is_repeated = source == "user" && self.known.prompt.as_ref() == Some(&message);
        if is_repeated {
            self.known.prompt = None;
            return;
        }
        self.end_turn(parent);
        self.push(Open {
            source,
            message,
            timestamp: timestamp.map(str::to_owned),
            parent: parent.map(str::to_owned),
            is_over: true,
            ..Open::default()
        });
    }

    fn called(&mut self, id: Option<&str>, name: &str, arguments: Text<'_>, parent: Option<&str>) {
        self.calls += 1;
        let call = Call {
            id: id.map_or_else(|| format!("call-{}", self.calls), str::to_owned),
            name: name.to_owned(),
            arguments: object(arguments),
            // A call without an id can have no answer.
            answer: id.is_none().then_some(Answer {
                content: None,
                is_error: false,
            }),
        };
        self.held_bytes += call.arguments.get().len();
        self.turn(parent).calls.push(call);
    }

    fn answered(&mut self, id: &str, answer: Answer) {
        self.held_bytes += answer.content.as_ref().map_or(0, String::len);
        let waiting = self
            .steps
            .iter_mut()
            .flat_map(|step| &mut step.calls)
            .find(|call| call.id == id && call.answer.is_none());
        match waiting {
            Some(call) => call.answer = Some(answer),
            None => self.turn(None).loose.push(Loose {
                call: id.to_owned(),
                answer,
            }),
        }
    }

    /// The turn that `parent`'s agent is in: a new one when the last has its answers.
    fn turn(&mut self, parent: Option<&str>) -> &mut Open {
        let is_same = |step: &Open| step.source == "agent" && step.parent.as_deref() == parent;
        let last = self.steps.iter().rposition(is_same);
        let going = last.filter(|at| {
            let step = &self.steps[*at];
            !step.is_over && step.calls.iter().all(|call| call.answer.is_none())
        });
        let at = going.unwrap_or_else(|| {
            self.end_turn(parent);
            self.push(Open {
                source: "agent",
                parent: parent.map(str::to_owned),
                ..Open::default()
            });
            self.steps.len() - 1
        });
        &mut self.steps[at]
    }

    /// Nothing more is said in the turns of `parent`'s agent so far.
    fn end_turn(&mut self, parent: Option<&str>) {
        for step in &mut self.steps {
            step.is_over |= step.parent.as_deref() == parent;
        }
    }

    fn push(&mut self, step: Open) {
        self.held_bytes += step.message.len();
        self.steps.push_back(step);
    }

    /// Write the steps at the front to which nothing can be added.
    fn release(&mut self) {
        let is_done =
            |step: &Open| step.is_over && step.calls.iter().all(|call| call.answer.is_some());
        while let Some(step) = self.steps.pop_front_if(|step| {
            // The last turn stays, for what may still belong to it.
            is_done(step) || self.held_bytes > MAX_HELD_BYTES
        }) {
            self.held_bytes = self.held_bytes.saturating_sub(step.size());
            self.write(&step);
        }
    }

    fn write(&mut self, step: &Open) {
        self.written += 1;
        if self.failure.is_none()
            && let Err(error) = self.write_step(step)
        {
            self.failure = Some(error);
        }
    }

    fn write_step(&mut self, step: &Open) -> io::Result<()> {
        let before = match self.written {
            1 => format!("{{\"schema_version\":\"{SCHEMA}\",\n\"steps\":[\n"),
            _ => ",\n".to_owned(),
        };
        self.out.write_all(before.as_bytes())?;
        let step = step.shown(self.written);
        serde_json::to_writer(&mut self.out, &step)?;
        Ok(())
    }
}

/// A step as ATIF has it.
#[derive(Serialize)]
struct Step<'a> {
    #[serde(rename = "step_id")]
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<&'a str>,
    source: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Value>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    #[serde(rename = "tool_call_id")]
    id: &'a str,
    function_name: &'a str,
    arguments: &'a RawValue,
}

#[derive(Serialize)]
struct Observation<'a> {
    results: Vec<ToolResult<'a>>,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Value>,
}

impl Open {
    fn size(&self) -> usize {
        let calls = self.calls.iter().map(|call| {
            let answer = call.answer.as_ref();
            call.arguments.get().len() + answer.map_or(0, Answer::size)
        });
        let loose = self.loose.iter().map(|loose| loose.answer.size());
        self.message.len() + self.reasoning.len() + calls.chain(loose).sum::<usize>()
    }

    fn shown(&self, id: u64) -> Step<'_> {
        let answered = self.calls.iter().filter_map(|call| {
            let answer = call.answer.as_ref()?;
            let is_told = answer.content.is_some() || answer.is_error;
            is_told.then(|| answer.shown(Some(&call.id), Map::new()))
        });
        let loose = self.loose.iter().map(|loose| {
            let call = json!({"late_answer_to": loose.call});
            let Value::Object(extra) = call else {
                return loose.answer.shown(None, Map::new());
            };
            loose.answer.shown(None, extra)
        });
        let results: Vec<_> = answered.chain(loose).collect();
        Step {
            id,
            timestamp: self.timestamp.as_deref(),
            source: self.source,
            message: &self.message,
            reasoning_content: Some(self.reasoning.as_str()).filter(|text| !text.is_empty()),
            tool_calls: self.calls.iter().map(Call::shown).collect(),
            observation: (!results.is_empty()).then_some(Observation { results }),
            extra: self
                .parent
                .as_ref()
                .map(|parent| json!({"is_sidechain": true, "parent_tool_call_id": parent})),
        }
    }
}

impl Call {
    fn shown(&self) -> ToolCall<'_> {
        ToolCall {
            id: &self.id,
            function_name: &self.name,
            arguments: &self.arguments,
        }
    }
}

impl Answer {
    fn size(&self) -> usize {
        self.content.as_ref().map_or(0, String::len)
    }

    fn shown<'a>(&'a self, call: Option<&'a str>, mut extra: Map<String, Value>) -> ToolResult<'a> {
        if self.is_error {
            extra.insert("is_error".to_owned(), Value::Bool(true));
        }
        ToolResult {
            source_call_id: call,
            content: self.content.as_deref(),
            extra: (!extra.is_empty()).then_some(Value::Object(extra)),
        }
    }
}

/// What stands after the steps, because it is known only at the end.
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

/// ATIF counts cached tokens among those of the prompt.
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

/// Arguments as the object that ATIF asks for; what is no object becomes the value of `input`.
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
            .expect("a value is written as JSON")
    })
}

/// Text without terminal escapes; broken literals lose what is broken.
fn words(text: Text<'_>) -> String {
    match text {
        Text::Plain(text) | Text::Json(text) => strip_ansi(text).into_owned(),
        Text::JsonString(literal) => strip_ansi(&lossy_text(literal)).into_owned(),
    }
}

#[cfg(test)]
mod tests;
