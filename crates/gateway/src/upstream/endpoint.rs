//! The upstream of a provider: the provider itself over HTTP, with its real key, or a script.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Uri};
use proctor_model_api::Provider;
use proctor_scripted_model::Script;

use super::dial::Target;
use super::throttle::{RateLimiter, Throttle};
use crate::error::GatewayError;
use crate::secrets::Secret;

/// The upstream for the requests to one provider.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// The provider, or a server with the same API.
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
    /// How the key is sent. Default: as the provider's own clients send it.
    pub auth: Option<Auth>,
    /// Its rate and concurrency limits.
    pub throttle: Throttle,
    /// How often the gateway retries a failed request. Keep it at 0 where the behaviour of an agent is
    /// measured.
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

/// A configured HTTP upstream.
#[derive(Debug)]
pub(crate) struct UpstreamEndpoint {
    pub(crate) target: Target,
    /// The index of its connections in every pool.
    pub(crate) slot: usize,
    pub(crate) limiter: RateLimiter,
    pub(crate) retries: u32,
    host: HeaderValue,
    prefix: String,
    auth: Option<(HeaderName, HeaderValue)>,
}

impl UpstreamEndpoint {
    pub(crate) fn new(provider: Provider, upstream: &HttpUpstream) -> Result<Self, GatewayError> {
        let wrong = |reason| GatewayError::BaseUrl {
            url: without_password(&upstream.base_url),
            reason,
        };
        let uri: Uri = upstream
            .base_url
            .parse()
            .map_err(|_| wrong("not a valid URL"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("must start with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("missing host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must not contain a password"));
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let host = HeaderValue::from_str(authority.as_str());
        let auth = match &upstream.key {
            Some(key) => {
                let style = upstream.auth.unwrap_or(Auth::of(provider));
                Some(auth_header(style, key).ok_or_else(|| {
                    wrong("the key contains characters that a header cannot have")
                })?)
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
            limiter: RateLimiter::new(upstream.throttle),
            retries: upstream.retries,
            host: host
                .map_err(|_| wrong("the host contains characters that a header cannot have"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            auth,
        })
    }

    /// The path and query to request. A version at the end of the base URL is not repeated.
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

    /// Sets the provider's host and key.
    pub(crate) fn address(&self, headers: &mut HeaderMap) {
        headers.insert(hyper::header::HOST, self.host.clone());
        if let Some((name, value)) = &self.auth {
            headers.insert(name.clone(), value.clone());
        }
    }
}

/// The URL without its credentials, for messages.
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
    // Keeps the value out of `Debug`.
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(url: &str) -> Result<UpstreamEndpoint, GatewayError> {
        UpstreamEndpoint::new(
            Provider::OpenAi,
            &HttpUpstream::new(url, Some("sk-canary-key".into())),
        )
    }

    #[test]
    fn version_in_base_url_is_not_repeated() {
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
    fn invalid_base_url_is_an_error_without_secrets() {
        for url in ["", "h", "ftp://h", "https://user:pw@h"] {
            assert!(ready(url).is_err(), "{url}");
        }
        let error = ready("https://user:pw@h").unwrap_err().to_string();
        assert!(!error.contains("pw"), "{error}");
        let shown = format!("{:?}", ready("https://h").unwrap());
        assert!(!shown.contains("canary"), "{shown}");
    }
}
