//! Takes secrets out of what hooks print: values that they were given, and keys of the host.

use camino::Utf8Path;

use crate::secrets::Secrets;

const MASK: &str = "[redacted]";

/// Knows what must not show.
pub(super) struct Redactor {
    secrets: Secrets,
}

impl Redactor {
    /// Of what a hook was given, and of the host's secrets.
    pub(super) fn new(given: Vec<String>, secrets: &Secrets) -> Redactor {
        Redactor {
            secrets: secrets.clone().with(given),
        }
    }

    /// The text without them.
    pub(super) fn text(&self, text: &str) -> String {
        self.secrets.replace(text, MASK).into_owned()
    }

    /// The same for a file. One that cannot be read is not there.
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
    fn given_values_and_keys_of_the_host_are_masked() {
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
