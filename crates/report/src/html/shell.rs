//! The frame of all pages: style, script, content security policy, title and controls.

use std::io::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use crate::markup::escape;

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = concat!(
    include_str!("script/base.js"),
    include_str!("script/markdown.js"),
    include_str!("script/diff.js"),
    include_str!("script/calls.js"),
    include_str!("script/run.js"),
    include_str!("script/trial.js"),
    include_str!("script/live.js"),
    include_str!("script/main.js"),
);

/// Where a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A file of its own.
    File,
    /// A run, on a server.
    Run,
    /// The list of runs, on a server.
    Index,
}

/// The frame of a page.
pub(super) struct Shell<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    pub(super) kind: PageKind,
}

/// The last two parts of an absolute path; another path as it is.
pub(super) fn short_path(path: &str) -> &str {
    let is_absolute = path.starts_with('/') || path.get(1..3) == Some(":\\");
    let mut separators = path.rmatch_indices(['/', '\\']);
    match separators.nth(1) {
        Some((at, _)) if is_absolute => &path[at + 1..],
        _ => path,
    }
}

impl Shell<'_> {
    /// Writes everything before the content.
    pub(super) fn start(&self, out: &mut impl Write) -> io::Result<()> {
        let hash = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
        let connect = match self.kind {
            PageKind::Run => "connect-src 'self'; ",
            PageKind::File | PageKind::Index => "",
        };
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'; {connect}base-uri 'none'; form-action 'none'"
        );
        let home = match self.kind {
            PageKind::Run => "<a href=\"../../\">All runs</a>",
            PageKind::File | PageKind::Index => "",
        };
        let title = escape(self.title);
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{title} · Proctor</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <header><div><h1>{title}</h1><p class=\"soft\" id=\"subtitle\">{}</p></div><div class=\"controls\">{home}<button id=\"theme\">Dark</button></div></header>\n<main>\n",
            escape(self.subtitle)
        )
    }

    /// Writes everything after the content.
    pub(super) fn end(out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_short() {
        for (path, short) in [
            ("/home/me/suite/proctor.yaml", "suite/proctor.yaml"),
            ("C:\\me\\suite\\proctor.yaml", "suite\\proctor.yaml"),
            ("a/b/c.yaml", "a/b/c.yaml"),
            ("/c.yaml", "/c.yaml"),
            ("c.yaml", "c.yaml"),
        ] {
            assert_eq!(short_path(path), short);
        }
    }

    #[test]
    fn front_end_is_small() {
        assert!(SCRIPT.len() + STYLE.len() < 300_000);
    }
}
