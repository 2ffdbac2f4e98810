//! The context that an agent gives its model: the system prompt, the tools, and the messages before the first answer,
//! which include context files. Only the first call with tools is read, or the first one of an agent without tools.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use proctor_model_api::Wire;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The number of calls to search for tools. Agents begin with other calls, for example for a title, and
/// some never use tools.
const MOST_READ: u32 = 8;
/// The size of the messages that are kept, in bytes.
const MOST_MESSAGES: usize = 256 << 10;

/// The context that an agent gives its model besides the prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelContext {
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools, in OpenAI's form for every API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// The texts of the user's messages in this call, as they were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}

/// Finds the context of one key's calls.
#[derive(Debug, Default)]
pub(crate) struct ContextObserver {
    context: OnceLock<ModelContext>,
    /// The context of the first call without tools.
    plain: OnceLock<ModelContext>,
    read: AtomicU32,
}

impl ContextObserver {
    /// Reads a call, unless the context is known or enough calls were read.
    pub(crate) fn observe(&self, wire: Wire, body: &[u8]) {
        if self.context.get().is_some() || self.read.fetch_add(1, Ordering::Relaxed) >= MOST_READ {
            return;
        }
        let body = serde_json::from_slice(body).unwrap_or_default();
        let context = read(wire, &body);
        let is_empty = context == ModelContext::default();
        let place = if context.tools.is_empty() {
            &self.plain
        } else {
            &self.context
        };
        if !is_empty {
            // Of two concurrent calls, either will do.
            let _ = place.set(context);
        }
    }

    pub(crate) fn get(&self) -> Option<ModelContext> {
        self.context.get().or(self.plain.get()).cloned()
    }
}

fn read(wire: Wire, body: &Value) -> ModelContext {
    match wire {
        Wire::Anthropic => ModelContext {
            system: texts(&body["system"]),
            tools: each(&body["tools"], |tool| function(tool, &tool["input_schema"])),
            messages: sent(&body["messages"]),
        },
        Wire::OpenAiChat => ModelContext {
            system: instructions(&body["messages"]),
            tools: each(&body["tools"], |tool| {
                (tool["type"] == "function").then(|| tool.clone())
            }),
            messages: sent(&body["messages"]),
        },
        Wire::OpenAiResponses => ModelContext {
            system: texts(&body["instructions"]).or_else(|| instructions(&body["input"])),
            tools: each(&body["tools"], |tool| function(tool, &tool["parameters"])),
            messages: sent(&body["input"]),
        },
        Wire::Gemini => {
            let system = ["systemInstruction", "system_instruction"].map(|name| &body[name]);
            let named = |tool: &Value| {
                let names = ["functionDeclarations", "function_declarations"];
                let lists = names.map(|name| &tool[name]);
                lists.into_iter().find_map(Value::as_array).cloned()
            };
            let tools = body["tools"].as_array().into_iter().flatten();
            let declared: Vec<Value> = tools.filter_map(named).flatten().collect();
            ModelContext {
                system: system
                    .into_iter()
                    .find_map(|system| texts(&system["parts"])),
                tools: each(&Value::Array(declared), |tool| {
                    let schemas = ["parametersJsonSchema", "parameters"].map(|name| &tool[name]);
                    let schema = schemas.into_iter().find(|schema| schema.is_object());
                    function(tool, schema.unwrap_or(&Value::Null))
                }),
                messages: sent(&body["contents"]),
            }
        }
    }
}

/// The texts of the user's messages.
fn sent(messages: &Value) -> Vec<String> {
    if let Some(text) = messages.as_str() {
        return vec![bounded(text, MOST_MESSAGES)];
    }
    let messages = messages.as_array().into_iter().flatten();
    let own = messages.filter(|it| it["role"] == "user");
    let own = own.filter_map(|it| texts(&it["content"]).or_else(|| texts(&it["parts"])));
    let mut left = MOST_MESSAGES;
    let kept = own.map_while(|text| {
        let text = (left > 0).then(|| bounded(&text, left))?;
        left -= text.len().min(left);
        Some(text)
    });
    kept.collect()
}

fn bounded(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// The messages of a conversation that instruct the model.
fn instructions(messages: &Value) -> Option<String> {
    let messages = messages.as_array()?.iter();
    let found: Vec<String> = messages
        .filter(|message| message["role"] == "system" || message["role"] == "developer")
        .filter_map(|message| texts(&message["content"]))
        .collect();
    (!found.is_empty()).then(|| found.join("\n\n"))
}

/// A text, or the texts of its parts.
fn texts(value: &Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let parts = value.as_array()?.iter();
    let found: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    (!found.is_empty()).then(|| found.join("\n\n"))
}

fn each(tools: &Value, turn: impl Fn(&Value) -> Option<Value>) -> Vec<Value> {
    let tools = tools.as_array().into_iter().flatten();
    tools.filter_map(turn).collect()
}

/// A tool in OpenAI's form; providers' own tools have no schema and keep their name only.
fn function(tool: &Value, parameters: &Value) -> Option<Value> {
    let name = tool["name"].as_str()?;
    let mut function = json!({ "name": name });
    for (key, value) in [
        ("description", &tool["description"]),
        ("parameters", parameters),
    ] {
        if !value.is_null() {
            function[key] = value.clone();
        }
    }
    Some(json!({"type": "function", "function": function}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wire: Wire, body: &Value) {
        let seen = ContextObserver::default();
        seen.observe(wire, b"{}");
        assert_eq!(seen.get(), None);
        let mut title = body.clone();
        title["tools"] = json!([]);
        title["messages"] = json!([{"role": "system", "content": "Find a title."}]);
        seen.observe(wire, title.to_string().as_bytes());
        assert_eq!(seen.get().unwrap().tools, [] as [Value; 0]);
        // A call without tools is none of a session with tools.
        seen.observe(wire, body.to_string().as_bytes());
        let context = seen.get().unwrap();
        assert_eq!(context.system.as_deref(), Some("Be good."));
        assert_eq!(context.messages, ["Do it."]);
        let tool = json!({"type": "function", "function": {
            "name": "sh", "description": "a shell", "parameters": {"type": "object"},
        }});
        assert_eq!(context.tools, [tool]);
    }

    #[test]
    fn context_is_the_same_for_every_api() {
        let schema = json!({"type": "object"});
        check(
            Wire::Anthropic,
            &json!({"system": [{"type": "text", "text": "Be good."}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Do it."}]}], "tools": [
                {"name": "sh", "description": "a shell", "input_schema": schema},
            ]}),
        );
        check(
            Wire::OpenAiChat,
            &json!({"messages": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Do it."}], "tools": [
                {"type": "function", "function": {
                    "name": "sh", "description": "a shell", "parameters": schema,
                }},
            ]}),
        );
        check(
            Wire::OpenAiResponses,
            &json!({"instructions": "Be good.", "input": "Do it.", "tools": [
                {"type": "function", "name": "sh", "description": "a shell", "parameters": schema},
                {"type": "web_search"},
            ]}),
        );
        check(
            Wire::Gemini,
            &json!({"systemInstruction": {"parts": [{"text": "Be good."}]},
                "contents": [{"role": "user", "parts": [{"text": "Do it."}]}], "tools": [
                {"functionDeclarations": [
                    {"name": "sh", "description": "a shell", "parametersJsonSchema": schema},
                ]},
            ]}),
        );
    }

    #[test]
    fn search_for_tools_is_bounded() {
        let seen = ContextObserver::default();
        for _ in 0..MOST_READ {
            seen.observe(Wire::Anthropic, b"{}");
        }
        seen.observe(Wire::Anthropic, br#"{"tools": [{"name": "late"}]}"#);
        assert_eq!(seen.get(), None);
    }
}
