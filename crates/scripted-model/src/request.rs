//! The recorded form of a request, for tests to inspect.

use std::time::SystemTime;

use serde_json::Value;

use crate::anthropic;
use proctor_model_api::Wire;

/// The role of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A turn of a conversation: takes the next answer of its lane.
    Turn,
    /// A side request, for example for a title: takes no answer of the main lane.
    Side,
    /// A request for a token count.
    CountTokens,
    /// Anything else, such as a connectivity probe.
    Other,
}

/// One request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body. Null if there was none or if it was not JSON.
    pub body: Value,
    /// When the request was complete.
    pub at: SystemTime,
    /// The API of the request, if it is known.
    pub wire: Option<Wire>,
    /// The role of the request.
    pub kind: RequestKind,
    /// The index of its answer in the script, if it got one.
    pub answer: Option<usize>,
}

impl RecordedRequest {
    /// The first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The key that the agent sent.
    pub fn api_key(&self) -> Option<&str> {
        self.header("x-api-key")
    }

    /// The requested model.
    pub fn model(&self) -> Option<&str> {
        self.body["model"].as_str()
    }

    /// The requested temperature.
    pub fn temperature(&self) -> Option<f64> {
        self.body["temperature"].as_f64()
    }

    /// The system prompt as one text.
    pub fn system_text(&self) -> String {
        anthropic::text_of(&self.body["system"])
    }

    /// The last text that came from the user: neither a tool's result nor a reminder that the agent
    /// wraps around the prompt.
    pub fn last_user_text(&self) -> Option<String> {
        anthropic::last_user_text(&self.body)
    }

    /// The text of the last tool result.
    pub fn last_tool_result(&self) -> Option<String> {
        anthropic::last_tool_result(&self.body)
    }

    /// The names of the tools on offer.
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array();
        let tools = tools.map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|t| t["name"].as_str()).collect()
    }
}
