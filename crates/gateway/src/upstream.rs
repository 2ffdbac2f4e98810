//! Who answers requests: a provider over HTTP, with its real key, or a script.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Uri};

use crate::dial::Target;
use crate::error::GatewayError;
use crate::script::Script;
use crate::secret::Secret;
use crate::throttle::{Gate, Throttle};
use crate::wire::Provider;

/// Who answers the requests for one provider.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// The provider, or something that speaks like it.
    Http(HttpUpstream),
    /// A script that is played to every key from its beginning.
    Script(Arc<Script>),
}

/// A provider over HTTP.
#[derive(Debug, Clone)]
pub struct HttpUpstream {
    /// Scheme, host and, where needed, port and path: `https://api.anthropic.com`.
    pub base_url: String,
    /// The real key, if one is needed.
    pub key: Option<Secret>,
    /// How the key is sent: as the provider's own clients do unless given.
    pub auth: Option<Auth>,
    /// How much it gets at once.
    pub throttle: Throttle,
    /// How often the gateway asks again when the provider fails. Leave it at 0 where an agent's own
    /// behaviour is measured.
    pub retries: u32,
}

impl HttpUpstream {
    /// A provider at this URL with this key.
    pub fn new(base_url: impl Into<String>, key: Option<Secret>) -> Self {
        Self {
            base_url: base_url.into(),
            key,
            auth: None,
            throttle: Throttle::default(),
            retries: 0,
        }
    }
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// `x-api-key: KEY`
    XApiKey,
    /// `authorization: Bearer KEY`
    Bearer,
    /// `x-goog-api-key: KEY`
    XGoogApiKey,
}

impl Auth {
    fn of(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic => Self::XApiKey,
            Provider::OpenAi => Self::Bearer,
            Provider::Gemini => Self::XGoogApiKey,
        }
    }
}

/// A provider, ready for requests.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) target: Target,
    /// The number of its connections in every pool.
    pub(crate) slot: usize,
    pub(crate) gate: Gate,
    pub(crate) retries: u32,
    host: HeaderValue,
    prefix: String,
    auth: Option<(HeaderName, HeaderValue)>,
}

impl Ready {
    pub(crate) fn new(provider: Provider, upstream: &HttpUpstream) -> Result<Self, GatewayError> {
        let wrong = |reason| GatewayError::BaseUrl {
            url: without_password(&upstream.base_url),
            reason,
        };
        let uri: Uri = upstream
            .base_url
            .parse()
            .map_err(|_| wrong("it is no URL"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it has to begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a password has no place in it"));
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let host = HeaderValue::from_str(authority.as_str());
        let auth = match &upstream.key {
            Some(key) => {
                let style = upstream.auth.unwrap_or(Auth::of(provider));
                Some(auth_header(style, key).ok_or_else(|| wrong("its key is no header value"))?)
            }
            None => None,
        };
        Ok(Self {
            target: Target {
                host: authority.host().to_owned(),
                port,
                tls,
            },
            slot: provider as usize,
            gate: Gate::new(upstream.throttle),
            retries: upstream.retries,
            host: host.map_err(|_| wrong("its host is no header value"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            auth,
        })
    }

    /// The path and query to ask for. A base URL that ends in a version does not repeat it.
    pub(crate) fn path(&self, path: &str, query: Option<&str>) -> String {
        let version = self
            .prefix
            .rsplit('/')
            .next()
            .filter(|part| part.starts_with('v'));
        let repeated = version.and_then(|version| {
            let rest = path.strip_prefix('/')?.strip_prefix(version)?;
            rest.starts_with('/').then_some(rest)
        });
        let path = repeated.unwrap_or(path);
        match query {
            Some(query) if !query.is_empty() => format!("{}{path}?{query}", self.prefix),
            _ => format!("{}{path}", self.prefix),
        }
    }

    /// Puts the provider's host and key where the client's were.
    pub(crate) fn address(&self, headers: &mut HeaderMap) {
        headers.insert(hyper::header::HOST, self.host.clone());
        if let Some((name, value)) = &self.auth {
            headers.insert(name.clone(), value.clone());
        }
    }
}

/// A URL that can be shown.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://[redacted]@{host}"),
        (None, Some((_, host))) => format!("[redacted]@{host}"),
        (_, None) => url.to_owned(),
    }
}

fn auth_header(style: Auth, key: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let (name, text) = match style {
        Auth::XApiKey => (
            HeaderName::from_static("x-api-key"),
            key.expose().to_owned(),
        ),
        Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
        Auth::XGoogApiKey => (
            HeaderName::from_static("x-goog-api-key"),
            key.expose().to_owned(),
        ),
    };
    let mut value = HeaderValue::from_str(&text).ok()?;
    // Its `Debug` shows nothing then.
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(url: &str) -> Result<Ready, GatewayError> {
        Ready::new(
            Provider::OpenAi,
            &HttpUpstream::new(url, Some("sk-canary-key".into())),
        )
    }

    #[test]
    fn a_base_url_with_a_version_does_not_repeat_it() {
        let path = |url: &str| {
            ready(url)
                .unwrap()
                .path("/v1/chat/completions", Some("a=b"))
        };
        assert_eq!(path("https://h"), "/v1/chat/completions?a=b");
        assert_eq!(path("https://h/v1"), "/v1/chat/completions?a=b");
        assert_eq!(
            path("https://h/openai/v1/"),
            "/openai/v1/chat/completions?a=b"
        );
        assert_eq!(
            path("http://h:8080/proxy"),
            "/proxy/v1/chat/completions?a=b"
        );
    }

    #[test]
    fn a_wrong_url_is_told_and_no_key_shows() {
        for url in ["", "h", "ftp://h", "https://user:pw@h"] {
            assert!(ready(url).is_err(), "{url}");
        }
        let error = ready("https://user:pw@h").unwrap_err().to_string();
        assert!(!error.contains("pw"), "{error}");
        let shown = format!("{:?}", ready("https://h").unwrap());
        assert!(!shown.contains("canary"), "{shown}");
    }
}
