//! Asks a provider: with its own key, at its own pace, again only where that is wanted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};

use crate::answer::Answer;
use crate::body::Body;
use crate::handler::{Outbound, Worker, refusal};
use crate::headers;
use crate::hub::Hub;
use crate::key;
use crate::ledger::Ended;
use crate::live::Live;
use crate::pool::Lease;
use crate::throttle::retry_after;
use crate::upstream::Ready;

/// Errors are short; what is longer passes unread.
const LONGEST_ERROR: usize = 1 << 20;

/// An error that does not come to its end in this time is passed on without its text.
const ERROR_PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request to a provider and gives its answer, or an error of the gateway's own.
pub(crate) async fn fetch(
    worker: &Arc<Worker>,
    upstream: &Ready,
    outbound: Outbound,
    live: &mut Live,
) -> Response<Body> {
    let wire = outbound.route.wire;
    let query = outbound.parts.uri.query().map(key::query_without_key);
    let path = upstream.path(&outbound.asked.path, query.as_deref());
    let method = outbound.parts.method;
    let mut headers = headers::for_upstream(outbound.parts.headers);
    upstream.address(&mut headers);
    loop {
        live.send(upstream.gate.enter().await);
        live.billable.set(true);
        let mut request = Request::new(Full::new(outbound.asked.body.clone()));
        *request.method_mut() = method.clone();
        *request.headers_mut() = headers.clone();
        let Ok(uri) = path.parse() else {
            return refusal(wire, 400, "the path is none");
        };
        *request.uri_mut() = uri;
        let sent = worker.pool.send(upstream, request).await;
        if let Ok((response, _)) = &sent {
            let status = response.status().as_u16();
            upstream.gate.note(status, response.headers());
        }
        if let Some(pause) = worth_another_try(&sent, upstream, live) {
            live.call.retries += 1;
            live.call.notes.push(retry_note(&sent));
            drop(sent);
            // Others may go first, and with one request at a time this one could not come back.
            live.release();
            tokio::time::sleep(pause).await;
            continue;
        }
        return match sent {
            Ok((response, lease)) => {
                let response =
                    response.map(|incoming| Body::upstream(Answer::new(incoming, lease)));
                mask_error(&worker.hub, response).await
            }
            Err(error) => {
                live.call.error = Some(describe(&error));
                live.call.ended = Ended::Unreachable;
                refusal(wire, 502, "the provider cannot be reached")
            }
        };
    }
}

type Sent = io::Result<(Response<Incoming>, Lease)>;

/// How long to wait before asking again, if that is allowed and makes sense.
fn worth_another_try(sent: &Sent, upstream: &Ready, live: &Live) -> Option<Duration> {
    if live.call.retries >= upstream.retries {
        return None;
    }
    let back_off = Duration::from_millis(500) * 2_u32.saturating_pow(live.call.retries.min(6));
    match sent {
        Err(_) => Some(back_off),
        Ok((response, _)) => {
            let failed = matches!(
                response.status().as_u16(),
                429 | 500 | 502 | 503 | 504 | 529
            );
            failed.then(|| retry_after(response.headers()).unwrap_or(back_off))
        }
    }
}

fn retry_note(sent: &Sent) -> String {
    match sent {
        Ok((response, _)) => format!("retried after status {}", response.status().as_u16()),
        Err(error) => format!("retried after: {error}"),
    }
}

/// An error with its causes, which is where the reason stands.
fn describe(error: &io::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.get_ref().and_then(|inner| inner.source());
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// A provider may quote a key in its errors: then, and only then, the answer changes.
async fn mask_error(hub: &Hub, response: Response<Body>) -> Response<Body> {
    let length = response.body().size_hint().exact();
    if response.status().as_u16() < 400 || length.is_some_and(|n| n > LONGEST_ERROR as u64) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let limited = Limited::new(body, LONGEST_ERROR);
    let collected = tokio::time::timeout(ERROR_PATIENCE, limited.collect()).await;
    let bytes = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        _ => Bytes::new(),
    };
    let bytes = hub.redactor.bytes(&bytes).unwrap_or(bytes);
    parts.headers.remove(hyper::header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(bytes))
}
