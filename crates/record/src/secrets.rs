//! The secrets of this machine: values of its environment that agents must not see. They are
//! replaced by the trial's gateway key.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

/// Shorter values are not secrets, and replacing them would garble other text.
const SHORTEST: usize = 8;
/// Words in the names of variables with secrets.
const TELLING: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Secrets with the names of their variables, longest first: replacing one must not leave part of
/// another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    named: Vec<(String, String)>,
}

impl Secrets {
    /// The values of variables with a secret-like name, and of those listed.
    pub fn of(env: &BTreeMap<String, String>, listed: &[String]) -> Secrets {
        let named = env.iter().filter(|(name, value)| {
            // A variable such as `SSH_KEY_FILE` contains a path, which is not secret.
            let is_place = value.starts_with('/') && Path::new(value).exists();
            (is_telling(name) || listed.contains(name)) && value.len() >= SHORTEST && !is_place
        });
        let named = named.map(|(name, value)| (name.clone(), value.clone()));
        Secrets::sorted(named.collect())
    }

    /// Only the secrets whose variables have a selected name.
    #[must_use]
    pub fn named(mut self, is_meant: impl Fn(&str) -> bool) -> Secrets {
        self.named.retain(|(name, _)| is_meant(name));
        self
    }

    fn sorted(mut named: Vec<(String, String)>) -> Secrets {
        named.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Secrets { named }
    }

    /// The same secrets with additional unnamed values.
    #[must_use]
    pub fn with(self, values: impl IntoIterator<Item = String>) -> Secrets {
        let more = values.into_iter().filter(|value| value.len() >= SHORTEST);
        let more = more.map(|value| (String::new(), value));
        Secrets::sorted(self.named.into_iter().chain(more).collect())
    }

    /// The same secrets without the values of these variables.
    #[must_use]
    pub fn without(mut self, allowed: &BTreeMap<String, String>) -> Secrets {
        self.named
            .retain(|(_, value)| allowed.values().all(|other| other != value));
        self
    }

    /// The names of the variables whose values occur in `bytes`.
    pub fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let is_in = |value: &str| memchr::memmem::find(bytes, value.as_bytes()).is_some();
        let found = self.named.iter().filter(|(_, value)| is_in(value));
        found.map(|(name, _)| name.as_str()).collect()
    }

    /// The text with every secret replaced.
    pub fn replace<'a>(&self, text: &'a str, with: &str) -> Cow<'a, str> {
        self.named
            .iter()
            .fold(Cow::Borrowed(text), |text, (_, value)| {
                if text.contains(value.as_str()) {
                    Cow::Owned(text.replace(value.as_str(), with))
                } else {
                    text
                }
            })
    }

    /// The content of a file with every secret replaced.
    pub fn replace_bytes(&self, mut bytes: Vec<u8>, with: &str) -> Vec<u8> {
        for (_, value) in &self.named {
            let finder = memchr::memmem::Finder::new(value.as_bytes());
            if finder.find(&bytes).is_none() {
                continue;
            }
            let mut replaced = Vec::with_capacity(bytes.len());
            let mut rest = bytes.as_slice();
            while let Some(at) = finder.find(rest) {
                replaced.extend_from_slice(&rest[..at]);
                replaced.extend_from_slice(with.as_bytes());
                rest = &rest[at + value.len()..];
            }
            replaced.extend_from_slice(rest);
            bytes = replaced;
        }
        bytes
    }
}

/// Whether a variable of this name holds a secret.
pub fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    TELLING.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(env: &[(&str, &str)]) -> Secrets {
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Secrets::of(&env.collect(), &[])
    }

    #[test]
    fn every_value_that_contains_a_secret_is_replaced() {
        let secrets = secrets(&[
            ("ANTHROPIC_API_KEY", "sk-real-1234"),
            ("LONGER_TOKEN", "sk-real-1234-and-more"),
            ("EDITOR", "an-editor"),
            ("SHORT_KEY", "us"),
            ("SSH_KEY_DIR", "/usr/bin"),
        ]);
        for (text, expect) in [
            ("sk-real-1234", "virtual"),
            ("Bearer sk-real-1234", "Bearer virtual"),
            (
                "{\"a\":\"sk-real-1234\",\"b\":\"sk-real-1234\"}",
                "{\"a\":\"virtual\",\"b\":\"virtual\"}",
            ),
            ("sk-real-1234-and-more", "virtual"),
            ("an-editor us /usr/bin/env", "an-editor us /usr/bin/env"),
        ] {
            assert_eq!(secrets.replace(text, "virtual"), expect);
            let bytes = secrets.replace_bytes(text.as_bytes().to_vec(), "virtual");
            assert_eq!(String::from_utf8(bytes).unwrap(), expect);
        }
    }

    #[test]
    fn allowed_variable_is_not_replaced() {
        let allowed = BTreeMap::from([("A_KEY".to_owned(), "value-of-a".to_owned())]);
        let secrets =
            secrets(&[("A_KEY", "value-of-a"), ("B_KEY", "value-of-b")]).without(&allowed);
        assert_eq!(
            secrets.replace("value-of-a value-of-b", "x"),
            "value-of-a x"
        );
        assert_eq!(secrets.found_in(b"value-of-a, value-of-b"), ["B_KEY"]);
    }
}
