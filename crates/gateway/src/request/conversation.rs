//! The texts, tools and tool calls of a request, for every API, without the model's own words.

use proctor_model_api::Wire;
use serde_json::Value;

/// The part of a request that a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// The system prompt.
    System,
    /// A message of the user or the agent.
    Message,
    /// The result of a tool.
    ToolResult,
    /// The descriptions of tools.
    Tools,
    /// The agent's own output, without a gateway.
    Session,
}

impl RequestPart {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestPart::System => "system",
            RequestPart::Message => "message",
            RequestPart::ToolResult => "tool_result",
            RequestPart::Tools => "tools",
            RequestPart::Session => "session",
        }
    }
}

/// The texts of a request that the model reads.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The texts, in the order of the request.
    pub(super) texts: Vec<(RequestPart, String)>,
    /// The names of the offered tools.
    pub(super) tools: Vec<String>,
    /// The tools that the model called, with their arguments.
    pub(super) calls: Vec<(String, Value)>,
}

impl Conversation {
    pub(super) fn of_request(wire: Wire, body: &Value) -> Conversation {
        let mut read = Conversation::default();
        match wire {
            Wire::Anthropic => {
                read.add(RequestPart::System, &body["system"]);
                read.messages(&body["messages"]);
            }
            Wire::OpenAiChat => read.messages(&body["messages"]),
            Wire::OpenAiResponses => {
                read.add(RequestPart::System, &body["instructions"]);
                match &body["input"] {
                    text @ Value::String(_) => read.add(RequestPart::Message, text),
                    items => read.messages(items),
                }
            }
            Wire::Gemini => {
                for name in ["systemInstruction", "system_instruction"] {
                    read.add(RequestPart::System, &body[name]["parts"]);
                }
                read.messages(&body["contents"]);
            }
        }
        for tool in items(&body["tools"]) {
            read.tool(tool);
        }
        read
    }

    /// An event of an agent's output: tools, calls and results have the same names in most formats.
    pub(super) fn of_session(event: &Value) -> Conversation {
        let mut read = Conversation::default();
        read.message(&event["message"]);
        read.message(event);
        for tool in items(&event["tools"]) {
            read.tools.extend(tool.as_str().map(str::to_owned));
        }
        for text in &mut read.texts {
            text.0 = RequestPart::Session;
        }
        read
    }

    fn messages(&mut self, messages: &Value) {
        for message in items(messages) {
            self.message(message);
        }
    }

    fn message(&mut self, message: &Value) {
        let place = match message["role"].as_str() {
            Some("system" | "developer") => Some(RequestPart::System),
            Some("tool") => Some(RequestPart::ToolResult),
            Some("assistant" | "model") => None,
            _ => Some(RequestPart::Message),
        };
        self.call(message);
        for call in items(&message["tool_calls"]) {
            self.call(&call["function"]);
        }
        if let Some(output) = message.get("output") {
            self.add(RequestPart::ToolResult, output);
        }
        for content in ["content", "parts"] {
            for part in items(&message[content]) {
                self.part(place, part);
            }
        }
        if let (Some(place), text @ Value::String(_)) = (place, &message["content"]) {
            self.add(place, text);
        }
    }

    /// A block of a message.
    fn part(&mut self, place: Option<RequestPart>, part: &Value) {
        self.call(part);
        self.call(&part["functionCall"]);
        self.add(
            RequestPart::ToolResult,
            &part["functionResponse"]["response"],
        );
        if part["type"] == "tool_result" {
            self.add(RequestPart::ToolResult, &part["content"]);
        } else if let Some(place) = place {
            self.add(place, &part["text"]);
        }
    }

    /// A call of a tool: `input` of Anthropic, `arguments` of OpenAI, `args` of Google.
    fn call(&mut self, call: &Value) {
        let Some(name) = call["name"].as_str() else {
            return;
        };
        let mut inputs = ["input", "arguments", "args"].into_iter();
        if let Some(input) = inputs.find_map(|key| call.get(key)) {
            self.calls.push((name.to_owned(), input.clone()));
        }
    }

    fn tool(&mut self, tool: &Value) {
        let declared = ["functionDeclarations", "function_declarations"];
        let declared = declared.into_iter().flat_map(|name| items(&tool[name]));
        for tool in [tool, &tool["function"]].into_iter().chain(declared) {
            self.tools.extend(tool["name"].as_str().map(str::to_owned));
            self.add(RequestPart::Tools, &tool["description"]);
        }
    }

    /// All texts of a value.
    fn add(&mut self, place: RequestPart, value: &Value) {
        match value {
            Value::String(text) => self.texts.push((place, text.clone())),
            Value::Array(items) => items.iter().for_each(|item| self.add(place, item)),
            Value::Object(map) => map.values().for_each(|item| self.add(place, item)),
            _ => {}
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
