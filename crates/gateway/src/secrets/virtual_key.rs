//! Virtual keys: their format, and where requests carry them.

use std::borrow::Borrow;
use std::fmt::Write;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use super::secret::Secret;
use crate::error::GatewayError;

/// A key of the gateway. Its holder can spend its budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VirtualKey(Secret);

impl VirtualKey {
    /// The key of this name that is derived from a secret. A holder of the secret can compute it.
    #[must_use]
    pub fn derived(secret: &Secret, name: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update(secret.expose());
        digest.update([0]);
        digest.update(name);
        Self(encode(&digest.finalize()[..KEY_BYTES]))
    }

    /// A key that cannot be guessed.
    pub(crate) fn random() -> Result<Self, GatewayError> {
        let mut bytes = [0_u8; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| GatewayError::Random)?;
        Ok(Self(encode(&bytes)))
    }

    /// The key as a client sends it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl Borrow<str> for VirtualKey {
    fn borrow(&self) -> &str {
        self.expose()
    }
}

/// The key of a request, in any of the places where clients send it.
pub(crate) fn shown(headers: &HeaderMap, query: Option<&str>) -> Option<String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    let in_query = || {
        let mut pairs = query?.split('&');
        pairs.find_map(|pair| pair.strip_prefix("key="))
    };
    let found = header("x-api-key").or(bearer).or(header("x-goog-api-key"));
    found.or_else(in_query).map(str::to_owned)
}

/// The query without its key.
pub(crate) fn query_without_key(query: &str) -> String {
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.starts_with("key="))
        .collect();
    kept.join("&")
}

/// The prefix of every key. It resembles a provider's, because some clients check that.
pub(crate) const KEY_PREFIX: &str = "sk-ant-proctor-";

/// The length of every key.
pub(crate) const KEY_LENGTH: usize = KEY_PREFIX.len() + 2 * KEY_BYTES;

/// The number of random bytes in a key.
const KEY_BYTES: usize = 24;

/// Encodes bytes as a key.
fn encode(bytes: &[u8]) -> Secret {
    let mut key = String::from(KEY_PREFIX);
    for byte in bytes {
        write!(key, "{byte:02x}").expect("writing to a string cannot fail");
    }
    Secret::new(key)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn key_is_found_in_every_place() {
        let found = |name, value| shown(&headers(name, value), None);
        assert_eq!(found("x-api-key", "k").as_deref(), Some("k"));
        assert_eq!(found("authorization", "Bearer k").as_deref(), Some("k"));
        assert_eq!(found("authorization", "bearer k").as_deref(), Some("k"));
        assert_eq!(found("x-goog-api-key", "k").as_deref(), Some("k"));
        assert_eq!(found("authorization", "Basic k"), None);
        assert_eq!(
            shown(&HeaderMap::new(), Some("alt=sse&key=k")).as_deref(),
            Some("k")
        );
        assert_eq!(query_without_key("alt=sse&key=k&x=1"), "alt=sse&x=1");
    }

    #[test]
    fn keys_are_random_and_hidden_in_debug() {
        let (a, b) = (VirtualKey::random().unwrap(), VirtualKey::random().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.expose().len(), KEY_LENGTH);
        assert!(!format!("{a:?}").contains(a.expose()));
    }

    #[test]
    fn derived_key_depends_on_secret_and_name() {
        let (one, other) = (Secret::new("one"), Secret::new("other"));
        let key = VirtualKey::derived(&one, "a");
        assert_eq!(key, VirtualKey::derived(&one, "a"));
        assert_ne!(key, VirtualKey::derived(&one, "b"));
        assert_ne!(key, VirtualKey::derived(&other, "a"));
        assert_eq!(key.expose().len(), KEY_LENGTH);
    }
}
