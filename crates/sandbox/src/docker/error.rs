//! Errors between Proctor and an engine. They say nothing about an agent.

use std::io;
use std::path::Path;

use proctor_process::JobFailure;
use proctor_record::error_chain::root;

/// The images whose Dockerfiles come with Proctor.
pub const SHIPPED: [&str; 2] = ["claude-code", "aider"];

/// Why an engine request failed. Sources are kept as text, so that an error can be cloned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// The address is not one.
    #[error("{address:?} is no address of an engine: {reason}")]
    Address {
        /// As given.
        address: String,
        /// The expected value.
        reason: String,
    },
    /// There is no response.
    #[error("no Docker engine answers at {address}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The engine disappeared, was restarted, or stopped a container without a request.
    #[error("the Docker engine went away ({doing}): {reason}")]
    Gone {
        /// The operation.
        doing: String,
        /// How it showed.
        reason: String,
    },
    /// The engine said no.
    #[error("the Docker engine refused ({doing}): {message}")]
    Refused {
        /// The operation.
        doing: String,
        /// The status of its answer; 0 if it had none.
        status: u16,
        /// In its words.
        message: String,
    },
    /// There is no such image.
    #[error("image {image:?} is not on the engine")]
    ImageMissing {
        /// Its name.
        image: String,
    },
    /// An image could not be built.
    #[error("image {tag} could not be built: {message}")]
    Build {
        /// The requested name.
        tag: String,
        /// In the engine's words.
        message: String,
    },
    /// The first process could not start the job.
    #[error(transparent)]
    NotStarted(#[from] JobFailure),
    /// Our binary cannot run in a container that lacks our C library.
    #[error(
        "{path} is not a static program: build it with `cargo build` in its own repository, or with RUSTFLAGS='-C target-feature=+crt-static' and --target"
    )]
    NotStatic {
        /// The binary.
        path: String,
    },
    /// There is no Linux binary of ours.
    #[error(
        "containers need Proctor's Linux program, which is not at {path}: it comes with the release archive; put it there, or say in PROCTOR_LINUX_BINARY where it is"
    )]
    NoLinuxBinary {
        /// Where it was looked for.
        path: String,
    },
    /// The engine runs the other kind of containers.
    #[error(
        "the Docker engine at {address} runs Windows containers: switch it to Linux containers"
    )]
    WindowsContainers {
        /// Where it is.
        address: String,
    },
    /// A file of this machine.
    #[error("cannot {doing} {path}: {reason}")]
    File {
        /// The operation.
        doing: String,
        /// Which one.
        path: String,
        /// The error of the operating system.
        reason: String,
    },
}

/// The image that `proctor image build` makes under this name, with any registry and tag.
fn shipped(image: &str) -> Option<&'static str> {
    let name = image.split('@').next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    SHIPPED.into_iter().find(|shipped| *shipped == name)
}

impl EngineError {
    /// Whether this is about the engine itself, so that another attempt may go well.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Unreachable { .. })
    }

    /// A suggestion for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some("start it, or say in DOCKER_HOST or the suite's `hosts` where there is one; `proctor doctor` tells what is there".to_owned()),
            Self::ImageMissing { image } => Some(match shipped(image) {
                Some(name) => format!("build it: proctor image build {name} --tag {image}"),
                None => format!(
                    "images are not pulled: build it, or run `docker pull {image}`, or name another one under `sandbox.images`"
                ),
            }),
            _ => None,
        }
    }

    /// Whether the engine does not know what was asked for.
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

    /// The meaning of bollard's error.
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
    fn a_missing_image_of_ours_is_named_with_the_command_that_builds_it() {
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
            ("alpine:latest", "docker pull alpine:latest"),
            ("thunderdome/claude-code-opus:latest", "docker pull"),
        ] {
            let error = EngineError::ImageMissing {
                image: image.to_owned(),
            };
            let hint = error.hint().unwrap();
            assert!(hint.contains(expect), "{image}: {hint}");
        }
    }
}
