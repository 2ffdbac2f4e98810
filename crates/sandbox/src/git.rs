//! Git, run as a program: never with the user's or the agent's configuration, so that hooks,
//! filters and ignore files of either have no say in what is measured.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Status,
    quick::{self, CommandOutput, QuickCommand, Sink, Source},
};
use proctor_record::platform;

use crate::host::Host;

/// Fetching a large repository takes a while; nothing takes longer than this.
const LIMIT: Duration = Duration::from_mins(30);

/// Variables that tie git to one repository.
const OF_ONE_REPOSITORY: [&str; 9] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Variables of git, of ssh and of the usual credential helpers, which matter only to fetch.
const TO_FETCH: [&str; 7] = ["GIT_", "SSH_", "GCM_", "GH_", "GITHUB_", "GITLAB_", "DBUS_"];

/// The file of a git directory that says where its history ends, when it is not whole.
pub const SHALLOW: &str = "shallow";

/// Git on one git directory.
#[derive(Clone, Debug)]
pub struct Git {
    dir: Utf8PathBuf,
    work_tree: Option<Utf8PathBuf>,
    inherited: Arc<BTreeMap<String, String>>,
    env: Vec<(String, String)>,
    config: Configuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Configuration {
    /// None but ours.
    Ours,
    /// The user's: credential helpers, proxies.
    User,
}

/// Git did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It could not be run.
    #[error("could not run git")]
    Run(#[from] proctor_process::Error),
    /// It said no.
    #[error("`git {command}` failed: {stderr}")]
    Failed {
        /// The subcommand.
        command: String,
        /// What it printed.
        stderr: String,
    },
}

impl Git {
    /// Git on a repository, without looking at its work tree.
    pub fn new(host: &Host, git_dir: &Utf8Path) -> Git {
        Git {
            dir: git_dir.to_owned(),
            work_tree: None,
            inherited: Arc::new(host.helper_env(&TO_FETCH)),
            env: Vec::new(),
            config: Configuration::Ours,
        }
    }

    /// The same on another repository.
    #[must_use]
    pub fn at(&self, git_dir: &Utf8Path) -> Git {
        Git {
            dir: git_dir.to_owned(),
            work_tree: None,
            ..self.clone()
        }
    }

    /// The same with its files in `work_tree`.
    #[must_use]
    pub fn with_files(&self, work_tree: &Utf8Path) -> Git {
        Git {
            work_tree: Some(work_tree.to_owned()),
            ..self.clone()
        }
    }

    /// The git directory.
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// The same with more environment.
    #[must_use]
    pub fn with_env(mut self, env: &[(&str, &str)]) -> Git {
        self.env.extend(
            env.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        self
    }

    /// The same with the user's configuration: to fetch with the user's credentials.
    #[must_use]
    pub fn with_user_config(mut self) -> Git {
        self.config = Configuration::User;
        self
    }

    /// Run and give what it printed.
    pub async fn run<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<u8>, GitError> {
        let (name, command) = self.command(args);
        check(&name, quick::output(command, LIMIT).await?)
    }

    /// Run with these bytes on standard input.
    pub async fn run_with_input<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
        input: Vec<u8>,
    ) -> Result<Vec<u8>, GitError> {
        let (name, command) = self.command(args);
        let command = command.stdin(Source::Bytes(input));
        check(&name, quick::output(command, LIMIT).await?)
    }

    /// Run and give the one line that it printed.
    pub async fn line<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Result<String, GitError> {
        let bytes = self.run(args).await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Run with standard output going to `file`.
    pub async fn run_to_file<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
        file: &Utf8Path,
    ) -> Result<(), GitError> {
        let (name, command) = self.command(args);
        let file = std::fs::File::create(file).map_err(|error| GitError::Failed {
            command: name.clone(),
            stderr: format!("{file}: {error}"),
        })?;
        check(
            &name,
            quick::output(command.stdout(Sink::File(file)), LIMIT).await?,
        )?;
        Ok(())
    }

    /// Take over where the history of another repository ends, when it is not whole.
    pub fn copy_shallow_from(&self, source: &Git) -> std::io::Result<()> {
        let shallow = source.dir.join(SHALLOW);
        if shallow.is_file() {
            fs_err::copy(shallow, self.dir.join(SHALLOW))?;
        }
        Ok(())
    }

    /// Copy a tree, or a commit with its history, and nothing else from another repository.
    pub async fn copy_tree_from(&self, source: &Git, tree: &str) -> Result<(), GitError> {
        // The pack lives as long as the run: searching for deltas costs more than they save.
        let pack = [
            "pack-objects",
            "--quiet",
            "--revs",
            "--window=0",
            "--stdout",
        ];
        let (_, pack) = source.command(pack);
        // For each loose object glibc would grow and shrink the heap.
        let pack = pack
            .env("MALLOC_TOP_PAD_", "16777216")
            .env("MALLOC_TRIM_THRESHOLD_", "67108864");
        let (_, unpack) = self.command(["index-pack", "--stdin"]);
        let input = format!("{tree}\n").into_bytes();
        let (packed, unpacked) =
            quick::pipeline(pack.stdin(Source::Bytes(input)), unpack, LIMIT).await?;
        check("pack-objects", packed)?;
        check("index-pack", unpacked)?;
        Ok(())
    }

    /// The environment that comes along: for our own work nothing that git listens to; to fetch, also the variables
    /// for that, without those that a hook that runs Proctor would hand down of its own repository.
    fn inherited(&self) -> BTreeMap<OsString, OsString> {
        let comes = |name: &str| match self.config {
            Configuration::Ours => {
                let name = name.to_ascii_uppercase();
                !TO_FETCH.iter().any(|start| name.starts_with(start))
            }
            Configuration::User => {
                let mut tying = OF_ONE_REPOSITORY.iter();
                !tying.any(|tied| platform::is_same_name(tied, name))
            }
        };
        let inherited = self.inherited.iter().filter(|(name, _)| comes(name));
        inherited
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// Whether the user says how ssh is run.
    fn chooses_ssh(&self) -> bool {
        ["GIT_SSH_COMMAND", "GIT_SSH"]
            .iter()
            .any(|name| platform::variable(&self.inherited, name).is_some())
    }

    fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> (String, QuickCommand) {
        let args: Vec<&str> = args.into_iter().collect();
        let mut command = QuickCommand::new("git");
        command.env = self.inherited();
        let mut command = command
            .env("GIT_DIR", &self.dir)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C");
        if let Some(work_tree) = &self.work_tree {
            command = command
                .env("GIT_WORK_TREE", work_tree)
                .args(["-C", work_tree.as_str()]);
        }
        match self.config {
            Configuration::Ours => {
                command = command
                    .env("GIT_CONFIG_NOSYSTEM", "1")
                    .env("GIT_CONFIG_GLOBAL", "/dev/null")
                    .env("GIT_ATTR_NOSYSTEM", "1")
                    .args([
                        "-c",
                        "core.excludesFile=",
                        "-c",
                        "core.attributesFile=",
                        "-c",
                        "core.hooksPath=/dev/null",
                    ])
                    .args([
                        "-c",
                        "core.quotePath=false",
                        "-c",
                        "gc.auto=0",
                        "-c",
                        "core.autocrlf=false",
                        "-c",
                        "core.fsmonitor=false",
                    ])
                    .args(platform::git_settings().iter().copied());
            }
            Configuration::User if self.chooses_ssh() => {}
            // A question for a passphrase would wait forever.
            Configuration::User => {
                command = command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
            }
        }
        for (name, value) in &self.env {
            command = command.env(name, value);
        }
        let name = args.first().copied().unwrap_or_default().to_owned();
        (name, command.args(args))
    }
}

fn check(name: &str, output: CommandOutput) -> Result<Vec<u8>, GitError> {
    if output.status == Status::Code(0) {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GitError::Failed {
        command: name.to_owned(),
        stderr,
    })
}
