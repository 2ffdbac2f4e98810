//! Programs that serve a run while it lasts, such as an ssh tunnel.

use std::{future::Future, pin::pin};

use crate::{EndReason, Event, Process};

/// At most so many bytes of the end of the output are kept.
const KEPT_BYTES: usize = 4096;

/// Runs a program until `closed` is ready or the program ends by itself; returns the end of its output.
pub async fn keep(mut process: Process, closed: impl Future<Output = ()>) -> Vec<u8> {
    let mut closed = pin!(closed);
    let mut output = Vec::new();
    let mut is_closed = false;
    loop {
        tokio::select! {
            event = process.next() => match event {
                Event::Output { bytes, .. } => {
                    output.extend_from_slice(bytes);
                    let surplus = output.len().saturating_sub(KEPT_BYTES);
                    output.drain(..surplus);
                }
                Event::Ended(_) => return output,
            },
            () = &mut closed, if !is_closed => {
                is_closed = true;
                process.end(EndReason::Asked);
            }
        }
    }
}
