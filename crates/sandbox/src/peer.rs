//! One of several engines of a run, as seen by the others.

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

    /// Sends an image to another engine; `None` if it does not have the image, or dies meanwhile.
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
