//! The builders of engines: what they can do, and a build request.
//!
//! bollard's request needs a `BuildKit` session, and with it gRPC. The engine needs none if the
//! context is uploaded and all images are there.

use std::fmt::Write as _;
use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::Request;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;

use super::context::Files;
use super::dockerfile::Dockerfile;
use super::trace::Trace;
use super::{BuildSpec, Engine, EngineError, Maker, attach};

/// The first API version with `BuildKit`.
const BUILDKIT: (usize, usize) = (1, 39);
/// The first API version whose `BuildKit` reads heredocs: Docker 23.
const HEREDOCS: (usize, usize) = (1, 42);
/// The first podman that reads heredocs.
const PODMAN_HEREDOCS: (u32, u32) = (4, 8);

/// The maximum size of a refusal, and of one message of the progress.
const LONGEST: usize = 16 * 1024 * 1024;

/// The builder of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builder {
    /// `BuildKit`, as part of Docker.
    BuildKit { reads_heredocs: bool },
    /// Podman's, which has the features of `BuildKit`.
    Podman { reads_heredocs: bool },
    /// Docker's before `BuildKit`.
    Classic,
}

impl Builder {
    /// The builder of an engine with this API version.
    fn of(maker: &Maker, api: (usize, usize)) -> Self {
        if maker.is_podman() {
            let mut numbers = maker.version.split('.').map(|part| part.parse().ok());
            let mut next = || numbers.next().flatten().unwrap_or(0);
            let version = (next(), next());
            let reads_heredocs = version >= PODMAN_HEREDOCS;
            return Self::Podman { reads_heredocs };
        }
        let reads_heredocs = api >= HEREDOCS;
        if api >= BUILDKIT {
            Self::BuildKit { reads_heredocs }
        } else {
            Self::Classic
        }
    }

    pub(super) fn is_buildkit(self) -> bool {
        matches!(self, Self::BuildKit { .. })
    }

    /// Refuses a Dockerfile that this builder cannot build.
    pub(super) fn check(self, dockerfile: &Dockerfile, maker: &Maker) -> Result<(), EngineError> {
        match dockerfile.new_feature() {
            Some(feature) if self == Self::Classic => Err(unsupported(feature, "BuildKit", maker)),
            _ => Ok(()),
        }
    }

    /// Adapts the Dockerfile `name` of a context to this builder.
    pub(super) fn adapt(
        self,
        dockerfile: &Dockerfile,
        name: &str,
        files: &mut Files,
        maker: &Maker,
    ) -> Result<(), EngineError> {
        let (Self::BuildKit { reads_heredocs } | Self::Podman { reads_heredocs }) = self else {
            return Ok(());
        };
        files.replace(name.to_owned(), dockerfile.text());
        if reads_heredocs {
            return Ok(());
        }
        let newer = "Docker 23 or podman 4.8";
        let adapted = dockerfile.without_heredocs();
        let adapted = adapted.map_err(|feature| unsupported(feature, newer, maker))?;
        if let Some(adapted) = adapted {
            files.replace(name.to_owned(), adapted.text);
            for (path, text) in adapted.files {
                files.replace(path, text);
            }
            files.keep(&adapted.kept);
        }
        Ok(())
    }
}

fn unsupported(feature: String, needed: &str, maker: &Maker) -> EngineError {
    EngineError::Unsupported {
        feature,
        needed: needed.to_owned(),
        engine: format!("{} {}", maker.name, maker.version),
    }
}

/// A build to request.
pub(super) struct BuildRequest<'a> {
    pub(super) builder: Builder,
    pub(super) spec: &'a BuildSpec,
    pub(super) tag: &'a str,
}

impl BuildRequest<'_> {
    fn query(&self) -> String {
        let spec = self.spec;
        let mut query = String::from("/build?rm=1&forcerm=1");
        let mut add = |key: &str, value: &str| {
            let _ = write!(query, "&{key}=");
            for byte in value.bytes() {
                match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                        query.push(byte.into());
                    }
                    byte => {
                        let _ = write!(query, "%{byte:02X}");
                    }
                }
            }
        };
        add("dockerfile", &spec.dockerfile);
        add("t", self.tag);
        add(
            "buildargs",
            &Value::from_iter(spec.args.clone()).to_string(),
        );
        add("labels", &Value::from_iter(spec.labels.clone()).to_string());
        if let Some(target) = &spec.target {
            add("target", target);
        }
        if let Some(network) = &spec.network {
            add("networkmode", network);
        }
        if self.builder.is_buildkit() {
            add("version", "2");
        }
        query
    }
}

/// A message of a build.
#[derive(Deserialize)]
struct BuildMessage {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    error: String,
    id: Option<String>,
    aux: Option<Value>,
}

impl BuildMessage {
    /// The output in the message.
    fn output(self, trace: &mut Trace) -> String {
        match (self.id.as_deref(), self.aux) {
            (Some("moby.buildkit.trace"), Some(Value::String(encoded))) => {
                let message = BASE64_STANDARD.decode(encoded);
                trace.read(&message.unwrap_or_default())
            }
            _ => self.stream,
        }
    }
}

impl Engine {
    pub(super) fn builder(&self) -> Builder {
        let api = self.docker().client_version();
        Builder::of(self.maker(), (api.major_version, api.minor_version))
    }

    /// Uploads a context and waits for the end of the build. The build is cancelled if the future
    /// is dropped.
    pub(super) async fn request_build(
        &self,
        request: &BuildRequest<'_>,
        context: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        mut sink: impl FnMut(&str),
    ) -> Result<(), EngineError> {
        let doing = "build an image";
        let gone = |error: &dyn std::error::Error| EngineError::gone(doing, error.to_string());
        let connection = attach::connect(self.socket()).await;
        let connection = connection.map_err(|error| gone(&error))?;
        let handshake = http1::handshake(TokioIo::new(connection)).await;
        let (mut sender, driver) = handshake.map_err(|error| gone(&error))?;
        let api = self.docker().client_version();
        let (major, minor) = (api.major_version, api.minor_version);
        let path = format!("/v{major}.{minor}{}", request.query());
        let upload = Request::post(path)
            .header("Host", "docker")
            .header("Content-Type", "application/x-tar")
            .body(Box::pin(StreamBody::new(context.map_ok(Frame::data))))
            .map_err(|error| gone(&error))?;
        let exchange = async move {
            let answer = sender.send_request(upload).await;
            let answer = answer.map_err(|error| gone(&error))?;
            let status = answer.status();
            if status.is_success() {
                return read_messages(answer.into_body(), &mut sink).await;
            }
            let body = Limited::new(answer.into_body(), LONGEST).collect().await;
            let body = body.map_err(|error| gone(&*error))?.to_bytes();
            let message: Option<Value> = serde_json::from_slice(&body).ok();
            let message = message.and_then(|it| Some(it.get("message")?.as_str()?.to_owned()));
            Err(refused(message.unwrap_or_else(|| {
                String::from_utf8_lossy(&body).into_owned()
            })))
        };
        let (done, _) = tokio::join!(exchange, driver);
        done
    }
}

fn refused(message: String) -> EngineError {
    EngineError::Refused {
        doing: "build an image".to_owned(),
        status: 0,
        message,
    }
}

/// Reads the messages of a build, one on each line.
async fn read_messages(mut body: Incoming, sink: &mut impl FnMut(&str)) -> Result<(), EngineError> {
    let gone = |reason: String| EngineError::gone("build an image", reason);
    let mut trace = Trace::default();
    let mut buffer = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| gone(error.to_string()))?;
        buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            take_message(&line, &mut trace, sink)?;
        }
        if buffer.len() > LONGEST {
            return Err(gone("a message of the build is too long".to_owned()));
        }
    }
    take_message(&buffer, &mut trace, sink)
}

fn take_message(
    line: &[u8],
    trace: &mut Trace,
    sink: &mut impl FnMut(&str),
) -> Result<(), EngineError> {
    // Other messages carry nothing for the log.
    let Ok(mut message) = serde_json::from_slice::<BuildMessage>(line) else {
        return Ok(());
    };
    let error = std::mem::take(&mut message.error);
    let output = message.output(trace);
    if !output.is_empty() {
        sink(&output);
    }
    if error.is_empty() {
        Ok(())
    } else {
        Err(refused(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maker(name: &str, version: &str) -> Maker {
        Maker {
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn builder_depends_on_product_and_version() {
        let reads_heredocs = true;
        let docker = |api| Builder::of(&maker("docker", "1"), api);
        assert_eq!(docker((1, 38)), Builder::Classic);
        let older = Builder::BuildKit {
            reads_heredocs: false,
        };
        assert_eq!(docker((1, 41)), older);
        assert_eq!(docker((1, 42)), Builder::BuildKit { reads_heredocs });
        for (version, reads_heredocs) in [("4.3.1", false), ("4.8.0", true), ("5.0.0-rc1", true)] {
            let found = Builder::of(&maker("podman", version), (1, 41));
            assert_eq!(found, Builder::Podman { reads_heredocs }, "{version}");
        }
    }

    #[test]
    fn engine_without_buildkit_names_the_feature() {
        let dockerfile = Dockerfile::parse("FROM a\nRUN --mount=type=cache,target=/c x\n");
        let docker = maker("docker", "18.06.3-ce");
        let error = Builder::Classic.check(&dockerfile, &docker).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2: RUN --mount needs BuildKit, but the engine is docker 18.06.3-ce"
        );
        let old = Dockerfile::parse("FROM a\nCOPY --chown=1 a b\n");
        assert!(Builder::Classic.check(&old, &docker).is_ok());
    }
}
