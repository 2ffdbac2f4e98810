//! The source of a task's code: a URL or a directory.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{fs::named, platform};
use schemars::JsonSchema;
use serde::Deserialize;

/// The commits that an agent can see in addition to the start commit. Later commits, other branches
/// and tags are never included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// No further commits: the workspace has one commit.
    #[default]
    None,
    /// All ancestors of the start commit.
    Full,
}

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repo {
    /// A URL for git: `https`, `http`, `ssh`, `file`, or `git@host:path`.
    Url(String),
    /// A directory on this machine.
    Path(Utf8PathBuf),
}

impl std::fmt::Display for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Repo::Url(url) => f.write_str(url),
            Repo::Path(path) => f.write_str(path.as_str()),
        }
    }
}

const SCHEMES: [&str; 4] = ["https", "http", "ssh", "file"];

impl Repo {
    /// Parses `repo` of a test case in `folder`.
    pub(crate) fn parse(text: &str, folder: &Utf8Path) -> Result<Repo, String> {
        // A text over several lines of YAML may end in a space.
        let text = text.trim();
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.chars().any(char::is_control) {
            return Err("it contains a control character".to_owned());
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return url(text, scheme, rest);
        }
        if let Some(host) = scp_host(text) {
            check_host(host)?;
            return Ok(Repo::Url(text.to_owned()));
        }
        if text.starts_with("~/") {
            return Err("`~` is not expanded; write `${HOME}`".to_owned());
        }
        let path = named::absolute(&folder.join(text));
        match std::fs::metadata(&path) {
            Ok(about) if about.is_dir() => Ok(Repo::Path(path)),
            Ok(_) => Err(format!("{path} is not a folder")),
            Err(_) => Err(format!("folder not found: {path}")),
        }
    }
}

impl Repo {
    /// The names of the repository: the full name, and its last part.
    pub(crate) fn names(&self) -> Vec<String> {
        let whole = self.to_string();
        let whole_with_slashes = platform::slashed(&whole);
        let last = whole_with_slashes
            .trim_end_matches('/')
            .rsplit(['/', ':'])
            .next();
        let last = last.map(|name| name.trim_end_matches(".git").to_owned());
        [Some(whole.clone()), last].into_iter().flatten().collect()
    }
}

fn url(text: &str, scheme: &str, rest: &str) -> Result<Repo, String> {
    if !SCHEMES.contains(&scheme) {
        return Err(format!(
            "`{scheme}` URLs are not supported; use https, http, ssh or file"
        ));
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if scheme == "file" {
        if !rest.starts_with('/') {
            return Err("a file URL has three slashes, such as file:///srv/repo".to_owned());
        }
    } else {
        check_host(host)?;
    }
    Ok(Repo::Url(text.to_owned()))
}

/// The host of `user@host:path`.
fn scp_host(text: &str) -> Option<&str> {
    let (place, path) = text.split_once(':')?;
    let (user, host) = place.split_once('@')?;
    let plain = !user.is_empty() && !place.contains(['/', '\\']);
    (plain && !path.is_empty() && !path.starts_with(':')).then_some(host)
}

/// Checks a host name. ssh treats a host that starts with a dash as an option.
fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the URL has no host".to_owned());
    }
    if host.starts_with('-') || host.contains(char::is_whitespace) {
        return Err(format!("invalid host name `{host}`"));
    }
    Ok(())
}

/// Checks a branch or commit that is passed to git.
pub(crate) fn revision_problem(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.starts_with('-') {
        Some("it must not start with `-`")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("it must not contain spaces")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_scp_addresses_are_kept_unchanged() {
        for text in [
            "https://github.com/a/b.git",
            "http://127.0.0.1:8080/a",
            "https://user@host/a",
            "ssh://git@host:22/a",
            "git@github.com:a/b.git",
            "file:///srv/repo",
        ] {
            let repo = Repo::parse(text, "/nowhere".into());
            assert_eq!(repo, Ok(Repo::Url(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn ambiguous_repositories_are_refused() {
        for text in [
            "",
            " ",
            "ext::sh -c id",
            "ftp://host/a",
            "https:///a",
            "file://host/a",
            "ssh://-oProxyCommand=id/a",
            "git@-oProxyCommand=id:a",
            "a@b::c",
            "~/code",
            "--upload-pack=id",
            "https://ho\nst/",
        ] {
            assert!(Repo::parse(text, "/nowhere".into()).is_err(), "{text:?}");
        }
    }

    #[cfg(windows)]
    #[test]
    fn windows_path_is_not_an_scp_address() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        assert_eq!(&folder[1..3], r":\");
        for text in [folder.to_owned(), folder.replace('\\', "/")] {
            let repo = Repo::parse(&text, r"C:\elsewhere".into());
            assert_eq!(repo, Ok(Repo::Path(folder.into())), "{text}");
        }
    }

    #[test]
    fn revision_cannot_be_an_option() {
        assert_eq!(revision_problem("feature/x"), None);
        assert!(revision_problem("--force").is_some());
        assert!(revision_problem("a b").is_some());
        assert!(revision_problem("").is_some());
    }
}
