//! What a scripted model keeps of every request, for tests to look at.

use std::time::SystemTime;

use serde_json::Value;

use super::anthropic;
use crate::wire::Wire;

/// What a request is to the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A turn of a conversation: takes the next answer of its lane.
    Turn,
    /// Something the agent asks on the side (a title, what a shell command may do): takes no
    /// answer of the main lane.
    Side,
    /// A question for the number of tokens.
    CountTokens,
    /// Anything else, such as a connectivity probe.
    Other,
}

/// One request as it came in.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null when there was none or when it was no JSON.
    pub body: Value,
    /// When the request was complete.
    pub at: SystemTime,
    /// The API it was for, if it was for one.
    pub wire: Option<Wire>,
    /// What the request was taken for.
    pub kind: RequestKind,
    /// The position in the script of the answer it got, if it got one of those.
    pub answer: Option<usize>,
}

impl Recorded {
    /// The first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The key the agent showed.
    pub fn api_key(&self) -> Option<&str> {
        self.header("x-api-key")
    }

    /// The model that was asked for.
    pub fn model(&self) -> Option<&str> {
        self.body["model"].as_str()
    }

    /// The temperature that was asked for.
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
