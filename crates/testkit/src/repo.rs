//! A git repository for tests to run agents on.

use std::io::{Seek, Write};
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use crate::platform;

/// All commits are made at this time, so that their ids only depend on their contents.
const DATE: &str = "2024-01-01T00:00:00Z";

/// A git repository whose commits are the same in every run.
#[derive(Debug)]
pub struct Repo {
    path: Utf8PathBuf,
}

impl Repo {
    /// Makes a repository at `path`, on branch `main`, with one commit that holds a `README.md`.
    pub fn init(path: &Utf8Path) -> Self {
        fs_err::create_dir_all(path).expect("the repository's directory");
        let repo = Self {
            path: path.to_owned(),
        };
        repo.git(["init", "--quiet", "--initial-branch=main"]);
        // Work in the background would outlive the test, and other programs use this repository too.
        repo.git(["config", "gc.auto", "0"]);
        repo.git(["config", "maintenance.auto", "false"]);
        repo.commit("first", &[("README.md", "# Fixture\n")]);
        repo
    }

    /// Where it is.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Writes these files, commits all there is, and returns the commit's id.
    pub fn commit(&self, message: &str, files: &[(&str, &str)]) -> String {
        for (name, text) in files {
            let file = self.path.join(name);
            let parent = file.parent().expect("a file lies in a directory");
            fs_err::create_dir_all(parent).expect("the file's directory");
            fs_err::write(&file, text).expect("the file");
        }
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--message", message]);
        self.head()
    }

    /// The id of the commit that is checked out.
    pub fn head(&self) -> String {
        self.git(["rev-parse", "HEAD"])
    }

    /// Runs git in the repository and returns what it wrote to stdout, trimmed.
    #[track_caller]
    pub fn git<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        let args: Vec<&str> = args.into_iter().collect();
        self.git_with_input(&args, b"")
    }

    /// The same with these bytes on stdin.
    #[track_caller]
    pub fn git_with_input(&self, args: &[&str], input: &[u8]) -> String {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(input).expect("a file takes bytes");
        file.rewind().expect("a file has a start");
        let output = Command::new("git")
            .args(args)
            .current_dir(&self.path)
            .stdin(file)
            .env_clear()
            .envs(platform::nobodys_env())
            .env("PATH", platform::system_path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([
                ("GIT_AUTHOR_NAME", "Fixture"),
                ("GIT_COMMITTER_NAME", "Fixture"),
            ])
            .envs([
                ("GIT_AUTHOR_EMAIL", "f@example.com"),
                ("GIT_COMMITTER_EMAIL", "f@example.com"),
            ])
            .envs([("GIT_AUTHOR_DATE", DATE), ("GIT_COMMITTER_DATE", DATE)])
            .output()
            .expect("git is installed");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
