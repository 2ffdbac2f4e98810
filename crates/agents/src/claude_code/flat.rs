//! The flat form of the control protocol, from Thunderdome's design of its WebSocket server:
//! requests contain their subtype directly, the client initialises first, and a permission is
//! answered with `allowed`. No released CLI is known to use it; its test clients do.

use std::borrow::Cow;

use proctor_record::session::{MessageKind, Role, SessionEvent, SessionHost, Text};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// A `control_request` in the flat form.
#[derive(Deserialize)]
pub(super) struct Request<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) subtype: Cow<'a, str>,
    #[serde(rename = "request_id")]
    id: Option<Value>,
    #[serde(rename = "toolName", borrow)]
    tool: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// The nested request of a message that is not flat.
    #[serde(rename = "request", borrow)]
    nested: Option<&'a RawValue>,
}

impl Request<'_> {
    /// The request in this line; `None` if it is not flat.
    pub(super) fn read(line: &[u8]) -> Option<Request<'_>> {
        let request: Request<'_> = serde_json::from_slice(line).ok()?;
        let is_flat = request.kind == "control_request" && request.nested.is_none();
        is_flat.then_some(request)
    }

    /// The answer. There always is one, because clients wait for it.
    pub(super) fn answer(&self, is_allowed: bool) -> Value {
        let mut answer = json!({ "type": "control_response", "subtype": self.subtype });
        match self.subtype.as_ref() {
            "initialize" => {
                answer["apiVersion"] = "1".into();
                answer["permissionMode"] = "default".into();
            }
            "can_use_tool" => answer["allowed"] = is_allowed.into(),
            other => answer["error"] = format!("proctor does not serve `{other}`").into(),
        }
        if let Some(id) = &self.id {
            answer["request_id"] = id.clone();
        }
        answer
    }

    /// Reports the tool. Messages in this form need not contain it.
    pub(super) fn tell(&self, is_allowed: bool, host: &mut dyn SessionHost) {
        let name = self.tool.as_deref().unwrap_or("unknown");
        if is_allowed {
            host.event(SessionEvent::ToolCall {
                id: None,
                name,
                arguments: Text::Json(self.input.map_or("{}", RawValue::get)),
                parent: None,
            });
        } else {
            host.event(SessionEvent::Note(&format!("permission denied: {name}")));
        }
    }
}

/// The prompt as a message.
pub(super) fn prompt(text: &str) -> Value {
    json!({ "type": "user", "content": [{ "type": "text", "text": text }] })
}

/// An event of a flat client.
pub(super) enum FlatEvent<'a> {
    /// A message without nested content.
    Assistant(Assistant<'a>),
    /// The result, with the fields of current CLIs.
    Result(Vec<u8>),
    /// Any other event.
    Other,
}

/// A message of the model.
#[derive(Deserialize)]
pub(super) struct Assistant<'a> {
    #[serde(default, borrow)]
    content: Vec<FlatBlock<'a>>,
}

#[derive(Deserialize)]
struct FlatBlock<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    is_error: bool,
    #[serde(borrow)]
    subtype: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

impl FlatEvent<'_> {
    /// The event in this line.
    pub(super) fn read(line: &[u8]) -> FlatEvent<'_> {
        let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else {
            return FlatEvent::Other;
        };
        match head.kind.as_ref() {
            "assistant" if head.message.is_none() => {
                let message = serde_json::from_slice(line);
                message.map_or(FlatEvent::Other, FlatEvent::Assistant)
            }
            // Without a subtype it would count as a failure.
            "result" if head.subtype.is_none() && !head.is_error => {
                let mut value: Value = serde_json::from_slice(line).unwrap_or_default();
                value["subtype"] = "success".into();
                FlatEvent::Result(value.to_string().into_bytes())
            }
            _ => FlatEvent::Other,
        }
    }
}

impl Assistant<'_> {
    /// Reports the content.
    pub(super) fn tell(&self, host: &mut dyn SessionHost) {
        for text in self
            .content
            .iter()
            .filter_map(|block| block.text.as_deref())
        {
            host.event(SessionEvent::Message {
                role: Role::Assistant,
                kind: MessageKind::Text,
                content: Text::Plain(text),
                timestamp: None,
                parent: None,
            });
        }
    }
}
