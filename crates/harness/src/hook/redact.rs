//! Takes secrets out of what hooks print: values that they were given, and keys of the host.

use std::collections::BTreeMap;

use camino::Utf8Path;

/// Shorter values are no secrets, and masking them would tear other texts apart.
const SHORTEST: usize = 8;
const MASK: &str = "[redacted]";
/// Variables of the host with such a part in their name are secrets.
const TELLING: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Knows what must not show.
pub(super) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Of what a hook was given, and of the host's environment.
    pub(super) fn new(given: Vec<String>, env: &BTreeMap<String, String>) -> Redactor {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            TELLING.iter().any(|part| name.contains(part))
        };
        let of_host = env.iter().filter(|(name, _)| is_secret(name));
        let mut secrets: Vec<String> = given
            .into_iter()
            .chain(of_host.map(|(_, value)| value.clone()))
            .filter(|value| value.len() >= SHORTEST)
            .collect();
        // Longest first, so that masking one never leaves a part of another.
        secrets.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Redactor { secrets }
    }

    /// The text without them.
    pub(super) fn text(&self, text: &str) -> String {
        self.secrets
            .iter()
            .fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }

    /// The same for a file. One that cannot be read is not there.
    pub(super) fn file(&self, path: &Utf8Path) -> std::io::Result<()> {
        let Ok(bytes) = fs_err::read(path) else {
            return Ok(());
        };
        let has = |secret: &String| memchr::memmem::find(&bytes, secret.as_bytes()).is_some();
        if !self.secrets.iter().any(has) {
            return Ok(());
        }
        fs_err::write(path, self.text(&String::from_utf8_lossy(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_values_and_keys_of_the_host_are_masked() {
        let env = [("MY_API_KEY", "key-of-host"), ("EDITOR", "editor-of-host")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = vec!["given-secret".to_owned(), "short".to_owned()];
        let redactor = Redactor::new(given, &env.into());
        assert_eq!(
            redactor.text("given-secret short key-of-host editor-of-host"),
            "[redacted] short [redacted] editor-of-host"
        );
    }
}
