//! A dataset on the command line: `git+URL@REF#DIRECTORY`, as pip and uv write it.

use serde_json::{Value, json};

/// A dataset of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// The URL of the repository.
    pub git: String,
    /// The branch, tag or commit.
    pub revision: Option<String>,
    /// The directory in the repository.
    pub folder: String,
}

impl GitSource {
    /// Reads an argument; `None` if it is a path.
    pub fn parse(text: &str) -> Option<GitSource> {
        let text = text.strip_prefix("git+")?;
        let (text, folder) = text.split_once('#').unwrap_or((text, "."));
        // An `@` of the host is before the path.
        let host = text.find("://").map_or(0, |at| at + 3);
        let path = text[host..].find('/').map_or(text.len(), |at| host + at);
        let (git, revision) = match text[path..].rfind('@') {
            Some(at) => (&text[..path + at], Some(&text[path + at + 1..])),
            None => (text, None),
        };
        Some(GitSource {
            git: git.to_owned(),
            revision: revision.map(str::to_owned),
            folder: folder.to_owned(),
        })
    }

    /// The entry of `tasks`, in which `${` is literal.
    pub fn entry(&self) -> Value {
        let literal = |text: &str| text.replace("${", "$${");
        let revision = self.revision.as_deref().unwrap_or("HEAD");
        json!({
            "folder": literal(&self.folder),
            "git": literal(&self.git),
            "ref": literal(revision),
        })
    }

    /// The argument for a commit of the same dataset.
    pub fn at(&self, commit: &str) -> String {
        format!("git+{}@{commit}#{}", self.git, self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_has_a_url_a_revision_and_a_directory() {
        for (text, expected) in [
            ("git+https://h/a", Some(("https://h/a", None, "."))),
            ("git+https://h/a@v1", Some(("https://h/a", Some("v1"), "."))),
            ("git+ssh://git@h/a", Some(("ssh://git@h/a", None, "."))),
            (
                "git+ssh://git@h/a@x/y#sets/one",
                Some(("ssh://git@h/a", Some("x/y"), "sets/one")),
            ),
            ("git+file:///a#b", Some(("file:///a", None, "b"))),
            ("https://h/a", None),
            ("git", None),
        ] {
            let source = GitSource::parse(text);
            let parts = source
                .as_ref()
                .map(|it| (&*it.git, it.revision.as_deref(), &*it.folder));
            assert_eq!(parts, expected, "{text}");
            if let Some(source) = source {
                let pinned = GitSource::parse(&source.at("c")).unwrap();
                assert_eq!(pinned.revision.as_deref(), Some("c"));
                assert_eq!((pinned.git, pinned.folder), (source.git, source.folder));
            }
        }
    }
}
