//! The address of an engine, in the format of `DOCKER_HOST`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use camino::Utf8Path;
use proctor_record::platform::{self, engine::SCHEME};

use super::{EngineError, desktop::engine_in_use, podman};
use crate::host::Host;

/// The default address of remote engines.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// The address of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket of this machine, or on Windows a named pipe.
    Local(PathBuf),
    /// `host:port`, without encryption.
    Tcp(String),
    /// A socket of another machine, through the `ssh` program.
    Ssh {
        /// `user@host` or `host`.
        target: String,
        /// The port of the ssh server, if it is not the default.
        port: Option<u16>,
        /// The socket on that machine.
        socket: PathBuf,
    },
    /// There is no listener: this `podman` program serves a socket of this machine as long as
    /// needed.
    Podman(PathBuf),
}

impl Address {
    /// The engine of this machine's user: `DOCKER_HOST`, else the context of `docker` on systems
    /// with virtual machines, else the first default address with a listener, else podman. Docker's
    /// default address if there is none.
    pub fn find(host: &Host) -> Result<Self, EngineError> {
        let set = |name| host.variable(name).filter(|value| !value.is_empty());
        if let Some(value) = set("DOCKER_HOST") {
            return value.parse();
        }
        let home = host.home.as_deref().map(Utf8Path::as_std_path);
        let folder = home.filter(|_| !platform::SHARES_FILES_WITH_ENGINES);
        let folder = folder.map(|home| home.join(".docker"));
        let in_use = folder.and_then(|folder| engine_in_use(&folder, set("DOCKER_CONTEXT")));
        if let Some(address) = in_use {
            return address.parse();
        }
        let usual = platform::usual_engines(home);
        let known: Result<Vec<Self>, _> = usual.iter().map(|address| address.parse()).collect();
        let known = known?;
        let is_there = |address: &&Self| matches!(address, Self::Local(path) if platform::engine::listens(path));
        let docker = known.iter().find(is_there).cloned();
        let first = known.first().expect("every system has a default address");
        Ok(docker
            .or_else(|| podman::find(host))
            .unwrap_or_else(|| first.clone()))
    }

    /// Whether the engine can access the files of this machine. An engine in a virtual machine
    /// cannot.
    pub fn is_local(&self) -> bool {
        platform::SHARES_FILES_WITH_ENGINES && matches!(self, Self::Local(_) | Self::Podman(_))
    }
}

impl FromStr for Address {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let wrong = |reason: &str| EngineError::Address {
            address: text.to_owned(),
            reason: reason.to_owned(),
        };
        let unknown = || wrong(&format!("expected {SCHEME}://, tcp:// or ssh://"));
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(unknown());
        };
        match scheme {
            scheme if scheme == SCHEME => match (local_path(rest), SCHEME) {
                (Some(path), _) => Ok(Self::Local(path)),
                (None, "npipe") => Err(wrong("expected npipe:////./pipe/name")),
                (None, _) => Err(wrong("the path of a socket must be absolute")),
            },
            "tcp" | "http" => {
                let host = rest.trim_end_matches('/');
                match host.rsplit_once(':') {
                    Some((_, port)) if port.parse::<u16>().is_ok() => {
                        Ok(Self::Tcp(host.to_owned()))
                    }
                    _ => Err(wrong("expected tcp://host:port")),
                }
            }
            "ssh" => {
                parse_ssh(rest).ok_or_else(|| wrong("expected ssh://[user@]host[:port][/socket]"))
            }
            _ => Err(unknown()),
        }
    }
}

/// The path of a socket, or of a pipe, which Docker writes with slashes.
fn local_path(rest: &str) -> Option<PathBuf> {
    match SCHEME {
        "npipe" => {
            let path = rest.replace('/', r"\");
            path.starts_with(r"\\").then(|| path.into())
        }
        _ => rest.starts_with('/').then(|| rest.into()),
    }
}

fn parse_ssh(rest: &str) -> Option<Address> {
    let (host, socket) = match rest.find('/') {
        Some(at) if at + 1 < rest.len() => (&rest[..at], &rest[at..]),
        Some(at) => (&rest[..at], DEFAULT_SOCKET),
        None => (rest, DEFAULT_SOCKET),
    };
    let (target, port) = match host.rsplit_once(':') {
        Some((target, port)) => (target, Some(port.parse().ok()?)),
        None => (host, None),
    };
    // A host that starts with a dash would be an option of ssh.
    (!target.is_empty() && !target.starts_with('-')).then(|| Address::Ssh {
        target: target.to_owned(),
        port,
        socket: socket.into(),
    })
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => {
                let path = path.display().to_string();
                write!(formatter, "{SCHEME}://{}", platform::slashed(&path))
            }
            Self::Podman(program) => write!(formatter, "{}", program.display()),
            Self::Tcp(host) => write!(formatter, "tcp://{host}"),
            Self::Ssh { target, port, .. } => match port {
                Some(port) => write!(formatter, "ssh://{target}:{port}"),
                None => write!(formatter, "ssh://{target}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&Address>) {
        assert_eq!(text.parse::<Address>().ok().as_ref(), expect);
    }

    #[test]
    fn addresses_are_read_as_docker_writes_them() {
        let (local, path) = match SCHEME {
            "npipe" => ("npipe:////./pipe/docker_engine", r"\\.\pipe\docker_engine"),
            _ => ("unix:///run/d.sock", "/run/d.sock"),
        };
        check(local, Some(&Address::Local(path.into())));
        assert_eq!(Address::Local(path.into()).to_string(), local);
        check(
            "tcp://10.0.0.1:2375",
            Some(&Address::Tcp("10.0.0.1:2375".into())),
        );
        check(
            "tcp://[::1]:2375/",
            Some(&Address::Tcp("[::1]:2375".into())),
        );
        let ssh = |target: &str, port, socket: &str| Address::Ssh {
            target: target.to_owned(),
            port,
            socket: socket.into(),
        };
        check("ssh://me@box", Some(&ssh("me@box", None, DEFAULT_SOCKET)));
        check(
            "ssh://box:2222/run/d.sock",
            Some(&ssh("box", Some(2222), "/run/d.sock")),
        );
        let usual: Address = platform::usual_engines(None)[0].parse().unwrap();
        assert_eq!(usual.is_local(), cfg!(target_os = "linux"));
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "docker.sock",
            "unix://d.sock",
            "tcp://host",
            "ssh://-oProxyCommand=x",
            "fd://",
        ] {
            check(text, None);
        }
    }
}
