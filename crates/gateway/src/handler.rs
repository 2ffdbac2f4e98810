//! One request, top to bottom: who asks, may they, what does it cost, who answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::abandoned::{Billable, Pending};
use crate::body::Body;
use crate::bounds;
use crate::budget::{Amount, EXHAUSTED_HEADER, Exhausted};
use crate::cassette::Asking;
use crate::connect;
use crate::faults::Fault;
use crate::fetch::fetch;
use crate::headers;
use crate::hub::{Answerer, Hub};
use crate::key::{self, Key};
use crate::ledger::{Call, Ended};
use crate::live::Live;
use crate::pages;
use crate::policy::Asked;
use crate::pool::Pool;
use crate::script;
use crate::throttle::Pass;
use crate::wire::{self, Kind, Route, Wire};

/// The longest request body.
const LONGEST_BODY: u64 = 64 << 20;

/// A body of which nothing comes for so long is given up.
const BODY_PATIENCE: Duration = Duration::from_mins(1);

/// An answer of up to so many tokens is expected where nobody says.
const USUAL_OUTPUT: u64 = 8192;

/// Providers put instructions of their own before a prompt, above all where tools are offered.
const HIDDEN_PROMPT: u64 = 1000;

/// What a worker knows.
pub(crate) struct Worker {
    pub(crate) hub: Arc<Hub>,
    pub(crate) pool: Arc<Pool>,
    /// What runs on after a request was answered: tunnels.
    pub(crate) tasks: TaskTracker,
}

/// Where a connection came in.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// The key of the only client behind this listener.
    pub(crate) key: Option<Arc<Key>>,
    /// Whether that client may leave its key out.
    pub(crate) admits_keyless: bool,
}

impl Door {
    /// The key that a request stands for. A key that the gateway does not know is reported to the
    /// owner of the listener's own key: its client would try again in vain.
    fn key_for(&self, hub: &Hub, shown: Option<&str>) -> Option<Arc<Key>> {
        let Some(shown) = shown else {
            return self.keyless();
        };
        if let Some(key) = hub.keys.find(shown) {
            return Some(key);
        }
        let own = self.key.as_ref()?;
        if own.has_alias(shown) {
            return Some(Arc::clone(own));
        }
        own.unknown_key.cancel();
        None
    }

    /// The key of a client that showed none.
    pub(crate) fn keyless(&self) -> Option<Arc<Key>> {
        self.key.clone().filter(|_| self.admits_keyless)
    }
}

/// Answers a request.
pub(crate) async fn handle(
    worker: Arc<Worker>,
    door: Arc<Door>,
    request: Request<Incoming>,
) -> Response<Body> {
    if *request.method() == Method::CONNECT {
        return Box::pin(connect::handle(&worker, &door, request)).await;
    }
    if *request.method() == Method::HEAD {
        // Clients probe whether anybody is there.
        return Response::new(Body::default());
    }
    if request.headers().contains_key(UPGRADE) {
        return upgrade_required();
    }
    if request.uri().scheme().is_some() {
        return connect::refuse_plain(&worker, &door, &request);
    }
    if let Some(page) = pages::answer(&worker.hub, &request) {
        return page;
    }
    let (parts, body) = request.into_parts();
    let Some(route) = wire::route(&parts.method, parts.uri.path(), &parts.headers) else {
        return refusal(likely_wire(&parts), 404, "the gateway has no such path");
    };
    let shown = key::shown(&parts.headers, parts.uri.query());
    let key = door.key_for(&worker.hub, shown.as_deref());
    let Some(key) = key.filter(|key| !key.is_closed()) else {
        return refusal(
            route.wire,
            401,
            "invalid API key: the gateway does not know it",
        );
    };
    Box::pin(take(worker, key, Arriving { route, parts, body })).await
}

/// A request whose body is still to come.
struct Arriving {
    route: Route,
    parts: Parts,
    body: Incoming,
}

/// Takes a request of a key in, within the key's bounds, and answers it.
async fn take(worker: Arc<Worker>, key: Arc<Key>, arriving: Arriving) -> Response<Body> {
    let Arriving { route, parts, body } = arriving;
    let (wire, revoked) = (route.wire, key.revoked.clone());
    let revoked_key = || refusal(wire, 401, "invalid API key: it was revoked");
    let permit = match revoked.run_until_cancelled(key.bounds.call()).await {
        None => return revoked_key(),
        Some(None) => return too_many_calls(wire),
        Some(permit) => permit,
    };
    let (body, room) = match collect(&key, body).await {
        Ok(collected) => collected,
        Err(Unread::TooLong) => return refusal(wire, 413, "the request is longer than 64 MB"),
        Err(Unread::Broken) => return refusal(wire, 408, "the request did not come through"),
    };
    let billable = Billable::default();
    let inbound = Inbound {
        route,
        parts,
        body,
        billable: billable.clone(),
        permit,
        room,
    };
    let answering = Pending::new(Arc::clone(&key), billable, answer(worker, key, inbound));
    match revoked.run_until_cancelled_owned(answering).await {
        Some(response) => response,
        None => revoked_key(),
    }
}

fn too_many_calls(wire: Wire) -> Response<Body> {
    let message = "too many calls of this key are waiting: make fewer at the same time";
    let mut response = refusal(wire, 429, message);
    let pause = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, pause);
    response
}

/// A request that is complete and belongs to a key.
struct Inbound {
    route: Route,
    parts: Parts,
    body: Bytes,
    billable: Billable,
    permit: Option<OwnedSemaphorePermit>,
    /// The part of the key's room for bodies that this body fills.
    room: OwnedSemaphorePermit,
}

async fn answer(worker: Arc<Worker>, key: Arc<Key>, inbound: Inbound) -> Response<Body> {
    let Inbound {
        route,
        parts,
        body,
        billable,
        permit,
        room,
    } = inbound;
    let hub = &worker.hub;
    let mut live = Box::new(Live::new(hub, &key, new_call(&key, &route, body.len())));
    live.billable = billable;
    live.permit = permit;
    let asked = match key.policy.apply(&route, body) {
        Ok(asked) => asked,
        Err(why) => {
            live.call.error = Some(why.message.clone());
            return refuse(live, route.wire, why.status, &why.message);
        }
    };
    live.call.model.clone_from(&asked.model);
    live.call.sent_model.clone_from(&asked.sent_model);
    live.call.stream = asked.stream;
    live.call.notes.clone_from(&asked.notes);
    if route.kind == Kind::Generate {
        key.context.look(route.wire, &asked.body);
    }
    if route.kind == Kind::Generate
        && let Err(why) = reserve(hub, &key, &asked, &mut live).await
    {
        live.call.exhausted = Some(why);
        live.call.status = Some(route.wire.quota_status());
        live.finish(Ended::Refused);
        let body = route.wire.quota_body(why.message());
        let mut response = json_response(route.wire.quota_status(), &body);
        let name = HeaderValue::from_static(why.name());
        response.headers_mut().insert(EXHAUSTED_HEADER, name);
        return response;
    }
    let fault = key
        .faults
        .as_ref()
        .and_then(|faults| faults.of_call(live.call.call));
    live.call.fault = fault;
    let cut_after = match fault {
        None => None,
        Some(Fault::Latency(time)) => {
            live.call
                .notes
                .push(format!("fault: {} ms late", time.as_millis()));
            tokio::time::sleep(time).await;
            None
        }
        Some(Fault::Status(status)) => {
            live.call.notes.push(format!("fault: status {status}"));
            return answer_error(live, route.wire, status, "put in on purpose");
        }
        Some(Fault::CutAfter(bytes)) => {
            live.call
                .notes
                .push(format!("fault: cut after {bytes} bytes"));
            Some(bytes)
        }
    };
    let outbound = Outbound {
        route,
        parts,
        asked,
    };
    let response = obtain(&worker, &key, outbound, &mut live).await;
    // The request's body is sent and dropped.
    drop(room);
    let (mut parts, body) = response.into_parts();
    headers::remove_hop_by_hop(&mut parts.headers);
    live.answer(parts.status.as_u16(), &parts.headers);
    let body = body
        .cut_after(cut_after)
        .for_call(live, key.revoked.clone().cancelled_owned());
    Response::from_parts(parts, body)
}

/// A request as it goes out.
pub(crate) struct Outbound {
    pub(crate) route: Route,
    pub(crate) parts: Parts,
    pub(crate) asked: Asked,
}

/// Gets the answer from a cassette, a script or a provider.
async fn obtain(
    worker: &Arc<Worker>,
    key: &Arc<Key>,
    outbound: Outbound,
    live: &mut Live,
) -> Response<Body> {
    let wire = outbound.route.wire;
    let mut fingerprint = None;
    if let Some(cassette) = &key.cassette
        && outbound.route.kind != Kind::Lookup
    {
        let asked = &outbound.asked;
        let request = Asking::new(wire, &asked.path, &asked.body, &worker.hub.redactor);
        match cassette.replay(&request) {
            Some(Ok(response)) => {
                live.call.notes.push("replayed".to_owned());
                return response;
            }
            Some(Err(why)) => {
                live.call.error = Some(why.clone());
                return refusal(wire, 404, &why);
            }
            None => fingerprint = Some(request),
        }
    }
    let response = match worker.hub.answerer(wire.provider()) {
        None => {
            let message = format!("the gateway has no upstream for {}", wire.provider().name());
            live.call.error = Some(message.clone());
            return refusal(wire, 404, &message);
        }
        Some(Answerer::Script(_)) => play(key, outbound, live).await,
        Some(Answerer::Http(upstream)) => fetch(worker, upstream, outbound, live).await,
    };
    if let (Some(cassette), Some(request)) = (&key.cassette, fingerprint) {
        live.recording = cassette.record(request, &response);
    }
    response
}

async fn play(key: &Key, outbound: Outbound, live: &mut Live) -> Response<Body> {
    live.send(Pass::default());
    let provider = outbound.route.wire.provider();
    let playback = &key.playbacks[provider as usize];
    let playback = playback.as_ref().expect("a key has one for every script");
    let received = script::Received {
        method: outbound.parts.method,
        uri: outbound.parts.uri,
        headers: outbound.parts.headers,
        body: outbound.asked.body,
    };
    Box::pin(script::respond(playback, received)).await
}

/// Reserves what the call may cost, on its own budget and on those it shares.
async fn reserve(hub: &Hub, key: &Key, asked: &Asked, live: &mut Live) -> Result<(), Exhausted> {
    // Two bytes a token is less than any text has.
    let prompt = HIDDEN_PROMPT + asked.body.len() as u64 / 2;
    let output = asked.max_tokens.unwrap_or(USUAL_OUTPUT);
    let model = asked.effective_model().unwrap_or_default();
    let amount = Amount {
        usd: hub.prices.at_most(model, prompt, output),
        tokens: prompt.saturating_add(output),
    };
    let mut held = Held {
        key,
        amount,
        count: 0,
    };
    key.budget.reserve(amount).await?;
    held.count = 1;
    for shared in &key.shared {
        shared.reserve(amount).await?;
        held.count += 1;
    }
    held.count = 0;
    live.reserve(amount, asked.max_tokens);
    Ok(())
}

/// Reservations that are given back unless all of them were had.
struct Held<'a> {
    key: &'a Key,
    amount: Amount,
    count: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let shared = self.key.shared.iter().map(|budget| &**budget);
        let all = std::iter::once(&self.key.budget).chain(shared);
        for budget in all.take(self.count) {
            budget.give_back(self.amount);
        }
    }
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
        ended: Ended::Complete,
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

enum Unread {
    TooLong,
    Broken,
}

/// Reads a body to its end, with the room for it.
async fn collect(key: &Key, mut body: Incoming) -> Result<(Bytes, OwnedSemaphorePermit), Unread> {
    let expected = body.size_hint();
    if expected.lower() > LONGEST_BODY {
        return Err(Unread::TooLong);
    }
    // All room at once: bodies that take it bit by bit could wait for each other.
    let room = key.bounds.body(expected.exact().unwrap_or(LONGEST_BODY));
    let room = tokio::time::timeout(BODY_PATIENCE, room).await;
    let mut room = room.ok().flatten().ok_or(Unread::Broken)?;
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    while let Some(frame) = next_frame(&mut body).await? {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.is_empty() && rest.is_none() {
            first = data;
            continue;
        }
        let whole = rest.get_or_insert_with(|| {
            let size = expected.exact().unwrap_or(0).min(LONGEST_BODY);
            let mut whole = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0));
            whole.extend_from_slice(&first);
            whole
        });
        if (whole.len() + data.len()) as u64 > LONGEST_BODY {
            return Err(Unread::TooLong);
        }
        whole.extend_from_slice(&data);
    }
    let body = rest.map_or(first, BytesMut::freeze);
    bounds::shrink(&mut room, body.len());
    Ok((body, room))
}

async fn next_frame(body: &mut Incoming) -> Result<Option<hyper::body::Frame<Bytes>>, Unread> {
    match tokio::time::timeout(BODY_PATIENCE, body.frame()).await {
        Ok(frame) => frame.transpose().map_err(|_| Unread::Broken),
        Err(_) => Err(Unread::Broken),
    }
}

/// Says no to a call that is in the books.
fn refuse(mut live: Box<Live>, wire: Wire, status: u16, message: &str) -> Response<Body> {
    live.call.status = Some(status);
    live.finish(Ended::Refused);
    refusal(wire, status, message)
}

/// Gives an error that the client takes for the provider's.
fn answer_error(mut live: Box<Live>, wire: Wire, status: u16, why: &str) -> Response<Body> {
    live.call.status = Some(status);
    live.finish(Ended::Complete);
    refusal(wire, status, why)
}

/// An error of the gateway's own, in the shape of the API.
pub(crate) fn refusal(wire: Wire, status: u16, message: &str) -> Response<Body> {
    json_response(status, &wire.error_body(status, message))
}

fn json_response(status: u16, body: &serde_json::Value) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    response.expect("a status of three digits and a constant header")
}

/// Clients that try a WebSocket first fall back to plain requests then.
fn upgrade_required() -> Response<Body> {
    let response = Response::builder()
        .status(426)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(
            r#"{"error":{"message":"use plain HTTP"}}"#.to_owned(),
        ));
    response.expect("a constant status and a constant header")
}

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
