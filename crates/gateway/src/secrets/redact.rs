//! Masks secrets in text that is about to be written.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memmem;

use super::secret::Secret;
use super::virtual_key::{KEY_LENGTH, KEY_PREFIX};

/// The replacement of a secret.
const MASK: &[u8] = b"[redacted]";

/// Shorter texts are not keys, and masking them would damage other text.
const SHORTEST: usize = 8;

/// The real keys to mask. Virtual keys are recognised by their prefix.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    secrets: Vec<Secret>,
}

impl Redactor {
    /// Adds a secret to mask.
    pub(crate) fn add(&mut self, secret: &Secret) {
        if secret.expose().len() >= SHORTEST && !self.secrets.contains(secret) {
            self.secrets.push(secret.clone());
        }
    }

    /// The text with every secret masked.
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Some(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
            None => Cow::Borrowed(text),
        }
    }

    /// Masks every secret in a text.
    pub(crate) fn mask(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }

    /// The bytes with every secret masked. `None` if there is none.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Option<Bytes> {
        let mut masked: Option<Vec<u8>> = None;
        let real = self
            .secrets
            .iter()
            .map(|secret| (secret.expose(), secret.expose().len()));
        for (start, length) in real.chain([(KEY_PREFIX, KEY_LENGTH)]) {
            let text = masked.as_deref().unwrap_or(bytes);
            masked = replace(text, start.as_bytes(), length).or(masked);
        }
        masked.map(Bytes::from)
    }
}

/// Masks `length` bytes at each occurrence of `start`.
fn replace(text: &[u8], start: &[u8], length: usize) -> Option<Vec<u8>> {
    memmem::find(text, start)?;
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in memmem::find_iter(text, start) {
        if at < from {
            continue;
        }
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(MASK);
        from = (at + length).min(text.len());
    }
    out.extend_from_slice(&text[from..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_is_masked_at_every_position() {
        let mut redactor = Redactor::default();
        redactor.add(&Secret::new("sk-canary-1"));
        redactor.add(&Secret::new("other-key-2"));
        assert_eq!(
            redactor.text("a sk-canary-1 b other-key-2sk-canary-1"),
            "a [redacted] b [redacted][redacted]"
        );
        assert_eq!(redactor.bytes(b"x sk-canary-1").unwrap(), "x [redacted]");
        assert!(redactor.bytes(b"nothing here").is_none());
    }

    #[test]
    fn virtual_keys_are_recognised_by_their_prefix() {
        let key = format!("{KEY_PREFIX}{}", "0".repeat(KEY_LENGTH - KEY_PREFIX.len()));
        let redactor = Redactor::default();
        assert_eq!(redactor.text(&format!("<{key}>")), "<[redacted]>");
        assert_eq!(
            redactor.text(&key[..KEY_LENGTH - 4]),
            "[redacted]",
            "a truncated key is masked too"
        );
    }
}
