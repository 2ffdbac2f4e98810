//! Access to the pages. Pages of other sites can send requests to a server on loopback, so the
//! name of the host is checked. A server on other addresses wants a token, and every server wants it
//! from a request that changes anything.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use proctor_record::fs::hex;

/// The start of the name of the cookie with the token. Cookies do not know ports, so the name ends with the port.
const COOKIE: &str = "proctor-token";

/// The rules of a server.
#[derive(Clone, Debug)]
pub struct Access {
    address: SocketAddr,
    token: String,
}

/// The parts of a request that decide about access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credentials<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) cookie: Option<&'a str>,
    /// The `token` of the address.
    pub(crate) token: Option<&'a str>,
}

/// The answer to a request for access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    Granted,
    /// The token of the address is right and becomes this cookie.
    NewCookie(String),
    Refused(&'static str),
}

impl Access {
    /// Access to a server at this address, with a new token.
    pub fn new(address: SocketAddr) -> io::Result<Access> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let token = hex(&bytes);
        Ok(Access { address, token })
    }

    /// The address of a page for the first visit.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}?token={}", self.address, self.token)
    }

    pub(crate) fn check(&self, request: Credentials<'_>) -> Grant {
        let is_own_host = request.host.is_some_and(|host| self.is_own(host));
        let from_elsewhere = |origin: &str| {
            let host = origin.strip_prefix("http://");
            host.is_none_or(|host| request.host != Some(host))
        };
        if request.origin.is_some_and(from_elsewhere) {
            return Grant::Refused("requests of other sites are refused");
        }
        let is_loopback = self.address.ip().is_loopback();
        if is_loopback && !is_own_host {
            return Grant::Refused("use the address that `proctor view` printed");
        }
        if request.token.is_some_and(|it| is_same(it, &self.token)) {
            let (name, token) = (self.cookie_name(), &self.token);
            let cookie = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/");
            return Grant::NewCookie(cookie);
        }
        if is_loopback || self.has_cookie(request) {
            Grant::Granted
        } else {
            Grant::Refused("use the address with the token that `proctor view` printed")
        }
    }

    /// Whether a request that was granted may change anything.
    pub(crate) fn may_change(&self, request: Credentials<'_>) -> bool {
        self.has_cookie(request)
    }

    fn has_cookie(&self, request: Credentials<'_>) -> bool {
        let own = self.cookie_name();
        let cookies = request.cookie.unwrap_or_default().split(';');
        let mut cookies = cookies.filter_map(|it| it.trim().split_once('='));
        cookies.any(|(name, value)| name == own && is_same(value, &self.token))
    }

    fn cookie_name(&self) -> String {
        format!("{COOKIE}-{}", self.address.port())
    }

    /// Whether a `Host` header names this server on loopback.
    fn is_own(&self, host: &str) -> bool {
        let port = format!(":{}", self.address.port());
        let Some(name) = host.strip_suffix(&port) else {
            return false;
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = |it: IpAddr| it.is_loopback();
        name == "localhost" || name.parse().is_ok_and(is_loopback)
    }
}

/// Compares all bytes, so that the time says nothing about the first wrong one.
fn is_same(one: &str, other: &str) -> bool {
    let bytes = one.bytes().zip(other.bytes());
    one.len() == other.len() && bytes.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: &str) -> Access {
        Access {
            address: address.parse().unwrap(),
            token: "secret".to_owned(),
        }
    }

    const LOOPBACK: &str = "127.0.0.1:7000";

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        let rows = [
            ("127.0.0.1:7000", true),
            ("localhost:7000", true),
            ("[::1]:7000", true),
            ("127.0.0.1:7001", false),
            ("127.0.0.1", false),
            ("evil.example:7000", false),
            ("localhost.evil.example:7000", false),
            ("10.0.0.1:7000", false),
            ("", false),
        ];
        for (host, is_granted) in rows {
            let request = Credentials {
                host: Some(host),
                ..Credentials::default()
            };
            let grant = access(LOOPBACK).check(request);
            assert_eq!(grant == Grant::Granted, is_granted, "{host}");
        }
        let grant = access(LOOPBACK).check(Credentials::default());
        assert!(matches!(grant, Grant::Refused(_)));
    }

    #[test]
    fn other_sites_are_refused() {
        let rows = [
            ("http://127.0.0.1:7000", true),
            ("http://evil.example", false),
            ("https://127.0.0.1:7000", false),
            ("null", false),
        ];
        for (origin, is_granted) in rows {
            let request = Credentials {
                host: Some(LOOPBACK),
                origin: Some(origin),
                cookie: Some("proctor-token-7000=secret"),
                ..Credentials::default()
            };
            let grant = access(LOOPBACK).check(request);
            assert_eq!(grant == Grant::Granted, is_granted, "{origin}");
        }
    }

    #[test]
    fn printed_address_has_a_new_token() {
        let url = |address: &str| Access::new(address.parse().unwrap()).unwrap().url("/x");
        for address in ["127.0.0.1:7000", "[::1]:7000", "0.0.0.0:7000"] {
            let first = url(address);
            let (start, token) = first.rsplit_once('=').unwrap();
            assert_eq!(start, format!("http://{address}/x?token"));
            assert_eq!(token.len(), 32);
            assert_ne!(first, url(address));
        }
    }

    /// How a request with this token or cookie may read, and whether it may change anything.
    fn rights(address: &str, token: Option<&str>, cookie: Option<&str>) -> (Grant, bool) {
        let request = Credentials {
            host: Some(if address == LOOPBACK {
                LOOPBACK
            } else {
                "server.example:7000"
            }),
            cookie,
            token,
            ..Credentials::default()
        };
        let access = access(address);
        (access.check(request), access.may_change(request))
    }

    #[test]
    fn token_is_taken_from_the_address_once_and_from_the_cookie_afterwards() {
        let public = "0.0.0.0:7000";
        for address in [LOOPBACK, public] {
            let (grant, _) = rights(address, Some("secret"), None);
            assert!(matches!(grant, Grant::NewCookie(_)), "{address}");
            let right = Some("a=b; proctor-token-7000=secret");
            assert_eq!(
                rights(address, None, right),
                (Grant::Granted, true),
                "{address}"
            );
            for wrong in [
                "proctor-token-7000=secret2",
                "proctor-token-7001=secret",
                "",
            ] {
                let (grant, may_change) = rights(address, None, Some(wrong));
                assert!(!may_change, "{address} {wrong}");
                // Reading on this machine needs no token.
                assert_eq!(
                    grant == Grant::Granted,
                    address == LOOPBACK,
                    "{address} {wrong}"
                );
            }
        }
        let (grant, _) = rights(public, Some("wrong!"), None);
        assert!(matches!(grant, Grant::Refused(_)));
    }
}
