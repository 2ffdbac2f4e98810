//! Answers one request: records it, selects its answer, and plays the answer.

use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::{HeaderMap, Method, Response, Uri, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::playback::Playback;
use crate::reply::FilledReply;
use crate::request::{RecordedRequest, RequestKind};
use crate::script::{Action, Answer, ApiError, Message};
use crate::tools::{self, DeclaredTool};
use crate::{anthropic, gemini, openai_chat, openai_responses};
use proctor_model_api::{Kind, Route, Wire, route};

/// How long a connection lives on after the last event before it is cut, so that the event goes out.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A request with its whole body.
#[derive(Debug, Clone)]
pub struct IncomingRequest {
    /// The HTTP method.
    pub method: Method,
    /// The path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// The answer to a request.
struct ScriptDecision {
    answer: Answer,
    serial: usize,
    asked: RequestInfo,
}

/// The properties of a request that determine the form of its answer.
struct RequestInfo {
    wire: Wire,
    model: String,
    wants: Framing,
    tools: Vec<DeclaredTool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Events,
    /// Gemini's other way of streaming.
    Array,
    Json,
}

/// Plays the next answer to a request.
pub async fn respond(playback: &Playback, received: IncomingRequest) -> Response<Body> {
    let IncomingRequest {
        method,
        uri,
        headers,
        body,
    } = received;
    let route = route(&method, uri.path(), &headers);
    let request = RecordedRequest {
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
            let error = api_error(
                404,
                format!("the scripted model does not support {}", uri.path()),
            );
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

fn record(playback: &Playback, request: RecordedRequest) -> usize {
    let mut played = playback.lock();
    played.requests.push(request);
    played.requests.len()
}

/// Records a request for a message and picks its answer, in one step, so that the order of the
/// records is the order of the answers.
fn decide(
    playback: &Playback,
    route: &Route,
    mut request: RecordedRequest,
) -> Result<ScriptDecision, (ApiError, usize)> {
    let model = route
        .model
        .clone()
        .or_else(|| request.model().map(str::to_owned));
    let Some(model) = model else {
        let error = api_error(400, "model: field required".to_owned());
        return Err((error, record(playback, request)));
    };
    let asked = RequestInfo {
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
    let after_the_end = || Answer::new(Action::Message(played.player.after_the_end()));
    let answer = next.map_or_else(after_the_end, |(_, answer)| answer);
    played.requests.push(request);
    Ok(ScriptDecision {
        answer,
        serial: played.requests.len(),
        asked,
    })
}

fn wants(route: &Route, request: &RecordedRequest) -> Framing {
    match route.wire {
        Wire::Gemini if !route.streams => Framing::Json,
        Wire::Gemini if request.path.contains("alt=sse") => Framing::Events,
        Wire::Gemini => Framing::Array,
        _ if request.body["stream"] == true => Framing::Events,
        _ => Framing::Json,
    }
}

/// The opening of a conversation: the system prompt and the messages before the first answer.
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
/// from a small model. Some clients never offer tools, so the absence alone is not sufficient.
fn is_side_request(request: &RecordedRequest, asked: &RequestInfo, opening: &str) -> bool {
    if asked.wire == Wire::Anthropic {
        return anthropic::is_side_request(request.header("user-agent"), &request.body);
    }
    let config = &request.body["generationConfig"];
    let routes = ["responseSchema", "responseJsonSchema"]
        .iter()
        .any(|f| config.get(f).is_some());
    asked.tools.is_empty() && (routes || opening.contains("title generator"))
}

async fn play(playback: &Playback, decision: ScriptDecision) -> Response<Body> {
    let ScriptDecision {
        answer,
        serial,
        asked,
    } = decision;
    pause(playback, answer.delay).await;
    match answer.act {
        Action::Error(error) => refusal(asked.wire, &error, serial),
        Action::Hang => {
            playback.stop.cancelled().await;
            // An error, so that it is not mistaken for an answer of the script.
            cut_body(Vec::new())
        }
        Action::Message(message) => {
            let reply = FilledReply::new(&message, &asked.model, &asked.tools, serial);
            match asked.wants {
                Framing::Json => plain(&to_json(asked.wire, &reply), &message),
                Framing::Events => {
                    let events = to_events(asked.wire, &reply);
                    streamed("text/event-stream", events, &message, playback.stop.clone())
                }
                Framing::Array => {
                    let bits = gemini::to_array(&reply);
                    streamed("application/json", bits, &message, playback.stop.clone())
                }
            }
        }
    }
}

fn to_json(wire: Wire, reply: &FilledReply) -> Value {
    match wire {
        Wire::Anthropic => reply.to_json(),
        Wire::OpenAiChat => openai_chat::to_json(reply),
        Wire::OpenAiResponses => openai_responses::to_json(reply),
        Wire::Gemini => gemini::to_json(reply),
    }
}

fn to_events(wire: Wire, reply: &FilledReply) -> Vec<String> {
    match wire {
        Wire::Anthropic => reply
            .to_events()
            .iter()
            .map(anthropic::ServerSentEvent::encode)
            .collect(),
        Wire::OpenAiChat => openai_chat::to_events(reply),
        Wire::OpenAiResponses => openai_responses::to_events(reply),
        Wire::Gemini => gemini::to_events(reply),
    }
}

/// Waits, but not beyond the end of the server.
async fn pause(playback: &Playback, time: Duration) {
    if time > Duration::ZERO {
        let _ = tokio::time::timeout(time, playback.stop.cancelled()).await;
    }
}

fn plain(whole: &Value, message: &Message) -> Response<Body> {
    let text = whole.to_string();
    if message.cut_after.is_none() {
        return with_type("application/json", full_body(text));
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
    let mut steps: Vec<StreamStep> = events.into_iter().map(StreamStep::Send).collect();
    steps.extend(message.cut_after.map(|_| StreamStep::Cut));
    let pace = Duration::from_millis(message.pace_ms);
    with_type(content_type, body_of(steps, pace, stop))
}

/// One step of a streamed response.
enum StreamStep {
    Send(String),
    Cut,
}

fn body_of(steps: Vec<StreamStep>, pace: Duration, stop: CancellationToken) -> Body {
    let paced = stream::unfold((steps.into_iter(), 0), move |(mut left, sent)| {
        let stop = stop.clone();
        async move {
            let next = left.next()?;
            let wait = match next {
                StreamStep::Cut => pace.max(BEFORE_CUT),
                StreamStep::Send(_) if sent == 0 => Duration::ZERO,
                StreamStep::Send(_) => pace,
            };
            let stopped =
                wait > Duration::ZERO && tokio::time::timeout(wait, stop.cancelled()).await.is_ok();
            let item = match next {
                StreamStep::Send(text) if !stopped => Ok(Bytes::from(text)),
                _ => Err(cut()),
            };
            Some((item, (left, sent + 1)))
        }
    });
    stream_body(paced)
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
    with_type("application/json", stream_body(parts))
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
    let response = builder.body(full_body(body.to_string()));
    response.expect("a status of three digits and headers of plain ASCII")
}

fn count_tokens(
    playback: &Playback,
    route: &Route,
    mut request: RecordedRequest,
) -> Response<Body> {
    request.kind = RequestKind::CountTokens;
    // Four bytes a token is near enough for an agent that decides whether to compact.
    let tokens = request.body.to_string().len() / 4;
    record(playback, request);
    let body: Value = match route.wire {
        Wire::Gemini => json!({"totalTokens": tokens}),
        _ => json!({"input_tokens": tokens}),
    };
    with_type("application/json", full_body(body.to_string()))
}

fn with_type(content_type: &'static str, body: Body) -> Response<Body> {
    let response = Response::builder().header(header::CONTENT_TYPE, content_type);
    response.body(body).expect("a constant header is valid")
}

fn full_body(text: String) -> Body {
    Full::new(Bytes::from(text))
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn stream_body(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync()
}

fn api_error(status: u16, message: String) -> ApiError {
    ApiError {
        status,
        message: Some(message),
        retry_after: None,
    }
}
