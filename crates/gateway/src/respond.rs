//! What the scripted model does with one request: record it, pick its answer, play that.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri, header};
use futures_util::stream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::request::{Recorded, RequestKind};
use crate::script::{Act, Answer, ApiError, Message};
use crate::server::Shared;
use crate::wire::anthropic::{self, Reply};

/// How long a connection lives on after the last event before it is cut, so that the event goes out.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// What a request turned out to get.
struct Decision {
    answer: Answer,
    serial: usize,
    asked: Asked,
}

/// What the rendering of an answer needs to know of its request.
struct Asked {
    model: String,
    wants: Wants,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Stream,
    Json,
}

pub(crate) async fn handle(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Infallible> {
    let request = Recorded {
        method: method.to_string(),
        path: uri.to_string(),
        headers: header_list(&headers),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        at: SystemTime::now(),
        kind: RequestKind::Other,
        answer: None,
    };
    let response = match (method, uri.path()) {
        (Method::POST, "/v1/messages") => match decide(&shared, request) {
            Ok(decision) => play(&shared, decision).await,
            Err((error, serial)) => refusal(&error, serial),
        },
        (Method::POST, "/v1/messages/count_tokens") => count_tokens(&shared, request),
        // Probes before the first turn: the agent only wants to know that someone is there.
        (Method::HEAD | Method::GET, _) => {
            record(&shared, request);
            Response::new(Body::empty())
        }
        (_, path) => {
            let error = api_error(404, format!("the scripted model has no {path}"));
            refusal(&error, record(&shared, request))
        }
    };
    Ok(response)
}

fn header_list(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}

fn record(shared: &Shared, request: Recorded) -> usize {
    let mut played = shared.lock();
    played.requests.push(request);
    played.requests.len()
}

/// Records a request for a message and picks its answer, in one step, so that the order of the
/// records is the order of the answers.
fn decide(shared: &Shared, mut request: Recorded) -> Result<Decision, (ApiError, usize)> {
    let Some(model) = request.model().map(str::to_owned) else {
        let error = api_error(400, "model: field required".to_owned());
        return Err((error, record(shared, request)));
    };
    let wants = match request.body["stream"].as_bool() {
        Some(true) => Wants::Stream,
        _ => Wants::Json,
    };
    let opening = anthropic::opening(&request.body);
    let mut played = shared.lock();
    let next = if anthropic::is_side_request(request.header("user-agent"), &request.body) {
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
        asked: Asked { model, wants },
    })
}

async fn play(shared: &Shared, decision: Decision) -> Response<Body> {
    let Decision {
        answer,
        serial,
        asked,
    } = decision;
    pause(shared, answer.delay).await;
    match answer.act {
        Act::Error(error) => refusal(&error, serial),
        Act::Hang => {
            shared.stop.cancelled().await;
            // Nobody should take this for an answer of the script.
            cut_body(Vec::new())
        }
        Act::Message(message) => {
            let reply = Reply {
                message: &message,
                asked: &asked.model,
                serial,
            };
            match asked.wants {
                Wants::Stream => streamed(&reply, &message, shared.stop.clone()),
                Wants::Json => plain(&reply, &message),
            }
        }
    }
}

/// Waits, but never longer than the server lives.
async fn pause(shared: &Shared, time: Duration) {
    let _ = tokio::time::timeout(time, shared.stop.cancelled()).await;
}

fn plain(reply: &Reply<'_>, message: &Message) -> Response<Body> {
    let text = reply.to_json().to_string();
    if message.cut_after.is_none() {
        return with_type("application/json", Body::from(text));
    }
    let half = text.as_bytes()[..text.len() / 2].to_vec();
    cut_body(half)
}

fn streamed(reply: &Reply<'_>, message: &Message, stop: CancellationToken) -> Response<Body> {
    let mut events = reply.to_events();
    events.truncate(message.cut_after.unwrap_or(events.len()));
    let mut steps: Vec<Step> = events.iter().map(|e| Step::Send(e.encode())).collect();
    steps.extend(message.cut_after.map(|_| Step::Cut));
    let pace = Duration::from_millis(message.pace_ms);
    with_type("text/event-stream", body_of(steps, pace, stop))
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
    Body::from_stream(paced)
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
    with_type("application/json", Body::from_stream(parts))
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script")
}

fn refusal(error: &ApiError, serial: usize) -> Response<Body> {
    let body = anthropic::error_json(error, serial).to_string();
    let mut builder = Response::builder()
        .status(error.status)
        .header(header::CONTENT_TYPE, "application/json")
        .header("request-id", format!("req_scripted_{serial}"));
    if let Some(seconds) = error.retry_after {
        builder = builder.header(header::RETRY_AFTER, seconds);
    }
    let response = builder.body(Body::from(body));
    response.expect("a status of three digits and headers of plain ASCII")
}

fn count_tokens(shared: &Shared, mut request: Recorded) -> Response<Body> {
    request.kind = RequestKind::CountTokens;
    // Four bytes a token is near enough for an agent that decides whether to compact.
    let tokens = request.body.to_string().len() / 4;
    record(shared, request);
    let body: Value = json!({"input_tokens": tokens});
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
