//! Removes secrets from the output of hooks: their own settings, and keys of the host.

use camino::Utf8Path;
use proctor_record::secrets::Secrets;

const MASK: &str = "[redacted]";

/// The values to remove.
pub(super) struct Redactor {
    secrets: Secrets,
}

impl Redactor {
    /// A redactor of a hook's settings and the host's secrets.
    pub(super) fn new(given: Vec<String>, secrets: &Secrets) -> Redactor {
        Redactor {
            secrets: secrets.clone().with(given),
        }
    }

    /// The text without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        self.secrets.replace(text, MASK).into_owned()
    }

    /// Redacts a file. An unreadable file is removed.
    pub(super) fn file(&self, path: &Utf8Path) -> std::io::Result<()> {
        let Ok(bytes) = fs_err::read(path) else {
            return Ok(());
        };
        if self.secrets.found_in(&bytes).is_empty() {
            return Ok(());
        }
        fs_err::write(path, self.text(&String::from_utf8_lossy(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_host_keys_are_masked() {
        let env = [("MY_API_KEY", "key-of-host"), ("EDITOR", "editor-of-host")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = vec!["given-secret".to_owned(), "short".to_owned()];
        let redactor = Redactor::new(given, &Secrets::of(&env.into(), &[]));
        assert_eq!(
            redactor.text("given-secret short key-of-host editor-of-host"),
            "[redacted] short [redacted] editor-of-host"
        );
    }
}
