//! Sends requests to a provider, with its key and within its rate limits, and retries where configured.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use proctor_model_api::Route;

use super::refusal::refusal;
use super::worker::Worker;
use crate::call::{ActiveCall, Body};
use crate::ledger::CallEnd;
use crate::request::{CheckedRequest, headers};
use crate::secrets;
use crate::state::GatewayState;
use crate::upstream::{PooledLease, UpstreamBody, UpstreamEndpoint, retry_after};

/// Error bodies up to this length are searched for keys; longer ones pass unread.
const LONGEST_ERROR: usize = 1 << 20;

/// How long to wait for the rest of an error body before it is passed on without its text.
const ERROR_PATIENCE: Duration = Duration::from_secs(30);

/// A request to be sent upstream.
pub(crate) struct Outbound {
    pub(crate) route: Route,
    pub(crate) parts: Parts,
    pub(crate) request: CheckedRequest,
}

/// Sends a request to a provider. Returns its response, or an error that the gateway wrote.
pub(crate) async fn fetch(
    worker: &Arc<Worker>,
    upstream: &UpstreamEndpoint,
    outbound: Outbound,
    active: &mut ActiveCall,
) -> Response<Body> {
    let wire = outbound.route.wire;
    let query = outbound.parts.uri.query().map(secrets::query_without_key);
    let path = upstream.path(&outbound.request.path, query.as_deref());
    let method = outbound.parts.method;
    let mut headers = headers::for_upstream(outbound.parts.headers);
    upstream.address(&mut headers);
    loop {
        active.send(upstream.limiter.enter().await);
        active.billable.set(true);
        let mut request = Request::new(Full::new(outbound.request.body.clone()));
        *request.method_mut() = method.clone();
        *request.headers_mut() = headers.clone();
        let Ok(uri) = path.parse() else {
            return refusal(wire, 400, "invalid path");
        };
        *request.uri_mut() = uri;
        let sent = worker.pool.send(upstream, request).await;
        if let Ok((response, _)) = &sent {
            let status = response.status().as_u16();
            upstream.limiter.note(status, response.headers());
        }
        if let Some(pause) = retry_pause(&sent, upstream, active) {
            active.call.retries += 1;
            active.call.notes.push(retry_note(&sent));
            drop(sent);
            // The permit is released during the pause. With a concurrency of 1, others could not start.
            active.release();
            tokio::time::sleep(pause).await;
            continue;
        }
        return match sent {
            Ok((response, lease)) => {
                let response =
                    response.map(|incoming| Body::upstream(UpstreamBody::new(incoming, lease)));
                mask_error(&worker.state, response).await
            }
            Err(error) => {
                active.call.error = Some(describe(&error));
                active.call.ended = CallEnd::Unreachable;
                refusal(wire, 502, "cannot reach the provider")
            }
        };
    }
}

type Sent = io::Result<(Response<Incoming>, PooledLease)>;

/// How long to wait before a retry. `None` if the call must not be retried.
fn retry_pause(sent: &Sent, upstream: &UpstreamEndpoint, active: &ActiveCall) -> Option<Duration> {
    if active.call.retries >= upstream.retries {
        return None;
    }
    let back_off = Duration::from_millis(500) * 2_u32.saturating_pow(active.call.retries.min(6));
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

/// An error with its chain of causes.
fn describe(error: &io::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.get_ref().and_then(|inner| inner.source());
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Masks keys that a provider quotes in an error. Other responses stay unchanged.
async fn mask_error(state: &GatewayState, response: Response<Body>) -> Response<Body> {
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
    let bytes = state.redactor.bytes(&bytes).unwrap_or(bytes);
    parts.headers.remove(hyper::header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(bytes))
}
