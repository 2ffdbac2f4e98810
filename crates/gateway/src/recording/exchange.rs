//! The file format of a recording: one line of JSON per call.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fs_err::File;
use futures_util::{TryStreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, DATE, SET_COOKIE};
use hyper::{HeaderMap, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fingerprint::RequestFingerprint;
use crate::request::headers::remove_hop_by_hop;
use crate::secrets::Redactor;

/// The body of a replayed answer.
pub(crate) type RecordedBody = UnsyncBoxBody<Bytes, io::Error>;

/// The timing of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// With the recorded timing.
    Recorded,
    /// Without delays.
    AtOnce,
}

/// One recorded call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Exchange {
    pub(super) fingerprint: String,
    pub(super) wire: String,
    pub(super) path: String,
    /// The normalised request, for reports of differences.
    pub(super) body: Value,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) pieces: Vec<RecordedPiece>,
    /// The response was interrupted here.
    #[serde(default)]
    pub(super) cut: bool,
}

/// Bytes that arrived together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RecordedPiece {
    /// Milliseconds since the response began.
    ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes, if they are not UTF-8 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl RecordedPiece {
    pub(super) fn new(ms: u64, bytes: &Bytes, redactor: &Redactor) -> Self {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let text = Some(redactor.text(text).into_owned());
            return Self {
                ms,
                text,
                base64: None,
            };
        }
        let masked = redactor.bytes(bytes);
        let bytes = masked.as_ref().unwrap_or(bytes);
        let base64 = Some(STANDARD.encode(bytes));
        Self {
            ms,
            text: None,
            base64,
        }
    }

    fn bytes(&self) -> Bytes {
        match (&self.text, &self.base64) {
            (Some(text), _) => Bytes::from(text.clone()),
            (None, Some(encoded)) => STANDARD.decode(encoded).unwrap_or_default().into(),
            (None, None) => Bytes::new(),
        }
    }
}

impl Exchange {
    pub(super) fn new(request: RequestFingerprint, status: u16, headers: &HeaderMap) -> Self {
        let mut headers = headers.clone();
        remove_hop_by_hop(&mut headers);
        for name in [CONTENT_LENGTH, DATE, SET_COOKIE] {
            headers.remove(name);
        }
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())));
        Self {
            fingerprint: request.fingerprint,
            wire: request.wire,
            path: request.path,
            body: request.body,
            status,
            headers: headers.collect(),
            pieces: Vec::new(),
            cut: false,
        }
    }

    /// The recorded response.
    pub(super) fn play(&self, pace: Pace) -> Response<RecordedBody> {
        let mut steps: Vec<(u64, io::Result<Bytes>)> = self
            .pieces
            .iter()
            .map(|piece| (piece.ms, Ok(piece.bytes())))
            .collect();
        if self.cut {
            let at = self.pieces.last().map_or(0, |piece| piece.ms);
            steps.push((at, Err(io::Error::other("cut in the recording"))));
        }
        let played = stream::unfold(
            (steps.into_iter(), 0),
            move |(mut left, before)| async move {
                let (at, item) = left.next()?;
                if pace == Pace::Recorded && at > before {
                    tokio::time::sleep(Duration::from_millis(at - before)).await;
                }
                Some((item, (left, at)))
            },
        );
        let mut builder = Response::builder().status(self.status);
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        let response = builder.body(StreamBody::new(played.map_ok(Frame::data)).boxed_unsync());
        // A file that was edited by hand may have invalid headers.
        response.unwrap_or_else(|_| Response::new(RecordedBody::default()))
    }
}

pub(super) fn append(file: &mut File, exchange: &Exchange) -> io::Result<()> {
    let mut line = serde_json::to_string(exchange).map_err(io::Error::other)?;
    line.push('\n');
    file.write_all(line.as_bytes())
}

pub(super) fn read(path: &Path) -> io::Result<Vec<Exchange>> {
    let text = fs_err::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).map_err(io::Error::other))
        .collect()
}
