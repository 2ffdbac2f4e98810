//! Builds images, each content once: the image's tag is a digest of all input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bollard::query_parameters::BuildImageOptions;
use futures_util::StreamExt;
use proctor_record::fs::hex;
use sha2::{Digest, Sha256};

use super::context::Files;
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
    /// Replacements of images in its `FROM` lines.
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
    /// The base images that the engine does not have.
    pub async fn missing_bases(&self, engine: &Engine) -> Result<Vec<String>, EngineError> {
        let path = self.context.join(&self.dockerfile);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| EngineError::file("read", &path, &error))?;
        let mut missing = Vec::new();
        for name in bases(&text, &self.args) {
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
    /// The image: an existing one, or built now. `sink` gets the build output.
    pub async fn build(
        &self,
        spec: &BuildSpec,
        mut sink: impl FnMut(&str),
    ) -> Result<Image, EngineError> {
        let (context, dockerfile) = (spec.context.clone(), spec.dockerfile.clone());
        let unreadable = |error: &std::io::Error| EngineError::file("read", &spec.context, error);
        let text = std::fs::read_to_string(context.join(&dockerfile));
        let text = text.map_err(|error| {
            EngineError::file("read", &spec.context.join(&spec.dockerfile), &error)
        })?;
        let own = with_images(&text, &spec.args, &spec.images);
        let bases = own.as_ref().unwrap_or(&text);
        let bases = self.bases(bases, &spec.args).await?;
        let hash = move || {
            let mut files = Files::find(&context, &dockerfile)?;
            if let Some(own) = own {
                files.replace(dockerfile, own);
            }
            let mut digest = Sha256::new();
            files.digest(&mut digest)?;
            Ok((files, digest))
        };
        let hashed = tokio::task::spawn_blocking(hash).await;
        let hashed = hashed.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let (files, digest) = hashed.map_err(|error| unreadable(&error))?;
        let tag = tag(spec, &bases, digest);
        match self.image(&tag).await {
            Err(EngineError::ImageMissing { .. }) => {}
            found => return found,
        }
        let archive = archive::pack(move |archive| files.pack(archive));
        let body = Some(bollard::body_try_stream(archive));
        let docker = self.patient();
        let mut answers = docker.build_image(options(spec, &tag), None, body);
        let failed = |message: String| EngineError::Build {
            tag: tag.clone(),
            message,
        };
        let mut said = String::new();
        while let Some(answer) = answers.next().await {
            let answer =
                answer.map_err(|error| match EngineError::of("build an image", error) {
                    EngineError::Refused { message, .. } => failed(with_tail(&message, &said)),
                    other => other,
                })?;
            if let Some(error) = answer.error_detail.and_then(|detail| detail.message) {
                return Err(failed(with_tail(&error, &said)));
            }
            let text = answer.stream.unwrap_or_default();
            sink(&text);
            keep_tail(&mut said, &text);
        }
        drop(answers);
        self.image(&tag).await
    }

    /// The ids of the base images, as far as the engine has them: a changed base makes another
    /// image.
    async fn bases(
        &self,
        dockerfile: &str,
        args: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, EngineError> {
        let mut ids = Vec::new();
        for name in bases(dockerfile, args) {
            match self.image(&name).await {
                Ok(image) => ids.push(image.id),
                Err(EngineError::ImageMissing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ids)
    }
}

fn options(spec: &BuildSpec, tag: &str) -> BuildImageOptions {
    BuildImageOptions {
        dockerfile: spec.dockerfile.clone(),
        t: Some(tag.to_owned()),
        buildargs: Some(spec.args.clone().into_iter().collect()),
        labels: Some(spec.labels.clone().into_iter().collect()),
        networkmode: spec.network.clone(),
        target: spec.target.clone().unwrap_or_default(),
        rm: true,
        forcerm: true,
        ..Default::default()
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

/// The base images in `FROM` lines, with build arguments replaced.
fn bases(dockerfile: &str, args: &BTreeMap<String, String>) -> Vec<String> {
    let mut names = Vec::new();
    each_base(dockerfile, args, |_, _, name| names.push(name.to_owned()));
    names
}

/// The Dockerfile with replaced base images; `None` if there is nothing to replace.
fn with_images(
    dockerfile: &str,
    args: &BTreeMap<String, String>,
    images: &BTreeMap<String, String>,
) -> Option<String> {
    let mut lines: Vec<String> = dockerfile.lines().map(str::to_owned).collect();
    let mut is_changed = false;
    each_base(dockerfile, args, |line, written, name| {
        if let Some(image) = images.get(name) {
            lines[line] = lines[line].replacen(written, image, 1);
            is_changed = true;
        }
    });
    is_changed.then(|| lines.join("\n") + "\n")
}

/// Visits each `FROM` line: its number, the image as written, and with build arguments replaced.
fn each_base(
    dockerfile: &str,
    args: &BTreeMap<String, String>,
    mut tell: impl FnMut(usize, &str, &str),
) {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (number, line) in dockerfile.lines().enumerate() {
        let mut words = line.split_whitespace();
        let instruction = words.next().unwrap_or_default();
        if instruction.eq_ignore_ascii_case("ARG") {
            for word in words {
                let (key, default) = word.split_once('=').unwrap_or((word, ""));
                let value = args
                    .get(key)
                    .map_or(default.trim_matches('"'), String::as_str);
                values.insert(key.to_owned(), value.to_owned());
            }
        } else if instruction.eq_ignore_ascii_case("FROM")
            && let Some(name) = words.find(|word| !word.starts_with("--"))
        {
            tell(number, name, &fill_in(name, &values));
        }
    }
}

/// Expands `$NAME`, `${NAME}` and `${NAME:-default}`.
fn fill_in(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let (name, after) = if let Some(inside) = after.strip_prefix('{') {
            inside.split_once('}').unwrap_or((inside, ""))
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
        };
        let (name, default) = name.split_once(":-").unwrap_or((name, ""));
        let value = values.get(name).filter(|value| !value.is_empty());
        filled.push_str(value.map_or(default, String::as_str));
        rest = after;
    }
    filled + rest
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dockerfile: &str, args: &[(&str, &str)], expect: &[&str]) {
        let args = args.iter();
        let args = args.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        assert_eq!(bases(dockerfile, &args.collect()), expect);
    }

    #[test]
    fn base_images_are_replaced() {
        let images = [("python:3.12", "local/python"), ("never", "used")];
        let images = images.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let images = images.into();
        let written = "ARG V=3.12\nFROM --platform=linux/amd64 python:${V} AS base\nRUN echo python:3.12\nFROM base\n";
        let expect = written.replacen("python:${V}", "local/python", 1);
        assert_eq!(
            with_images(written, &BTreeMap::new(), &images).as_deref(),
            Some(expect.as_str())
        );
        assert_eq!(with_images("FROM a\n", &BTreeMap::new(), &images), None);
    }

    #[test]
    fn bases_are_found_with_their_arguments() {
        check("FROM debian:12\nRUN x\n", &[], &["debian:12"]);
        check(
            "ARG BASE=a:1\nFROM $BASE AS b\nFROM b\n",
            &[],
            &["a:1", "b"],
        );
        check("ARG BASE=a:1\nFROM ${BASE}\n", &[("BASE", "c:2")], &["c:2"]);
        check(
            "ARG V\nfrom --platform=linux/amd64 x:${V:-9}-slim\n",
            &[],
            &["x:9-slim"],
        );
    }
}
