//! The APIs that agents speak: which request belongs to which, and one file for each.

pub(crate) mod anthropic;
pub(crate) mod gemini;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
mod path;

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

/// Finds the API that a request belongs to. Only these endpoints of the providers are reached: the path
/// that is sent is built from what was recognised, not from the client's spelling.
pub(crate) fn route(method: &Method, path: &str, headers: &HeaderMap) -> Option<Route> {
    let path = path::normalise(path)?;
    match *method {
        Method::POST => route_call(&path),
        Method::GET => route_lookup(&path, headers),
        _ => None,
    }
}

fn route_call(path: &str) -> Option<Route> {
    let plain = without_version(path);
    let (wire, kind) = match plain {
        "/messages" => (Wire::Anthropic, Kind::Generate),
        "/messages/count_tokens" => (Wire::Anthropic, Kind::CountTokens),
        "/chat/completions" => (Wire::OpenAiChat, Kind::Generate),
        "/responses" | "/responses/compact" => (Wire::OpenAiResponses, Kind::Generate),
        "/responses/input_tokens" => (Wire::OpenAiResponses, Kind::CountTokens),
        _ => return gemini::route(path),
    };
    Some(Route::new(wire, kind, format!("/v1{plain}")))
}

/// The list of models, or one of them.
fn route_lookup(path: &str, headers: &HeaderMap) -> Option<Route> {
    if path.starts_with("/v1beta/") || headers.contains_key("x-goog-api-key") {
        return gemini::route_lookup(path);
    }
    let rest = without_version(path).strip_prefix("/models")?;
    let model = match rest.strip_prefix('/') {
        Some(name) => format!("/{}", path::model_segment(name)?),
        None if rest.is_empty() => String::new(),
        None => return None,
    };
    let anthropic = headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
    let wire = if anthropic {
        Wire::Anthropic
    } else {
        Wire::OpenAiChat
    };
    Some(Route::new(wire, Kind::Lookup, format!("/v1/models{model}")))
}

/// The path behind `/v1`, which clients may leave out.
fn without_version(path: &str) -> &str {
    let rest = path.strip_prefix("/v1");
    rest.filter(|rest| rest.starts_with('/')).unwrap_or(path)
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

    fn sent(method: &Method, path: &str, header: Option<&'static str>) -> Option<String> {
        let header = header.map(|name| {
            (
                hyper::header::HeaderName::from_static(name),
                hyper::header::HeaderValue::from_static("x"),
            )
        });
        route(method, path, &HeaderMap::from_iter(header)).map(|route| route.path)
    }

    #[test]
    fn allowed_paths_are_sent_in_one_spelling() {
        let (post, get) = (&Method::POST, &Method::GET);
        let generate = "/v1beta/models/gemini-2.5-pro:generateContent";
        for (method, path, expected) in [
            (post, "//v1/messages", "/v1/messages"),
            (post, "/v1//messages", "/v1/messages"),
            (post, "/v1/./messages", "/v1/messages"),
            (post, "/v1/%6Dessages", "/v1/messages"),
            (post, "/v1/files/../messages", "/v1/messages"),
            (post, "/v1%2Fresponses", "/v1/responses"),
            (post, "/responses/compact", "/v1/responses/compact"),
            (
                post,
                "/v1/responses/input_tokens",
                "/v1/responses/input_tokens",
            ),
            (
                post,
                "/v1beta/models/gemini-2.5-pro%3AgenerateContent",
                generate,
            ),
            (post, "/v1/models/gemini-2.5-pro:generateContent", generate),
            (
                post,
                "/models/google/gemini-2.5-pro:countTokens",
                "/v1beta/models/google/gemini-2.5-pro:countTokens",
            ),
            (get, "/models", "/v1/models"),
            (get, "/v1/models/gpt-5.5", "/v1/models/gpt-5.5"),
            (
                get,
                "/v1/models/ft:gpt-4o:org::id",
                "/v1/models/ft:gpt-4o:org::id",
            ),
            (get, "/v1/models/vendor%2Fname", "/v1/models/vendor%2Fname"),
            (
                get,
                "/v1/models/claude-opus-5[1m]",
                "/v1/models/claude-opus-5%5B1m%5D",
            ),
            (get, "/v1beta/models", "/v1beta/models"),
            (
                get,
                "/v1beta/models/gemini-2.5-pro",
                "/v1beta/models/gemini-2.5-pro",
            ),
        ] {
            let found = sent(method, path, None);
            assert_eq!(found.as_deref(), Some(expected), "{method} {path}");
        }
        for (path, expected) in [
            ("/models", "/v1beta/models"),
            ("/v1/models/g", "/v1beta/models/g"),
        ] {
            let found = sent(get, path, Some("x-goog-api-key"));
            assert_eq!(found.as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn other_paths_of_the_providers_are_refused_in_every_spelling() {
        let lookups = [
            "/v1/models/../files",
            "/v1/models/%2e%2e/files",
            "/v1/models/%2E./files",
            "/v1/models/..%2ffiles",
            "/v1/models/..%5cfiles",
            "/v1/models/..\\files",
            "/v1/models/%252e%252e/files",
            "/v1/models/..;/files",
            "/v1/models//../files/a",
            "/v1/models/a/b/c",
            "/v1/models/",
            "/v1/modelsx",
            "/v1/models/a?b",
            "/v1/models/a%3Fb",
            "/v1/models/a%23b",
            "/v1/models/a%00",
            "/v1/models/a%",
            "/v1/models/a%4",
            "/v1/models/a%zz",
            "/v1/models/a%+1b",
            "/../v1/models",
            "/V1/models",
            "/v1/files",
            "/v1/organizations/api_keys",
            "/v1/responses/resp_1",
            "/v1/messages/batches",
            "/v1beta/files",
            "/v1beta/cachedContents",
            "/v1beta/tunedModels",
            "/v1beta/models/../files",
            "/v1beta/models/%2e%2e%2ffiles",
            "/v1beta/models/g/operations",
            "/v1beta/models/g:download",
            "/v1beta/v1/models/g/operations",
            "/v1beta",
            "/v1betamodels",
        ];
        for path in lookups {
            for header in [None, Some("x-goog-api-key"), Some("x-api-key")] {
                assert_eq!(sent(&Method::GET, path, header), None, "GET {path}");
            }
        }
        let calls = [
            "/v1/files",
            "/v1/messages/../files",
            "/v1/messages/batches",
            "/v1/messages/",
            "/v1/Messages",
            "/v1/messages%00",
            "/v1/responses/resp_1/cancel",
            "/v1/chat/completions/id",
            "/v1beta/files",
            "/v1beta/models/g:batchGenerateContent",
            "/v1beta/models/g:predict",
            "/v1beta/models/../files:generateContent",
            "/v1beta/models/a/b/c:generateContent",
            "/v1beta/models/:generateContent",
            "/v1beta/models/g:generateContent/x",
            "/v1beta/models/g:x:generateContent",
            "/v1beta/tunedModels/g:generateContent",
            "/upload/v1beta/files",
        ];
        for path in calls {
            assert_eq!(sent(&Method::POST, path, None), None, "POST {path}");
        }
        for method in [
            &Method::PUT,
            &Method::DELETE,
            &Method::PATCH,
            &Method::OPTIONS,
        ] {
            assert_eq!(sent(method, "/v1/models/m", None), None, "{method}");
        }
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
