//! The owner's side of a watcher: tell it to end the process, hear how that went.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::job::Job;
use super::watch::{Orders, Watched, WatcherCommand, watch};
use crate::EndReason;
use crate::exit::Finished;

/// A running watcher. Dropping it has everything killed.
#[derive(Debug)]
pub(crate) struct Control {
    job: Arc<Job>,
    orders: Arc<Orders>,
    finished: oneshot::Receiver<Finished>,
}

impl Control {
    /// Starts the watcher's thread. It ends with the last process of the job.
    pub(super) fn start(watched: Watched) -> io::Result<Self> {
        let (sender, finished) = oneshot::channel();
        let (job, orders) = (watched.job.clone(), watched.orders.clone());
        std::thread::Builder::new()
            .name("proctor-watch".to_owned())
            .spawn(move || {
                // There is no receiver if the process was dropped.
                let _ = sender.send(watch(watched));
            })?;
        Ok(Self {
            job,
            orders,
            finished,
        })
    }

    /// The end of everything; an error says that the watcher is lost.
    pub(crate) fn poll_finished(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Finished>> {
        let finished = std::pin::Pin::new(&mut self.finished);
        Future::poll(finished, context).map_err(io::Error::other)
    }

    /// Asks for Ctrl-Break, grace, the end of the job.
    pub(crate) fn end(&self, reason: EndReason) {
        self.orders.give(WatcherCommand::End(reason));
    }

    /// A watcher is a thread of ours, which no process can stop.
    #[expect(clippy::unused_self, reason = "there is something to do elsewhere")]
    pub(crate) fn resume(&self) {}

    /// Kills all processes directly, because the watcher makes no progress.
    pub(crate) fn clean_up(&self, _main: u32) {
        self.job.terminate();
    }

    /// The watcher has nothing left to do when it has said how everything ended.
    #[expect(clippy::unused_async, reason = "there is something to do elsewhere")]
    pub(crate) async fn wait(&mut self) {}
}

impl Drop for Control {
    fn drop(&mut self) {
        self.orders.give(WatcherCommand::Kill);
    }
}
