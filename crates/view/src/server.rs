//! The server: connections, and the answer to each request.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
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
use tokio::{net::TcpListener, task::spawn_blocking};
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

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";

type Body = UnsyncBoxBody<Bytes, Infallible>;

struct Site {
    library: Library,
    access: Access,
    pulses: Pulses,
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
        let grant = self.access.check(Credentials {
            host: header(HOST),
            origin: header(ORIGIN),
            cookie: header(COOKIE),
            token: token.as_deref(),
        });
        match grant {
            Grant::Refused(why) => return plain(StatusCode::FORBIDDEN, why),
            Grant::NewCookie(cookie) => return with_cookie(request.uri().path(), &cookie),
            Grant::Granted => {}
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "this server is read-only");
        }
        let route = Route::of(request.uri().path(), &query);
        match route {
            Route::Events(run) => self.events(&run),
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
            Route::Trial(run, number) => (JSON, open(&run)?.trial(number)?),
            Route::File(run, number, path) => (TEXT, open(&run)?.file(number, &path)?),
            Route::Search(run, text) => {
                let found = search::search(&*open(&run)?, &text);
                (JSON, serde_json::to_vec(&found)?.into())
            }
            Route::Events(_) | Route::RunWithoutSlash(_) | Route::Unknown => {
                return Err(io::ErrorKind::NotFound.into());
            }
        })
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
                if let Some(pulse) = *receiver.borrow_and_update() {
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
