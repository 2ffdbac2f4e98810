//! The context that an agent gives its model: the system prompt and the tools. It is the same in every
//! call of a session, so only the first call with tools is read.

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

/// The context that an agent gives its model besides the prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelContext {
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools, in OpenAI's form for every API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
}

/// Finds the context of one key's calls.
#[derive(Debug, Default)]
pub(crate) struct ContextObserver {
    context: OnceLock<ModelContext>,
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
        if !context.tools.is_empty() {
            // Of two concurrent calls, either will do.
            let _ = self.context.set(context);
        }
    }

    pub(crate) fn get(&self) -> Option<ModelContext> {
        self.context.get().cloned()
    }
}

fn read(wire: Wire, body: &Value) -> ModelContext {
    match wire {
        Wire::Anthropic => ModelContext {
            system: texts(&body["system"]),
            tools: each(&body["tools"], |tool| function(tool, &tool["input_schema"])),
        },
        Wire::OpenAiChat => ModelContext {
            system: instructions(&body["messages"]),
            tools: each(&body["tools"], |tool| {
                (tool["type"] == "function").then(|| tool.clone())
            }),
        },
        Wire::OpenAiResponses => ModelContext {
            system: texts(&body["instructions"]).or_else(|| instructions(&body["input"])),
            tools: each(&body["tools"], |tool| function(tool, &tool["parameters"])),
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
            }
        }
    }
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
        seen.observe(wire, br#"{"messages": [], "system": "A title for this."}"#);
        assert_eq!(
            seen.get(),
            None,
            "a call without tools is none of the session's"
        );
        seen.observe(wire, body.to_string().as_bytes());
        let context = seen.get().unwrap();
        assert_eq!(context.system.as_deref(), Some("Be good."));
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
            &json!({"system": [{"type": "text", "text": "Be good."}], "tools": [
                {"name": "sh", "description": "a shell", "input_schema": schema},
            ]}),
        );
        check(
            Wire::OpenAiChat,
            &json!({"messages": [{"role": "system", "content": "Be good."}], "tools": [
                {"type": "function", "function": {
                    "name": "sh", "description": "a shell", "parameters": schema,
                }},
            ]}),
        );
        check(
            Wire::OpenAiResponses,
            &json!({"instructions": "Be good.", "tools": [
                {"type": "function", "name": "sh", "description": "a shell", "parameters": schema},
                {"type": "web_search"},
            ]}),
        );
        check(
            Wire::Gemini,
            &json!({"systemInstruction": {"parts": [{"text": "Be good."}]}, "tools": [
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
