//! Access to the pages. Pages of other sites can send requests to a server on loopback, so the
//! name of the host is checked. A server on other addresses wants a token.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use proctor_record::fs::hex;

/// The cookie with the token.
const COOKIE: &str = "proctor-token";

/// The rules of a server.
#[derive(Clone, Debug)]
pub struct Access {
    address: SocketAddr,
    token: Option<String>,
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
    /// Access to a server at this address, with a new token unless the address is on loopback.
    pub fn new(address: SocketAddr) -> io::Result<Access> {
        let token = if address.ip().is_loopback() {
            None
        } else {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            Some(hex(&bytes))
        };
        Ok(Access { address, token })
    }

    /// The address of a page for the first visit.
    pub fn url(&self, path: &str) -> String {
        let token = self.token.as_ref();
        let token = token.map_or(String::new(), |token| format!("?token={token}"));
        format!("http://{}{path}{token}", self.address)
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
        let Some(token) = &self.token else {
            return if is_own_host {
                Grant::Granted
            } else {
                Grant::Refused("use the address that `proctor view` printed")
            };
        };
        if request.token.is_some_and(|it| is_same(it, token)) {
            let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
            return Grant::NewCookie(cookie);
        }
        let cookies = request.cookie.unwrap_or_default().split(';');
        let mut cookies = cookies.filter_map(|it| it.trim().split_once('='));
        if cookies.any(|(name, value)| name == COOKIE && is_same(value, token)) {
            Grant::Granted
        } else {
            Grant::Refused("use the address with the token that `proctor view` printed")
        }
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

    fn access(token: Option<&str>) -> Access {
        Access {
            address: "127.0.0.1:7000".parse().unwrap(),
            token: token.map(str::to_owned),
        }
    }

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
            let grant = access(None).check(request);
            assert_eq!(grant == Grant::Granted, is_granted, "{host}");
        }
        let grant = access(None).check(Credentials::default());
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
                host: Some("127.0.0.1:7000"),
                origin: Some(origin),
                ..Credentials::default()
            };
            let grant = access(None).check(request);
            assert_eq!(grant == Grant::Granted, is_granted, "{origin}");
        }
    }

    #[test]
    fn only_addresses_of_other_machines_have_a_token() {
        let url = |address: &str| Access::new(address.parse().unwrap()).unwrap().url("/x");
        assert_eq!(url("127.0.0.1:7000"), "http://127.0.0.1:7000/x");
        assert_eq!(url("[::1]:7000"), "http://[::1]:7000/x");
        let (start, token) = url("0.0.0.0:7000").rsplit_once('=').map(own).unwrap();
        assert_eq!(start, "http://0.0.0.0:7000/x?token");
        assert_eq!(token.len(), 32);
        assert_ne!(url("0.0.0.0:7000"), url("0.0.0.0:7000"));
    }

    fn own((one, other): (&str, &str)) -> (String, String) {
        (one.to_owned(), other.to_owned())
    }

    #[test]
    fn token_is_taken_from_the_address_once_and_from_the_cookie_afterwards() {
        let access = access(Some("secret"));
        let host = Some("server.example:7000");
        let check = |token, cookie| {
            access.check(Credentials {
                host,
                cookie,
                token,
                ..Credentials::default()
            })
        };
        assert!(matches!(check(Some("secret"), None), Grant::NewCookie(_)));
        assert!(matches!(check(Some("wrong!"), None), Grant::Refused(_)));
        assert!(matches!(check(None, None), Grant::Refused(_)));
        let cookie = "a=b; proctor-token=secret";
        assert_eq!(check(None, Some(cookie)), Grant::Granted);
        let cookie = "proctor-token=secret2";
        assert!(matches!(check(None, Some(cookie)), Grant::Refused(_)));
    }
}
