//! What the scripted model does with one request: record it, pick its answer, play that.

use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use hyper::{HeaderMap, Method, Response, Uri, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::answers::{Act, Answer, ApiError, Message};
use super::playback::Playback;
use super::reply::Reply;
use super::request::{Recorded, RequestKind};
use super::tools::{self, Tool};
use super::{anthropic, gemini, openai_chat, openai_responses};
use crate::body::Body;
use crate::wire::{self, Kind, Route, Wire};

/// How long a connection lives on after the last event before it is cut, so that the event goes out.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// A request that is complete.
pub(crate) struct Received {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What a request turned out to get.
struct Decision {
    answer: Answer,
    serial: usize,
    asked: Asked,
}

/// What the rendering of an answer needs to know of its request.
struct Asked {
    wire: Wire,
    model: String,
    wants: Wants,
    tools: Vec<Tool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Events,
    /// Gemini's other way of streaming.
    Array,
    Json,
}

/// Plays the next answer to a request.
pub(crate) async fn respond(playback: &Playback, received: Received) -> Response<Body> {
    let Received {
        method,
        uri,
        headers,
        body,
    } = received;
    let route = wire::route(&method, uri.path(), &headers);
    let request = Recorded {
        method: method.to_string(),
        path: uri.to_string(),
        headers: header_list(&headers),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        at: SystemTime::now(),
        wire: route.as_ref().map(|route| route.wire),
        kind: RequestKind::Other,
        answer: None,
    };
    // Probes before the first turn: the agent only wants to know that someone is there.
    if matches!(method, Method::HEAD | Method::GET) {
        record(playback, request);
        return Response::new(Body::default());
    }
    match route {
        Some(route) if route.kind == Kind::CountTokens => count_tokens(playback, &route, request),
        Some(route) => match decide(playback, &route, request) {
            Ok(decision) => play(playback, decision).await,
            Err((error, serial)) => refusal(route.wire, &error, serial),
        },
        None => {
            let error = api_error(404, format!("the scripted model has no {}", uri.path()));
            refusal(Wire::Anthropic, &error, record(playback, request))
        }
    }
}

fn header_list(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}

fn record(playback: &Playback, request: Recorded) -> usize {
    let mut played = playback.lock();
    played.requests.push(request);
    played.requests.len()
}

/// Records a request for a message and picks its answer, in one step, so that the order of the
/// records is the order of the answers.
fn decide(
    playback: &Playback,
    route: &Route,
    mut request: Recorded,
) -> Result<Decision, (ApiError, usize)> {
    let model = route
        .model
        .clone()
        .or_else(|| request.model().map(str::to_owned));
    let Some(model) = model else {
        let error = api_error(400, "model: field required".to_owned());
        return Err((error, record(playback, request)));
    };
    let asked = Asked {
        wire: route.wire,
        model,
        wants: wants(route, &request),
        tools: tools::offered(route.wire, &request.body),
    };
    let opening = opening(route.wire, &request.body);
    let mut played = playback.lock();
    let next = if is_side_request(&request, &asked, &opening) {
        request.kind = RequestKind::Side;
        played.player.next_on_the_side(&opening)
    } else {
        request.kind = RequestKind::Turn;
        played.player.next(&opening)
    };
    request.answer = next.as_ref().map(|(index, _)| *index);
    let after_the_end = || Answer::new(Act::Message(played.player.after_the_end()));
    let answer = next.map_or_else(after_the_end, |(_, answer)| answer);
    played.requests.push(request);
    Ok(Decision {
        answer,
        serial: played.requests.len(),
        asked,
    })
}

fn wants(route: &Route, request: &Recorded) -> Wants {
    match route.wire {
        Wire::Gemini if !route.streams => Wants::Json,
        Wire::Gemini if request.path.contains("alt=sse") => Wants::Events,
        Wire::Gemini => Wants::Array,
        _ if request.body["stream"] == true => Wants::Events,
        _ => Wants::Json,
    }
}

/// What a conversation opens with: the system prompt and all that precedes the first answer.
fn opening(wire: Wire, body: &Value) -> String {
    match wire {
        Wire::Anthropic => anthropic::opening(body),
        Wire::OpenAiChat => openai_chat::opening(body),
        Wire::OpenAiResponses => openai_responses::opening(body),
        Wire::Gemini => gemini::opening(body),
    }
}

/// Whether a request is a question on the side rather than a turn.
///
/// Clients with tools offer them in every turn, and none when they want a title or a routing decision
/// from a small model. Clients that never offer tools exist, so the absence alone says nothing.
fn is_side_request(request: &Recorded, asked: &Asked, opening: &str) -> bool {
    if asked.wire == Wire::Anthropic {
        return anthropic::is_side_request(request.header("user-agent"), &request.body);
    }
    let config = &request.body["generationConfig"];
    let routes = ["responseSchema", "responseJsonSchema"]
        .iter()
        .any(|f| config.get(f).is_some());
    asked.tools.is_empty() && (routes || opening.contains("title generator"))
}

async fn play(playback: &Playback, decision: Decision) -> Response<Body> {
    let Decision {
        answer,
        serial,
        asked,
    } = decision;
    pause(playback, answer.delay).await;
    match answer.act {
        Act::Error(error) => refusal(asked.wire, &error, serial),
        Act::Hang => {
            playback.stop.cancelled().await;
            // Nobody should take this for an answer of the script.
            cut_body(Vec::new())
        }
        Act::Message(message) => {
            let reply = Reply::new(&message, &asked.model, &asked.tools, serial);
            match asked.wants {
                Wants::Json => plain(&to_json(asked.wire, &reply), &message),
                Wants::Events => {
                    let events = to_events(asked.wire, &reply);
                    streamed("text/event-stream", events, &message, playback.stop.clone())
                }
                Wants::Array => {
                    let bits = gemini::to_array(&reply);
                    streamed("application/json", bits, &message, playback.stop.clone())
                }
            }
        }
    }
}

fn to_json(wire: Wire, reply: &Reply) -> Value {
    match wire {
        Wire::Anthropic => reply.to_json(),
        Wire::OpenAiChat => openai_chat::to_json(reply),
        Wire::OpenAiResponses => openai_responses::to_json(reply),
        Wire::Gemini => gemini::to_json(reply),
    }
}

fn to_events(wire: Wire, reply: &Reply) -> Vec<String> {
    match wire {
        Wire::Anthropic => reply
            .to_events()
            .iter()
            .map(anthropic::Event::encode)
            .collect(),
        Wire::OpenAiChat => openai_chat::to_events(reply),
        Wire::OpenAiResponses => openai_responses::to_events(reply),
        Wire::Gemini => gemini::to_events(reply),
    }
}

/// Waits, but never longer than anybody listens.
async fn pause(playback: &Playback, time: Duration) {
    if time > Duration::ZERO {
        let _ = tokio::time::timeout(time, playback.stop.cancelled()).await;
    }
}

fn plain(whole: &Value, message: &Message) -> Response<Body> {
    let text = whole.to_string();
    if message.cut_after.is_none() {
        return with_type("application/json", Body::from(text));
    }
    let half = text.as_bytes()[..text.len() / 2].to_vec();
    cut_body(half)
}

fn streamed(
    content_type: &'static str,
    mut events: Vec<String>,
    message: &Message,
    stop: CancellationToken,
) -> Response<Body> {
    events.truncate(message.cut_after.unwrap_or(events.len()));
    let mut steps: Vec<Step> = events.into_iter().map(Step::Send).collect();
    steps.extend(message.cut_after.map(|_| Step::Cut));
    let pace = Duration::from_millis(message.pace_ms);
    with_type(content_type, body_of(steps, pace, stop))
}

/// What happens on a stream.
enum Step {
    Send(String),
    Cut,
}

fn body_of(steps: Vec<Step>, pace: Duration, stop: CancellationToken) -> Body {
    let paced = stream::unfold((steps.into_iter(), 0), move |(mut left, sent)| {
        let stop = stop.clone();
        async move {
            let next = left.next()?;
            let wait = match next {
                Step::Cut => pace.max(BEFORE_CUT),
                Step::Send(_) if sent == 0 => Duration::ZERO,
                Step::Send(_) => pace,
            };
            let stopped =
                wait > Duration::ZERO && tokio::time::timeout(wait, stop.cancelled()).await.is_ok();
            let item = match next {
                Step::Send(text) if !stopped => Ok(Bytes::from(text)),
                _ => Err(cut()),
            };
            Some((item, (left, sent + 1)))
        }
    });
    Body::stream(Box::pin(paced))
}

/// A body that begins like this and never ends properly.
fn cut_body(beginning: Vec<u8>) -> Response<Body> {
    let parts = stream::unfold(Some(beginning), |beginning| async move {
        match beginning {
            Some(bytes) if !bytes.is_empty() => Some((Ok(Bytes::from(bytes)), Some(Vec::new()))),
            Some(_) => {
                tokio::time::sleep(BEFORE_CUT).await;
                Some((Err(cut()), None))
            }
            None => None,
        }
    });
    with_type("application/json", Body::stream(Box::pin(parts)))
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script")
}

fn refusal(wire: Wire, error: &ApiError, serial: usize) -> Response<Body> {
    let named = || format!("scripted error {}", error.status);
    let body = match wire {
        Wire::Anthropic => anthropic::error_json(error, serial),
        _ => wire.error_body(error.status, &error.message.clone().unwrap_or_else(named)),
    };
    let mut builder = Response::builder()
        .status(error.status)
        .header(header::CONTENT_TYPE, "application/json")
        .header("request-id", format!("req_scripted_{serial}"));
    if let Some(seconds) = error.retry_after {
        builder = builder.header(header::RETRY_AFTER, seconds);
    }
    let response = builder.body(Body::from(body.to_string()));
    response.expect("a status of three digits and headers of plain ASCII")
}

fn count_tokens(playback: &Playback, route: &Route, mut request: Recorded) -> Response<Body> {
    request.kind = RequestKind::CountTokens;
    // Four bytes a token is near enough for an agent that decides whether to compact.
    let tokens = request.body.to_string().len() / 4;
    record(playback, request);
    let body: Value = match route.wire {
        Wire::Gemini => json!({"totalTokens": tokens}),
        _ => json!({"input_tokens": tokens}),
    };
    with_type("application/json", Body::from(body.to_string()))
}

fn with_type(content_type: &'static str, body: Body) -> Response<Body> {
    let response = Response::builder().header(header::CONTENT_TYPE, content_type);
    response.body(body).expect("a constant header is valid")
}

fn api_error(status: u16, message: String) -> ApiError {
    ApiError {
        status,
        message: Some(message),
        retry_after: None,
    }
}
