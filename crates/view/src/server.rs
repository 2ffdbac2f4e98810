//! The server: connections, and the answer to each request.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Read},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Collected, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderName,
        HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
    },
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use proctor_record::{fs::is_locked, record::control::RunRequests};
use serde::Deserialize;
use tokio::{net::TcpListener, sync::Mutex, task::spawn_blocking};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{Access, Credentials, Grant},
    library::{Library, RunPages},
    pulse::{Pulse, Pulses},
    route::{self, Route},
    search,
};

/// The longest wait for the head of a request.
const SLOWEST_HEAD: Duration = Duration::from_secs(10);
/// The pause before another connection is accepted after a failure, such as too many open files.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// The largest body of a request.
const LARGEST_REQUEST: usize = 64 << 10;
/// The part of a file that is in memory at a time.
const CHUNK: usize = 256 << 10;
const NEEDS_TOKEN: &str = "changes need the token: open the address that `proctor view` printed";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A request to a run.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlRequest {
    /// Start no more trials, or start them again.
    Pause(bool),
    /// Cancel a trial by its directory; without one, stop the run.
    Cancel(String),
    /// Run trials again that were interrupted or excluded, by their directories.
    Retry(Vec<String>),
}

struct Site {
    library: Library,
    access: Access,
    pulses: Pulses,
    /// Held while the requests to a run are changed.
    changes: Mutex<()>,
}

/// Answers requests until `cancel`.
pub async fn serve(
    listener: TcpListener,
    library: Library,
    access: Access,
    cancel: CancellationToken,
) {
    let site = Arc::new(Site {
        library,
        access,
        pulses: Pulses::default(),
        changes: Mutex::default(),
    });
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = cancel.cancelled() => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let site = Arc::clone(&site);
        let cancel = cancel.clone();
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                let site = Arc::clone(&site);
                async move { Ok::<_, Infallible>(site.answer(request).await) }
            });
            let mut server = http1::Builder::new();
            let server = server
                .timer(TokioTimer::new())
                .header_read_timeout(SLOWEST_HEAD);
            let connection = server.serve_connection(TokioIo::new(stream), answer);
            tokio::select! {
                // A client that goes away is not a failure.
                _ = connection => {}
                () = cancel.cancelled() => {}
            }
        });
    }
    connections.close();
    connections.wait().await;
}

impl Site {
    async fn answer(self: Arc<Site>, request: Request<Incoming>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let token = route::parameter(&query, "token");
        let header = |name: HeaderName| request.headers().get(name)?.to_str().ok();
        let credentials = Credentials {
            host: header(HOST),
            origin: header(ORIGIN),
            cookie: header(COOKIE),
            token: token.as_deref(),
        };
        match self.access.check(credentials) {
            Grant::Refused(why) => return plain(StatusCode::FORBIDDEN, why),
            Grant::NewCookie(cookie) => return with_cookie(request.uri().path(), &cookie),
            Grant::Granted => {}
        }
        let route = Route::of(request.uri().path(), &query);
        if let (&Method::POST, Route::Control(run)) = (request.method(), &route) {
            if !self.access.may_change(credentials) {
                return plain(StatusCode::FORBIDDEN, NEEDS_TOKEN);
            }
            let run = run.clone();
            return self.control(&run, request.into_body()).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "this page is read-only");
        }
        match route {
            Route::Events(run) => self.events(&run),
            Route::File(run, folder, path) => {
                let open = move || self.library.open(&run)?.file(&folder, &path);
                match spawn_blocking(open).await {
                    Ok(Ok(file)) => file_response(file),
                    Ok(Err(error)) => failed(&error),
                    Err(error) => failed(&io::Error::other(error)),
                }
            }
            Route::RunWithoutSlash(run) => {
                let mut answer = plain(StatusCode::PERMANENT_REDIRECT, "");
                if let Ok(place) = HeaderValue::from_str(&format!("/runs/{run}/")) {
                    answer.headers_mut().insert(LOCATION, place);
                }
                answer
            }
            route => {
                let read = spawn_blocking(move || self.read(route)).await;
                let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
                read.map_or_else(
                    |error| failed(&error),
                    |(kind, body)| response(StatusCode::OK, kind, Full::new(body).boxed_unsync()),
                )
            }
        }
    }

    /// The content of a page, and its type.
    fn read(&self, route: Route) -> io::Result<(&'static str, Bytes)> {
        let open = |run: &str| -> io::Result<Arc<RunPages>> { self.library.open(run) };
        Ok(match route {
            Route::Index => (HTML, self.library.index()?),
            Route::Run(run) => (HTML, open(&run)?.page.clone()),
            Route::Trial(run, folder) => (JSON, open(&run)?.trial(&folder)?),
            Route::Entry(run, folder, entry) => (JSON, open(&run)?.entry(&folder, entry)?),
            Route::Search(run, text) => {
                let found = search::search(&*open(&run)?, &text);
                (JSON, serde_json::to_vec(&found)?.into())
            }
            Route::Events(_)
            | Route::File(..)
            | Route::Control(_)
            | Route::RunWithoutSlash(_)
            | Route::Unknown => {
                return Err(io::ErrorKind::NotFound.into());
            }
        })
    }

    /// Passes a request on to a run that goes on.
    async fn control(&self, run: &str, body: Incoming) -> Response<Body> {
        let body = Limited::new(body, LARGEST_REQUEST).collect().await;
        let request = body.ok().map(Collected::to_bytes);
        let request = request.and_then(|it| serde_json::from_slice::<ControlRequest>(&it).ok());
        let Some(request) = request else {
            return plain(
                StatusCode::BAD_REQUEST,
                "expected `pause`, `cancel` or `retry`",
            );
        };
        let Some(run) = self.library.find(run) else {
            return plain(StatusCode::NOT_FOUND, "there is no such run");
        };
        // Requests are applied one after the other.
        let _turn = self.changes.lock().await;
        let requests = RunRequests::read(&run).filter(|_| is_locked(&run));
        let Some(mut requests) = requests else {
            let why = "this run does not accept requests: it has ended, or it runs on a cluster";
            return plain(StatusCode::CONFLICT, why);
        };
        match request {
            ControlRequest::Pause(paused) => requests.paused = paused,
            ControlRequest::Cancel(folder) if folder.is_empty() => requests.stop = true,
            ControlRequest::Cancel(folder) => drop(requests.cancelled.insert(folder)),
            ControlRequest::Retry(folders) => folders.into_iter().for_each(|it| requests.retry(it)),
        }
        match requests.write(&run) {
            Ok(()) => plain(StatusCode::OK, "requested"),
            Err(error) => failed(&io::Error::other(error)),
        }
    }

    /// The state of a run whenever it changes, until the run has ended.
    fn events(&self, run: &str) -> Response<Body> {
        let Some(run) = self.library.find(run) else {
            return plain(StatusCode::NOT_FOUND, "there is no such run");
        };
        let mut receiver = self.pulses.follow(run);
        receiver.mark_changed();
        let events = stream::unfold(receiver, |mut receiver| async {
            let pulse: Pulse = loop {
                receiver.changed().await.ok()?;
                if let Some(pulse) = receiver.borrow_and_update().clone() {
                    break pulse;
                }
            };
            let json = serde_json::to_string(&pulse).ok()?;
            let event = Frame::data(Bytes::from(format!("data: {json}\n\n")));
            Some((Ok::<_, Infallible>(event), receiver))
        });
        response(
            StatusCode::OK,
            EVENTS,
            StreamBody::new(events).boxed_unsync(),
        )
    }
}

/// Sends the browser to the same page without the token in its address.
fn with_cookie(path: &str, cookie: &str) -> Response<Body> {
    let mut answer = plain(StatusCode::SEE_OTHER, "");
    let headers = answer.headers_mut();
    for (name, value) in [(LOCATION, path), (SET_COOKIE, cookie)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    answer
}

/// The content of a file, as it is read.
fn file_response(file: File) -> Response<Body> {
    let chunks = stream::unfold(file, |mut file| async {
        let read = spawn_blocking(move || {
            let mut chunk = Vec::new();
            let read = file.by_ref().take(CHUNK as u64).read_to_end(&mut chunk);
            read.map(|_| (chunk, file))
        });
        // A file that cannot be read any more ends here.
        let (chunk, file) = read.await.ok()?.ok()?;
        let frame = Frame::data(Bytes::from(chunk));
        let is_end = frame.data_ref().is_none_or(Bytes::is_empty);
        (!is_end).then_some((Ok::<_, Infallible>(frame), file))
    });
    response(StatusCode::OK, TEXT, StreamBody::new(chunks).boxed_unsync())
}

fn failed(error: &io::Error) -> Response<Body> {
    let status = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput => {
            StatusCode::NOT_FOUND
        }
        io::ErrorKind::FileTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    plain(status, &error.to_string())
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{text}\n")));
    response(status, TEXT, body.boxed_unsync())
}

/// A response with the headers that keep its content from being taken for anything else.
fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    // The pages have policies of their own, which are stricter about scripts.
    let policy = match kind {
        HTML => "frame-ancestors 'none'",
        _ => "default-src 'none'; frame-ancestors 'none'; sandbox",
    };
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
