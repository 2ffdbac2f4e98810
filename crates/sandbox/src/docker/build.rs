//! Builds images, each content once: the image's tag is a digest of all input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proctor_record::fs::hex;
use sha2::{Digest, Sha256};

use super::builder::{BuildRequest, Builder};
use super::context::Files;
use super::dockerfile::Dockerfile;
use super::{Engine, EngineError, Image, archive};

/// The maximum length of the quoted output of a failed build.
const MAX_QUOTED_BYTES: usize = 4096;

/// The options of an image build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// Build arguments.
    pub args: BTreeMap<String, String>,
    /// The stage to build; the last one by default.
    pub target: Option<String>,
}

/// An image to build.
#[derive(Clone, Debug)]
pub struct BuildSpec {
    /// The build context.
    pub context: PathBuf,
    /// The Dockerfile, relative to the context.
    pub dockerfile: String,
    /// Replacements of images that the Dockerfile names.
    pub images: BTreeMap<String, String>,
    /// Build arguments.
    pub args: BTreeMap<String, String>,
    /// The stage to build; the last one by default.
    pub target: Option<String>,
    /// The image's name; the tag is derived from the input.
    pub name: String,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// The network of `RUN` steps; the engine's default if `None`.
    pub network: Option<String>,
}

impl BuildSpec {
    /// The Dockerfile, with replaced images.
    fn read(&self) -> Result<Dockerfile, EngineError> {
        let path = self.context.join(&self.dockerfile);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| EngineError::file("read", &path, &error))?;
        let mut dockerfile = Dockerfile::parse(&text);
        dockerfile.replace_images(&self.args, &self.images);
        Ok(dockerfile)
    }

    /// The images that the build needs and the engine does not have.
    pub async fn missing_bases(&self, engine: &Engine) -> Result<Vec<String>, EngineError> {
        let mut missing = Vec::new();
        for name in self.read()?.images(&self.args) {
            match engine.image(&name).await {
                Err(EngineError::ImageMissing { image }) => missing.push(image),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(missing)
    }
}

impl Engine {
    /// The image: an existing one, or built now. `sink` gets the output of pulls and of the build.
    pub async fn build(
        &self,
        spec: &BuildSpec,
        mut sink: impl FnMut(&str),
    ) -> Result<Image, EngineError> {
        let mut dockerfile = spec.read()?;
        let builder = self.builder();
        builder.check(&dockerfile, self.maker())?;
        let mut bases = Vec::new();
        for name in dockerfile.images(&spec.args) {
            bases.push(self.image_or_pull(&name, &mut sink).await?.id);
        }
        let (context, name) = (spec.context.clone(), spec.dockerfile.clone());
        let text = dockerfile.text();
        let hash = move || {
            let mut files = Files::find(&context, &name)?;
            files.replace(name, text);
            let mut digest = Sha256::new();
            files.digest(&mut digest)?;
            Ok((files, digest))
        };
        let hashed = tokio::task::spawn_blocking(hash).await;
        let hashed = hashed.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let hashed = hashed.map_err(|error| EngineError::file("read", &spec.context, &error));
        let (mut files, digest) = hashed?;
        let tag = tag(spec, &bases, digest);
        match self.image(&tag).await {
            Err(EngineError::ImageMissing { .. }) => {}
            found => return found,
        }
        let has_syntax = self
            .resolve_syntax(builder, &mut dockerfile, &mut sink)
            .await?;
        if !has_syntax {
            builder.adapt(&dockerfile, &spec.dockerfile, &mut files, self.maker())?;
        }
        let archive = archive::pack(move |archive| files.pack(archive));
        let mut said = String::new();
        let keep = |text: &str| {
            sink(text);
            keep_tail(&mut said, text);
        };
        let request = BuildRequest {
            builder,
            spec,
            tag: &tag,
        };
        let built = self.request_build(&request, archive, keep).await;
        built.map_err(|error| match error {
            EngineError::Refused { message, .. } => EngineError::Build {
                tag: tag.clone(),
                message: with_tail(&message, &said),
            },
            other => other,
        })?;
        self.image(&tag).await
    }

    /// Whether the build uses the reader that the Dockerfile names, whose image is pulled if
    /// necessary. If that is impossible, the engine's own reader is used.
    async fn resolve_syntax(
        &self,
        builder: Builder,
        dockerfile: &mut Dockerfile,
        sink: &mut impl FnMut(&str),
    ) -> Result<bool, EngineError> {
        let Some(image) = dockerfile.syntax().map(str::to_owned) else {
            return Ok(false);
        };
        if !builder.is_buildkit() {
            return Ok(false);
        }
        match self.image_or_pull(&image, &mut *sink).await {
            Ok(_) => Ok(true),
            Err(EngineError::Pull { message, .. }) => {
                sink(&format!(
                    "cannot pull {image}, so the engine itself reads the Dockerfile: {message}\n"
                ));
                dockerfile.remove_syntax();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn tag(spec: &BuildSpec, bases: &[String], mut digest: Sha256) -> String {
    digest.update(&spec.dockerfile);
    for (key, value) in spec.args.iter().chain(&spec.labels) {
        digest.update(format!("\0{key}={value}"));
    }
    if let Some(target) = &spec.target {
        digest.update(format!("\0target {target}"));
    }
    for base in bases {
        digest.update(format!("\0{base}"));
    }
    format!("{}:{}", spec.name, hex(&digest.finalize()[..10]))
}

fn keep_tail(said: &mut String, text: &str) {
    said.push_str(text);
    if said.len() > MAX_QUOTED_BYTES {
        let cut = said.ceil_char_boundary(said.len() - MAX_QUOTED_BYTES);
        said.drain(..cut);
    }
}

fn with_tail(error: &str, said: &str) -> String {
    match said.trim() {
        "" => error.to_owned(),
        said => format!("{error}\n{said}"),
    }
}
