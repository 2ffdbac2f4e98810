//! Where an engine listens, as `DOCKER_HOST` writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::EngineError;

/// Where engines listen unless told otherwise.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket of this machine, whose engine sees our files.
    Unix(PathBuf),
    /// `host:port`, without encryption.
    Tcp(String),
    /// A socket of another machine, through the `ssh` program.
    Ssh {
        /// `user@host` or `host`.
        target: String,
        /// The port of the ssh server, if it is not the usual one.
        port: Option<u16>,
        /// The socket there.
        socket: PathBuf,
    },
    /// Nobody listens: this `podman` program serves a socket of this machine as long as it is needed.
    Podman(PathBuf),
}

impl Address {
    /// What `DOCKER_HOST` says, or the usual socket.
    pub fn from_docker_host(value: Option<&str>) -> Result<Self, EngineError> {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => value.parse(),
            None => Ok(Self::Unix(DEFAULT_SOCKET.into())),
        }
    }

    /// Whether the engine sees the files of this machine.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Podman(_))
    }
}

impl FromStr for Address {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let wrong = |reason: &str| EngineError::Address {
            address: text.to_owned(),
            reason: reason.to_owned(),
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong("expected unix://, tcp:// or ssh://"));
        };
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Self::Unix(rest.into())),
            "unix" => Err(wrong("the path of a socket must be absolute")),
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
            _ => Err(wrong("expected unix://, tcp:// or ssh://")),
        }
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
    // A host that begins with a dash would be an option of ssh.
    (!target.is_empty() && !target.starts_with('-')).then(|| Address::Ssh {
        target: target.to_owned(),
        port,
        socket: socket.into(),
    })
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix://{}", path.display()),
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
        check(
            "unix:///run/d.sock",
            Some(&Address::Unix("/run/d.sock".into())),
        );
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
        let usual = Address::from_docker_host(None).unwrap();
        assert_eq!(usual, Address::Unix(DEFAULT_SOCKET.into()));
        assert!(usual.is_local());
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
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
