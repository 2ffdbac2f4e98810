//! Errors between Proctor and an engine. They are infrastructure failures.

use std::io;
use std::path::Path;

use proctor_process::JobFailure;
use proctor_record::error_chain::root;

/// The images whose Dockerfiles are part of Proctor.
pub const SHIPPED: [&str; 2] = ["claude-code", "aider"];

/// Why an engine request failed. Sources are kept as text, so that an error can be cloned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// The address is invalid.
    #[error("invalid engine address {address:?}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// The expected value.
        reason: String,
    },
    /// There is no response.
    #[error("no Docker engine at {address}: {reason}")]
    Unreachable {
        /// The address.
        address: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The engine disappeared, was restarted, or stopped a container without a request.
    #[error("lost connection to the Docker engine ({doing}): {reason}")]
    Gone {
        /// The operation.
        doing: String,
        /// The error.
        reason: String,
    },
    /// The engine refused a request.
    #[error("the Docker engine refused ({doing}): {message}")]
    Refused {
        /// The operation.
        doing: String,
        /// The status of its response; 0 if there was none.
        status: u16,
        /// The engine's message.
        message: String,
    },
    /// The image does not exist.
    #[error("image {image:?} not found on the engine")]
    ImageMissing {
        /// Its name.
        image: String,
    },
    /// An image could not be pulled.
    #[error("cannot pull image {image:?}: {message}")]
    Pull {
        /// Its name.
        image: String,
        /// The message of the engine or the registry.
        message: String,
    },
    /// The builder of the engine lacks a feature.
    #[error("{feature} needs {needed}, but the engine is {engine}")]
    Unsupported {
        /// The feature, with its line in the Dockerfile.
        feature: String,
        /// The programs that have the feature.
        needed: String,
        /// The product and version.
        engine: String,
    },
    /// An image could not be built.
    #[error("cannot build image {tag}: {message}")]
    Build {
        /// The requested name.
        tag: String,
        /// The engine's message.
        message: String,
    },
    /// A service beside the main container did not become ready.
    #[error("the service `{service}` is not ready: {reason}")]
    Service {
        /// Its name.
        service: String,
        /// The cause, with the end of its log.
        reason: String,
    },
    /// The first process could not start the job.
    #[error(transparent)]
    NotStarted(#[from] JobFailure),
    /// Our binary is not static and cannot run in a container without our C library.
    #[error(
        "{path} is not a static program: build it with `cargo build` in its own repository, or with RUSTFLAGS='-C target-feature=+crt-static' and --target"
    )]
    NotStatic {
        /// The binary.
        path: String,
    },
    /// The Linux binary of Proctor is missing.
    #[error(
        "containers require Proctor's Linux program, which is missing at {path}: it is part of the release archive; put it there, or set PROCTOR_LINUX_BINARY where it is"
    )]
    NoLinuxBinary {
        /// The searched path.
        path: String,
    },
    /// The engine runs Windows containers.
    #[error(
        "the Docker engine at {address} runs Windows containers: switch it to Linux containers"
    )]
    WindowsContainers {
        /// The address.
        address: String,
    },
    /// A file operation on this machine failed.
    #[error("cannot {doing} {path}: {reason}")]
    File {
        /// The operation.
        doing: String,
        /// The path.
        path: String,
        /// The error of the operating system.
        reason: String,
    },
}

/// The image of `proctor image build` with this name, with any registry and tag.
fn shipped(image: &str) -> Option<&'static str> {
    let name = image.split('@').next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    SHIPPED.into_iter().find(|shipped| *shipped == name)
}

impl EngineError {
    /// Whether an image is missing that `proctor image build` makes. It is in no registry.
    pub(crate) fn is_shipped_image(&self) -> bool {
        matches!(self, Self::ImageMissing { image } if shipped(image).is_some())
    }

    /// Whether this is about the engine itself, so that a retry may succeed.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Unreachable { .. })
    }

    /// A suggestion for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some("start it, or set its address in DOCKER_HOST or the suite's `hosts`; `proctor doctor` tells what is there; `--sandbox local` needs no containers".to_owned()),
            Self::ImageMissing { image } => Some(match shipped(image) {
                Some(name) => format!("build it: proctor image build {name} --tag {image}"),
                None => format!("build or pull {image}, or replace it under `sandbox.images`"),
            }),
            Self::Pull { image, .. } => Some(format!(
                "Proctor pulls without a login: run `docker pull {image}`, build it, or replace it under `sandbox.images`"
            )),
            _ => None,
        }
    }

    /// Whether the requested object does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Refused { status: 404, .. } | Self::ImageMissing { .. }
        )
    }

    pub(super) fn gone(doing: &str, reason: impl Into<String>) -> Self {
        Self::Gone {
            doing: doing.to_owned(),
            reason: reason.into(),
        }
    }

    /// Converts bollard's error.
    pub(super) fn of(doing: &str, error: bollard::errors::Error) -> Self {
        use bollard::errors::Error;
        let refused = |status, message| Self::Refused {
            doing: doing.to_owned(),
            status,
            message,
        };
        match error {
            Error::DockerResponseServerError {
                status_code,
                message,
            } => refused(status_code, message),
            Error::DockerStreamError { error } => refused(0, error),
            Error::IOError { .. }
            | Error::HyperResponseError { .. }
            | Error::HyperLegacyError { .. }
            | Error::SocketNotFoundError(_)
            | Error::RequestTimeoutError => Self::gone(doing, root(&error)),
            other => refused(0, other.to_string()),
        }
    }

    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::File {
            doing: doing.to_owned(),
            path: path.display().to_string(),
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_for_a_missing_image_has_the_build_command() {
        for (image, expect) in [
            (
                "thunderdome/claude-code:latest",
                "proctor image build claude-code --tag thunderdome/claude-code:latest",
            ),
            ("aider", "proctor image build aider --tag aider"),
            (
                "localhost:5000/x/aider:1",
                "proctor image build aider --tag localhost:5000/x/aider:1",
            ),
            ("alpine:latest", "sandbox.images"),
            ("thunderdome/claude-code-opus:latest", "sandbox.images"),
        ] {
            let error = EngineError::ImageMissing {
                image: image.to_owned(),
            };
            let hint = error.hint().unwrap();
            assert!(hint.contains(expect), "{image}: {hint}");
        }
    }
}
