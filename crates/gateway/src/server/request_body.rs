//! Reads request bodies, within the bounds of their key.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::OwnedSemaphorePermit;

use crate::key::{self, Key};

/// The longest request body, in bytes.
const LONGEST_BODY: u64 = 64 << 20;

/// How long to wait for the next part of a body, and for memory to hold it.
const BODY_PATIENCE: Duration = Duration::from_mins(1);

/// Why a body could not be read.
pub(super) enum BodyError {
    TooLong,
    Interrupted,
}

/// Reads a whole body. The permit accounts for its memory.
pub(super) async fn collect(
    key: &Key,
    mut body: Incoming,
) -> Result<(Bytes, OwnedSemaphorePermit), BodyError> {
    let expected = body.size_hint();
    if expected.lower() > LONGEST_BODY {
        return Err(BodyError::TooLong);
    }
    // All permits are taken at once: bodies that take them in steps could deadlock.
    let permit = key.bounds.body(expected.exact().unwrap_or(LONGEST_BODY));
    let permit = tokio::time::timeout(BODY_PATIENCE, permit).await;
    let mut permit = permit.ok().flatten().ok_or(BodyError::Interrupted)?;
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
            return Err(BodyError::TooLong);
        }
        whole.extend_from_slice(&data);
    }
    let body = rest.map_or(first, BytesMut::freeze);
    key::shrink(&mut permit, body.len());
    Ok((body, permit))
}

async fn next_frame(body: &mut Incoming) -> Result<Option<hyper::body::Frame<Bytes>>, BodyError> {
    match tokio::time::timeout(BODY_PATIENCE, body.frame()).await {
        Ok(frame) => frame.transpose().map_err(|_| BodyError::Interrupted),
        Err(_) => Err(BodyError::Interrupted),
    }
}
