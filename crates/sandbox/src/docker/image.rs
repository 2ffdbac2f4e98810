//! Images of an engine.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use bollard::models::{HealthConfig, ImageInspect};
use bollard::query_parameters::{CreateImageOptions, ImportImageOptions, TagImageOptions};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use proctor_process::Readiness;

use super::{Engine, EngineError};

/// The number of image parts that are transferred concurrently.
const IN_FLIGHT: usize = 16;

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The id, which identifies its content.
    pub id: String,
    /// `name@sha256:…` if it has a registry digest.
    pub digest: Option<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// The working directory; `/` by default.
    pub workdir: String,
    /// Its user, as written.
    pub user: Option<String>,
    /// Its entry point.
    pub entrypoint: Vec<String>,
    /// Its command.
    pub cmd: Vec<String>,
    /// The readiness check of its containers.
    pub healthcheck: Option<Readiness>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl Engine {
    /// An image of the engine; nothing is pulled.
    pub async fn image(&self, name: &str) -> Result<Image, EngineError> {
        let image = self.docker().inspect_image(name).await;
        match image.map_err(|error| EngineError::of("look at an image", error)) {
            Ok(image) => Ok(Image::of(image)),
            Err(EngineError::Refused { status: 404, .. }) => Err(EngineError::ImageMissing {
                image: name.to_owned(),
            }),
            Err(error) => Err(error),
        }
    }
}

impl Engine {
    /// An image of the engine, pulled if it is missing.
    pub(super) async fn image_or_pull(
        &self,
        name: &str,
        sink: impl FnMut(&str),
    ) -> Result<Image, EngineError> {
        match self.image(name).await {
            Err(EngineError::ImageMissing { .. }) => self.pull(name, sink).await,
            found => found,
        }
    }

    /// Pulls an image. `sink` gets the progress.
    pub async fn pull(&self, name: &str, mut sink: impl FnMut(&str)) -> Result<Image, EngineError> {
        let failed = |error| match EngineError::of("pull an image", error) {
            EngineError::Refused { message, .. } => EngineError::Pull {
                image: name.to_owned(),
                message,
            },
            other => other,
        };
        sink(&format!("pull {name}\n"));
        let (repo, tag) = with_tag(name);
        let is_digest = name.contains('@');
        let options = CreateImageOptions {
            from_image: Some(if is_digest { name } else { repo }.to_owned()),
            tag: (!is_digest).then(|| tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let docker = self.patient();
        let mut answers = pin!(docker.create_image(Some(options), None, None));
        while let Some(answer) = answers.next().await {
            let answer = answer.map_err(failed)?;
            let status = answer.status.unwrap_or_default();
            // Layers report each piece; their begin and end are enough for a log.
            if answer.progress_detail.is_none_or(|it| it.current.is_none()) && !status.is_empty() {
                let layer = answer.id.map_or_else(String::new, |id| format!("{id}: "));
                sink(&format!("{layer}{status}\n"));
            }
        }
        self.image(name).await
    }

    /// Adds a name to an image, with the tag `latest` by default.
    pub async fn name(&self, image: &Image, name: &str) -> Result<(), EngineError> {
        let (repo, tag) = with_tag(name);
        let options = TagImageOptions {
            repo: Some(repo.to_owned()),
            tag: Some(tag.to_owned()),
        };
        let named = self.docker().tag_image(&image.id, Some(options)).await;
        named.map_err(|error| EngineError::of("name an image", error))
    }
}

impl Engine {
    /// Streams an image to another engine: it is never completely in memory or on our disk.
    pub async fn send_image(&self, name: &str, to: &Engine) -> Result<Image, EngineError> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT);
        let export = async {
            let mut parts = pin!(self.docker().export_image(name));
            while let Some(part) = parts.next().await {
                // The receiver has already reported its error.
                if sender.send(part).await.is_err() {
                    break;
                }
            }
            drop(sender);
        };
        let parts = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        let options = ImportImageOptions {
            quiet: true,
            ..ImportImageOptions::default()
        };
        let import = async {
            let docker = to.patient();
            let mut answers = pin!(docker.import_image_stream(options, parts, None));
            while let Some(answer) = answers.next().await {
                answer.map_err(|error| EngineError::of("take an image", error))?;
            }
            Ok::<(), EngineError>(())
        };
        tokio::pin!(import);
        // A receiver that stops ends the transfer.
        tokio::select! {
            imported = &mut import => imported?,
            () = export => import.await?,
        }
        to.image(name).await
    }
}

/// A name and its tag. The colon of a registry's port precedes a slash.
pub fn with_tag(name: &str) -> (&str, &str) {
    match name.rsplit_once(':') {
        Some((repo, tag)) if !tag.contains('/') => (repo, tag),
        _ => (name, "latest"),
    }
}

impl Image {
    fn of(image: ImageInspect) -> Self {
        let config = image.config.unwrap_or_default();
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let env = config.env.unwrap_or_default();
        let pairs = env.iter().filter_map(|pair| pair.split_once('='));
        Self {
            id: image.id.unwrap_or_default(),
            digest: image.repo_digests.unwrap_or_default().into_iter().next(),
            env: pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            workdir: text(config.working_dir).unwrap_or_else(|| "/".to_owned()),
            user: text(config.user),
            entrypoint: config.entrypoint.unwrap_or_default(),
            cmd: config.cmd.unwrap_or_default(),
            healthcheck: config.healthcheck.and_then(readiness),
            labels: config.labels.unwrap_or_default().into_iter().collect(),
        }
    }
}

/// An image's `HEALTHCHECK`, with the engine's defaults.
fn readiness(check: HealthConfig) -> Option<Readiness> {
    let mut test = check.test?.into_iter();
    let argv: Vec<String> = match test.next()?.as_str() {
        "CMD" => test.collect(),
        "CMD-SHELL" => ["sh", "-c"]
            .map(str::to_owned)
            .into_iter()
            .chain(test)
            .collect(),
        _ => return None,
    };
    let nanos = |value: Option<i64>, other: u64| {
        let value = value.and_then(|nanos| u64::try_from(nanos).ok());
        let value = value.filter(|nanos| *nanos > 0);
        value.map_or(Duration::from_secs(other), Duration::from_nanos)
    };
    let retries = check.retries.and_then(|retries| retries.try_into().ok());
    (!argv.is_empty()).then(|| Readiness {
        argv,
        // The engine waits before the first check; Proctor checks at once, and more often.
        interval: nanos(check.interval, 30).min(Duration::from_secs(5)),
        timeout: nanos(check.timeout, 30),
        start_period: nanos(check.start_period, 0),
        start_interval: Duration::from_secs(1),
        retries: retries.filter(|retries| *retries > 0).unwrap_or(3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_follows_the_last_colon_after_the_last_slash() {
        for (name, expect) in [
            ("a", ("a", "latest")),
            ("a/b:1", ("a/b", "1")),
            ("localhost:5000/a", ("localhost:5000/a", "latest")),
            ("localhost:5000/a:2", ("localhost:5000/a", "2")),
        ] {
            assert_eq!(with_tag(name), expect);
        }
    }
}
