//! Finds the API and the endpoint that a request is for.

use hyper::{HeaderMap, Method};

use crate::gemini;
use crate::path;
use crate::wire::{Kind, Route, Wire};

/// Finds the API and endpoint of a request. `None` for every other endpoint.
///
/// The path to send is built from the recognised endpoint, not copied from the client.
pub fn route(method: &Method, path: &str, headers: &HeaderMap) -> Option<Route> {
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

/// A list of models, or a single model.
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

/// The path after `/v1`, which clients may omit.
fn without_version(path: &str) -> &str {
    let rest = path.strip_prefix("/v1");
    rest.filter(|rest| rest.starts_with('/')).unwrap_or(path)
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
    fn api_is_found_with_and_without_version_in_path() {
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
    fn allowed_paths_are_normalised() {
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
    fn other_paths_are_refused_in_every_spelling() {
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
    fn model_list_goes_to_the_provider_of_the_headers() {
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
