//! One of several engines of a run, as the others see it.

use tokio_util::sync::CancellationToken;

use crate::docker::{Engine, EngineError, Image};

/// One of several engines.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) engine: Engine,
    pub(crate) dead: CancellationToken,
}

impl Peer {
    pub(crate) async fn answers(&self) -> bool {
        !self.dead.is_cancelled() && self.engine.answers().await
    }

    /// Send an image that it has to another; `None` when it has none, or dies over it.
    pub(crate) async fn send(&self, name: &str, to: &Engine) -> Option<Result<Image, EngineError>> {
        let sent = async {
            self.engine.image(name).await.ok()?;
            Some(self.engine.send_image(name, to).await)
        };
        tokio::select! {
            biased;
            () = self.dead.cancelled() => None,
            sent = sent => sent,
        }
    }
}
