//! One request, top to bottom: authentication, limits, budget, and the response.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use jiff::Timestamp;
use proctor_model_api::{Kind, Route, Wire, route};
use proctor_scripted_model::IncomingRequest;
use tokio::sync::OwnedSemaphorePermit;

use super::fetch::{Outbound, fetch};
use super::refusal::{json_response, refusal, upgrade_required};
use super::request_body::{BodyError, collect};
use super::reserve::reserve;
use super::worker::{ListenerAccess, Worker};
use super::{pages, proxy};
use crate::budget::{EXHAUSTED_HEADER, Exhausted};
use crate::call::{ActiveCall, Billable, Body, Pending};
use crate::faults::Fault;
use crate::key::Key;
use crate::ledger::{Call, CallEnd};
use crate::recording::RequestFingerprint;
use crate::request::headers;
use crate::secrets;
use crate::state::ModelBackend;
use crate::upstream::LimiterPermit;

/// Handles one request.
pub(crate) async fn handle(
    worker: Arc<Worker>,
    access: Arc<ListenerAccess>,
    request: Request<Incoming>,
) -> Response<Body> {
    if *request.method() == Method::CONNECT {
        return Box::pin(proxy::handle(&worker, &access, request)).await;
    }
    if *request.method() == Method::HEAD {
        // Clients probe whether the server is up.
        return Response::new(Body::default());
    }
    if request.headers().contains_key(UPGRADE) {
        return upgrade_required();
    }
    if request.uri().scheme().is_some() {
        return proxy::refuse_plain(&worker, &access, &request);
    }
    if let Some(page) = pages::answer(&worker.state, &request) {
        return page;
    }
    let (parts, body) = request.into_parts();
    let Some(route) = route(&parts.method, parts.uri.path(), &parts.headers) else {
        return refusal(
            likely_wire(&parts),
            404,
            "unknown path: not an endpoint of a supported API",
        );
    };
    let shown = secrets::shown(&parts.headers, parts.uri.query());
    let key = access.key_for(&worker.state, shown.as_deref());
    let Some(key) = key.filter(|key| !key.is_closed()) else {
        return refusal(route.wire, 401, "invalid API key: unknown to the gateway");
    };
    Box::pin(read_and_answer(
        worker,
        key,
        Arriving { route, parts, body },
    ))
    .await
}

/// A request whose body has not been read yet.
struct Arriving {
    route: Route,
    parts: Parts,
    body: Incoming,
}

/// Reads the body of a request within the bounds of its key, then answers the request.
async fn read_and_answer(worker: Arc<Worker>, key: Arc<Key>, arriving: Arriving) -> Response<Body> {
    let Arriving { route, parts, body } = arriving;
    let (wire, revoked) = (route.wire, key.revoked.clone());
    let revoked_key = || refusal(wire, 401, "invalid API key: the key was revoked");
    let permit = match revoked.run_until_cancelled(key.bounds.call()).await {
        None => return revoked_key(),
        Some(None) => return too_many_calls(wire),
        Some(permit) => permit,
    };
    let (body, body_permit) = match collect(&key, body).await {
        Ok(collected) => collected,
        Err(BodyError::TooLong) => return refusal(wire, 413, "the request is longer than 64 MB"),
        Err(BodyError::Interrupted) => return refusal(wire, 408, "the request body is incomplete"),
    };
    let billable = Billable::default();
    let inbound = Inbound {
        route,
        parts,
        body,
        billable: billable.clone(),
        permit,
        body_permit,
    };
    let answering = Pending::new(Arc::clone(&key), billable, answer(worker, key, inbound));
    match revoked.run_until_cancelled_owned(answering).await {
        Some(response) => response,
        None => revoked_key(),
    }
}

fn too_many_calls(wire: Wire) -> Response<Body> {
    let message = "too many concurrent calls with this key";
    let mut response = refusal(wire, 429, message);
    let pause = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, pause);
    response
}

/// A complete request with a valid key.
struct Inbound {
    route: Route,
    parts: Parts,
    body: Bytes,
    billable: Billable,
    permit: Option<OwnedSemaphorePermit>,
    /// The share of the key's memory for bodies that this body uses.
    body_permit: OwnedSemaphorePermit,
}

async fn answer(worker: Arc<Worker>, key: Arc<Key>, inbound: Inbound) -> Response<Body> {
    let Inbound {
        route,
        parts,
        body,
        billable,
        permit,
        body_permit,
    } = inbound;
    let state = &worker.state;
    let call = new_call(&key, &route, body.len());
    let mut active = Box::new(ActiveCall::new(state, &key, call));
    active.billable = billable;
    active.permit = permit;
    let checked = match key.policy.apply(&route, body) {
        Ok(checked) => checked,
        Err(why) => {
            active.call.error = Some(why.message.clone());
            return refuse(active, route.wire, why.status, &why.message);
        }
    };
    active.call.model.clone_from(&checked.model);
    active.call.sent_model.clone_from(&checked.sent_model);
    active.call.stream = checked.stream;
    active.call.notes.clone_from(&checked.notes);
    if route.kind == Kind::Generate {
        key.context.observe(route.wire, &checked.body);
        key.watcher
            .observe(route.wire, &checked.body, active.call.call);
        if let Err(limit) = reserve(state, &key, &checked, &mut active).await {
            return refuse_over_budget(active, route.wire, limit);
        }
    }
    let cut_after = match inject_fault(&key, &mut active).await {
        Injected::Nothing => None,
        Injected::CutAfter(bytes) => Some(bytes),
        Injected::Status(status) => return answer_error(active, route.wire, status),
    };
    let outbound = Outbound {
        route,
        parts,
        request: checked,
    };
    let response = obtain(&worker, &key, outbound, &mut active).await;
    // The request's body has been sent and dropped.
    drop(body_permit);
    let (mut parts, body) = response.into_parts();
    headers::remove_hop_by_hop(&mut parts.headers);
    active.answer(parts.status.as_u16(), &parts.headers);
    let body = body
        .cut_after(cut_after)
        .for_call(active, key.revoked.clone().cancelled_owned());
    Response::from_parts(parts, body)
}

/// The part of an injected fault that is left to do.
enum Injected {
    Nothing,
    Status(u16),
    CutAfter(u64),
}

/// Applies the fault that the key's settings have for this call, if any.
async fn inject_fault(key: &Key, active: &mut ActiveCall) -> Injected {
    let faults = key.faults.as_ref();
    let fault = faults.and_then(|faults| faults.of_call(active.call.call));
    active.call.fault = fault;
    let notes = &mut active.call.notes;
    match fault {
        None => Injected::Nothing,
        Some(Fault::Latency(time)) => {
            notes.push(format!("fault: {} ms late", time.as_millis()));
            tokio::time::sleep(time).await;
            Injected::Nothing
        }
        Some(Fault::Status(status)) => {
            notes.push(format!("fault: status {status}"));
            Injected::Status(status)
        }
        Some(Fault::CutAfter(bytes)) => {
            notes.push(format!("fault: cut after {bytes} bytes"));
            Injected::CutAfter(bytes)
        }
    }
}

/// Gets the response from a recording, a script or a provider.
async fn obtain(
    worker: &Arc<Worker>,
    key: &Arc<Key>,
    outbound: Outbound,
    active: &mut ActiveCall,
) -> Response<Body> {
    let wire = outbound.route.wire;
    let mut fingerprint = None;
    if let Some(recording) = &key.recording
        && outbound.route.kind != Kind::Lookup
    {
        let checked = &outbound.request;
        let request =
            RequestFingerprint::new(wire, &checked.path, &checked.body, &worker.state.redactor);
        match recording.replay(&request) {
            Some(Ok(response)) => {
                active.call.notes.push("replayed".to_owned());
                return response.map(Body::from);
            }
            Some(Err(why)) => {
                active.call.error = Some(why.clone());
                return refusal(wire, 404, &why);
            }
            None => fingerprint = Some(request),
        }
    }
    let response = match worker.state.backend(wire.provider()) {
        None => {
            let message = format!("no upstream configured for {}", wire.provider().name());
            active.call.error = Some(message.clone());
            return refusal(wire, 404, &message);
        }
        Some(ModelBackend::Script(_)) => play(key, outbound, active).await,
        Some(ModelBackend::Http(upstream)) => fetch(worker, upstream, outbound, active).await,
    };
    if let (Some(recording), Some(request)) = (&key.recording, fingerprint) {
        active.recorder = recording.record(request, response.status().as_u16(), response.headers());
    }
    response
}

async fn play(key: &Key, outbound: Outbound, active: &mut ActiveCall) -> Response<Body> {
    active.send(LimiterPermit::default());
    let provider = outbound.route.wire.provider();
    let playback = &key.playbacks[provider as usize];
    let playback = playback
        .as_ref()
        .expect("each key has a playback of every script");
    let request = IncomingRequest {
        method: outbound.parts.method,
        uri: outbound.parts.uri,
        headers: outbound.parts.headers,
        body: outbound.request.body,
    };
    let response = Box::pin(proctor_scripted_model::respond(playback, request)).await;
    response.map(Body::from)
}

fn new_call(key: &Key, route: &Route, request_bytes: usize) -> Call {
    Call {
        key: key.label.clone(),
        call: key.next_call(),
        at: Timestamp::now(),
        wire: route.wire,
        kind: route.kind,
        path: route.path.clone(),
        model: None,
        sent_model: None,
        served_model: None,
        stream: false,
        status: None,
        ended: CallEnd::Complete,
        usage: None,
        cost_nano_usd: None,
        incomplete: false,
        at_most_nano_usd: None,
        exhausted: None,
        notes: Vec::new(),
        retries: 0,
        fault: None,
        error: None,
        request_bytes: request_bytes as u64,
        response_bytes: 0,
        waited_ms: 0,
        first_byte_ms: None,
        total_ms: 0,
    }
}

/// Refuses a call and finishes its account.
fn refuse(mut active: Box<ActiveCall>, wire: Wire, status: u16, message: &str) -> Response<Body> {
    active.call.status = Some(status);
    active.finish(CallEnd::Refused);
    refusal(wire, status, message)
}

fn refuse_over_budget(mut active: Box<ActiveCall>, wire: Wire, limit: Exhausted) -> Response<Body> {
    active.call.exhausted = Some(limit);
    active.call.status = Some(wire.quota_status());
    active.finish(CallEnd::Refused);
    let body = wire.quota_body(limit.message());
    let mut response = json_response(wire.quota_status(), &body);
    let name = HeaderValue::from_static(limit.name());
    response.headers_mut().insert(EXHAUSTED_HEADER, name);
    response
}

/// Answers with an injected error, which counts like an error of the provider.
fn answer_error(mut active: Box<ActiveCall>, wire: Wire, status: u16) -> Response<Body> {
    active.call.status = Some(status);
    active.finish(CallEnd::Complete);
    refusal(wire, status, "injected fault")
}

/// Guesses the API of a request whose path is unknown, for the form of the error.
fn likely_wire(parts: &Parts) -> Wire {
    let has = |name: &str| parts.headers.contains_key(name);
    if has("x-goog-api-key") {
        Wire::Gemini
    } else if has("x-api-key") || has("anthropic-version") {
        Wire::Anthropic
    } else {
        Wire::OpenAiChat
    }
}
