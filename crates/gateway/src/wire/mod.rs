//! The APIs that agents speak: which request belongs to which, and one file for each.

pub(crate) mod anthropic;
pub(crate) mod gemini;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;

use hyper::{HeaderMap, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tokens::Tokens;

/// Who serves models: each has its own key and its own base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The Messages API.
    Anthropic,
    /// Chat completions and responses.
    OpenAi,
    /// `generateContent`.
    Gemini,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }
}

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Anthropic messages.
    Anthropic,
    /// OpenAI chat completions.
    OpenAiChat,
    /// OpenAI responses.
    OpenAiResponses,
    /// Gemini.
    Gemini,
}

impl Wire {
    /// Who serves it.
    pub fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::OpenAiChat | Self::OpenAiResponses => Provider::OpenAi,
            Self::Gemini => Provider::Gemini,
        }
    }

    /// An error in the shape that clients of this API understand.
    pub(crate) fn error_body(self, status: u16, message: &str) -> Value {
        match self {
            Self::Anthropic => anthropic::error_body(status, message),
            Self::OpenAiChat | Self::OpenAiResponses => openai_chat::error_body(status, message),
            Self::Gemini => gemini::error_body(status, message),
        }
    }

    /// The status of an answer to a key whose budget is spent: one that clients do not try again for
    /// minutes.
    pub(crate) fn quota_status(self) -> u16 {
        match self.provider() {
            Provider::Anthropic | Provider::Gemini => 403,
            Provider::OpenAi => 429,
        }
    }

    /// The body of that answer.
    pub(crate) fn quota_body(self, message: &str) -> Value {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => openai_chat::quota_body(message),
            Self::Anthropic | Self::Gemini => self.error_body(self.quota_status(), message),
        }
    }

    /// Reads the data of one event of a stream.
    pub(crate) fn read_event(self, data: &[u8], seen: &mut Seen) {
        match self {
            Self::Anthropic => anthropic::read_event(data, seen),
            Self::OpenAiChat => openai_chat::read_event(data, seen),
            Self::OpenAiResponses => openai_responses::read_event(data, seen),
            Self::Gemini => gemini::read_event(data, seen),
        }
    }

    /// Reads a whole answer that was no stream, or as much of it as came.
    pub(crate) fn read_body(self, body: &[u8], seen: &mut Seen) {
        match self {
            Self::Anthropic => anthropic::read_body(body, seen),
            Self::OpenAiChat => openai_chat::read_body(body, seen),
            Self::OpenAiResponses => openai_responses::read_body(body, seen),
            Self::Gemini => gemini::read_body(body, seen),
        }
    }
}

/// What the answer to a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The model writes something: metered and charged to budgets.
    Generate,
    /// The number of tokens, which costs nothing.
    CountTokens,
    /// Lists of models and other small things, which cost nothing.
    Lookup,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) wire: Wire,
    pub(crate) kind: Kind,
    /// The path as the provider knows it, without the query.
    pub(crate) path: String,
    /// The model, where the path names it.
    pub(crate) model: Option<String>,
    /// The path says that the answer is a stream.
    pub(crate) streams: bool,
}

impl Route {
    fn new(wire: Wire, kind: Kind, path: impl Into<String>) -> Self {
        Self {
            wire,
            kind,
            path: path.into(),
            model: None,
            streams: false,
        }
    }
}

/// Finds the API that a request belongs to.
pub(crate) fn route(method: &Method, path: &str, headers: &HeaderMap) -> Option<Route> {
    let plain = path
        .strip_prefix("/v1")
        .filter(|rest| rest.starts_with('/'));
    let plain = plain.unwrap_or(path);
    if *method == Method::POST {
        let found = match plain {
            "/messages" => Some((Wire::Anthropic, Kind::Generate)),
            "/messages/count_tokens" => Some((Wire::Anthropic, Kind::CountTokens)),
            "/chat/completions" => Some((Wire::OpenAiChat, Kind::Generate)),
            "/responses" | "/responses/compact" => Some((Wire::OpenAiResponses, Kind::Generate)),
            "/responses/input_tokens" => Some((Wire::OpenAiResponses, Kind::CountTokens)),
            _ => None,
        };
        return match found {
            Some((wire, kind)) => Some(Route::new(wire, kind, format!("/v1{plain}"))),
            None => gemini::route(path),
        };
    }
    if *method != Method::GET {
        return None;
    }
    let asks_models = plain == "/models" || plain.starts_with("/models/");
    if path.starts_with("/v1beta/") || (asks_models && headers.contains_key("x-goog-api-key")) {
        let path = format!("/v1beta{}", plain.strip_prefix("/v1beta").unwrap_or(plain));
        return Some(Route::new(Wire::Gemini, Kind::Lookup, path));
    }
    if !asks_models {
        return None;
    }
    let anthropic = headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
    let wire = if anthropic {
        Wire::Anthropic
    } else {
        Wire::OpenAiChat
    };
    Some(Route::new(wire, Kind::Lookup, format!("/v1{plain}")))
}

/// What an answer has told so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The usage, in the common convention.
    pub(crate) tokens: Option<Tokens>,
    /// The model that claims to have answered.
    pub(crate) model: Option<String>,
    /// The stream said that it is complete.
    pub(crate) finished: bool,
}

/// The value behind the last occurrence of this quoted name in a text that is not whole JSON.
pub(crate) fn last_value<'de, T: Deserialize<'de>>(text: &'de [u8], quoted: &str) -> Option<T> {
    let at = memchr::memmem::rfind(text, quoted.as_bytes())?;
    let rest = text[at + quoted.len()..]
        .trim_ascii_start()
        .strip_prefix(b":")?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<T>();
    values.next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, path: &str, expected: Option<(Wire, Kind, &str)>) {
        let found = route(method, path, &HeaderMap::new());
        let found = found.as_ref().map(|r| (r.wire, r.kind, r.path.as_str()));
        assert_eq!(found, expected, "{method} {path}");
    }

    #[test]
    fn a_path_tells_the_wire_with_and_without_its_version() {
        use Kind::{CountTokens, Generate, Lookup};
        let post = &Method::POST;
        check(
            post,
            "/v1/messages",
            Some((Wire::Anthropic, Generate, "/v1/messages")),
        );
        check(
            post,
            "/v1/messages/count_tokens",
            Some((Wire::Anthropic, CountTokens, "/v1/messages/count_tokens")),
        );
        let chat = Some((Wire::OpenAiChat, Generate, "/v1/chat/completions"));
        check(post, "/v1/chat/completions", chat);
        check(post, "/chat/completions", chat);
        check(
            post,
            "/v1/responses",
            Some((Wire::OpenAiResponses, Generate, "/v1/responses")),
        );
        check(
            post,
            "/models/gemini-2.5-pro:streamGenerateContent",
            Some((
                Wire::Gemini,
                Generate,
                "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            )),
        );
        check(
            &Method::GET,
            "/v1/models",
            Some((Wire::OpenAiChat, Lookup, "/v1/models")),
        );
        check(
            &Method::GET,
            "/v1beta/models",
            Some((Wire::Gemini, Lookup, "/v1beta/models")),
        );
        check(post, "/v1/embeddings", None);
        check(&Method::DELETE, "/v1/messages", None);
    }

    #[test]
    fn a_list_of_models_goes_to_whom_the_headers_name() {
        let headers = |name: &'static str| {
            HeaderMap::from_iter([(
                hyper::header::HeaderName::from_static(name),
                hyper::header::HeaderValue::from_static("x"),
            )])
        };
        let wire = |name| {
            route(&Method::GET, "/v1/models", &headers(name))
                .unwrap()
                .wire
        };
        assert_eq!(wire("anthropic-version"), Wire::Anthropic);
        assert_eq!(wire("x-goog-api-key"), Wire::Gemini);
        assert_eq!(wire("authorization"), Wire::OpenAiChat);
    }
}
