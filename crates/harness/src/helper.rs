//! Programs that serve a run while it goes on, such as an ssh tunnel: kept until they are not needed any more.

use proctor_process::{EndReason, Event, Process};
use tokio_util::sync::CancellationToken;

/// The most that is kept of what one says.
const SAID: usize = 4096;

/// Keep it until it is to be closed or ends by itself; gives the last that it said.
pub(crate) async fn keep(mut process: Process, closed: CancellationToken) -> Vec<u8> {
    let mut said = Vec::new();
    let mut is_closed = false;
    loop {
        tokio::select! {
            event = process.next() => match event {
                Event::Output { bytes, .. } => {
                    said.extend_from_slice(bytes);
                    let surplus = said.len().saturating_sub(SAID);
                    said.drain(..surplus);
                }
                Event::Ended(_) => return said,
            },
            () = closed.cancelled(), if !is_closed => {
                is_closed = true;
                process.end(EndReason::Asked);
            }
        }
    }
}
