//! Git as a program: never with the user's or the agent's configuration, so that hooks, filters and
//! ignore files do not affect measurements.

use std::{collections::BTreeMap, ffi::OsString, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Status,
    quick::{self, CommandOutput, QuickCommand, Sink, Source},
};
use proctor_record::platform;

use crate::host::Host;

/// The timeout: fetching a large repository takes a while.
const LIMIT: Duration = Duration::from_mins(30);

/// Variables that bind git to one repository.
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

/// Variables of git, ssh and common credential helpers, which are needed only for fetching.
const TO_FETCH: [&str; 7] = ["GIT_", "SSH_", "GCM_", "GH_", "GITHUB_", "GITLAB_", "DBUS_"];

/// The file of a git directory that lists where a shallow history ends.
pub const SHALLOW: &str = "shallow";

/// Packs objects. The pack lives as long as the run: searching for deltas costs more than they save.
const PACK: [&str; 4] = ["pack-objects", "--quiet", "--revs", "--window=0"];

/// Git in one git directory.
#[derive(Clone, Debug)]
pub struct Git {
    dir: Utf8PathBuf,
    work_tree: Option<Utf8PathBuf>,
    inherited: Arc<BTreeMap<String, String>>,
    env: Vec<(String, String)>,
    config: GitConfiguration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GitConfiguration {
    /// Only our own.
    Ours,
    /// The user's: credential helpers, proxies.
    User,
}

/// A git command failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git could not be run.
    #[error("cannot run git")]
    Run(#[from] proctor_process::Error),
    /// The command failed.
    #[error("`git {command}` failed: {stderr}")]
    Failed {
        /// The subcommand.
        command: String,
        /// The error output.
        stderr: String,
    },
}

impl Git {
    /// Git in a repository, without its work tree.
    pub fn new(host: &Host, git_dir: &Utf8Path) -> Git {
        Git {
            dir: git_dir.to_owned(),
            work_tree: None,
            inherited: Arc::new(host.helper_env(&TO_FETCH)),
            env: Vec::new(),
            config: GitConfiguration::Ours,
        }
    }

    /// The same for another repository.
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

    /// The same with additional environment variables.
    #[must_use]
    pub fn with_env(mut self, env: &[(&str, &str)]) -> Git {
        self.env.extend(
            env.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        self
    }

    /// The same with the user's configuration, to fetch with the user's credentials.
    #[must_use]
    pub fn with_user_config(mut self) -> Git {
        self.config = GitConfiguration::User;
        self
    }

    /// Runs a command. Returns its output.
    pub async fn run<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<u8>, GitError> {
        let (name, command) = self.command(args);
        check(&name, quick::output(command, LIMIT).await?)
    }

    /// Runs a command with these bytes on standard input.
    pub async fn run_with_input<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
        input: Vec<u8>,
    ) -> Result<Vec<u8>, GitError> {
        let (name, command) = self.command(args);
        let command = command.stdin(Source::Bytes(input));
        check(&name, quick::output(command, LIMIT).await?)
    }

    /// Runs a command. Returns its single line of output.
    pub async fn line<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Result<String, GitError> {
        let bytes = self.run(args).await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Runs a command with standard output in `file`.
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

    /// Copies the end of a shallow history from another repository.
    pub fn copy_shallow_from(&self, source: &Git) -> std::io::Result<()> {
        let shallow = source.dir.join(SHALLOW);
        if shallow.is_file() {
            fs_err::copy(shallow, self.dir.join(SHALLOW))?;
        }
        Ok(())
    }

    /// Copies a tree, and nothing else, from another repository.
    pub async fn copy_tree_from(&self, source: &Git, tree: &str) -> Result<(), GitError> {
        // A repository that fetches objects on demand, or whose objects are elsewhere, has to be read by its own git.
        match self.pack_directly(source, tree).await {
            Ok(()) => Ok(()),
            Err(_) => self.copy_history_from(source, tree).await,
        }
    }

    /// Writes a pack with the objects of a tree, which are borrowed from another repository while git runs.
    async fn pack_directly(&self, source: &Git, tree: &str) -> Result<(), GitError> {
        let failed = |stderr: String| GitError::Failed {
            command: PACK[0].to_owned(),
            stderr,
        };
        let objects = source.dir.join("objects");
        // The variable holds a list of paths.
        if !objects.is_dir() || objects.as_str().contains([':', ';', '"', '\n']) {
            return Err(failed(format!("{objects} cannot be borrowed")));
        }
        let packs = self.dir.join("objects/pack");
        fs_err::create_dir_all(&packs).map_err(|error| failed(error.to_string()))?;
        let name = packs.join("pack");
        let (_, pack) = self.command(PACK.into_iter().chain([name.as_str()]));
        let pack = pack.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects);
        let input = format!("{tree}\n").into_bytes();
        let pack = with_steady_heap(pack).stdin(Source::Bytes(input));
        check(PACK[0], quick::output(pack, LIMIT).await?)?;
        Ok(())
    }

    /// Copies a tree, or a commit with its history, and nothing else from another repository.
    pub async fn copy_history_from(&self, source: &Git, start: &str) -> Result<(), GitError> {
        let (_, pack) = source.command(PACK.into_iter().chain(["--stdout"]));
        let (_, unpack) = self.command(["index-pack", "--stdin"]);
        let input = format!("{start}\n").into_bytes();
        let pack = with_steady_heap(pack).stdin(Source::Bytes(input));
        let (packed, unpacked) = quick::pipeline(pack, unpack, LIMIT).await?;
        check(PACK[0], packed)?;
        check("index-pack", unpacked)?;
        Ok(())
    }

    /// The inherited environment. Our own commands get no variables that affect git; fetching also
    /// gets variables for credentials, without those that a git hook sets for its own repository.
    fn inherited(&self) -> BTreeMap<OsString, OsString> {
        let comes = |name: &str| match self.config {
            GitConfiguration::Ours => {
                let name = name.to_ascii_uppercase();
                !TO_FETCH.iter().any(|start| name.starts_with(start))
            }
            GitConfiguration::User => {
                let mut tying = OF_ONE_REPOSITORY.iter();
                !tying.any(|tied| platform::is_same_name(tied, name))
            }
        };
        let inherited = self.inherited.iter().filter(|(name, _)| comes(name));
        inherited
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// Whether the user configures the ssh command.
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
            GitConfiguration::Ours => {
                command = command
                    .env("GIT_CONFIG_NOSYSTEM", "1")
                    .env("GIT_CONFIG_GLOBAL", "/dev/null")
                    .env("GIT_ATTR_NOSYSTEM", "1")
                    .env("GIT_NO_REPLACE_OBJECTS", "1")
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
                        // Its repositories do not outlive the run.
                        "-c",
                        "core.fsync=none",
                    ])
                    .args(platform::git_settings().iter().copied());
            }
            GitConfiguration::User if self.chooses_ssh() => {}
            // A prompt for a passphrase would wait forever.
            GitConfiguration::User => {
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

/// Keeps glibc from growing and shrinking the heap for each loose object.
fn with_steady_heap(command: QuickCommand) -> QuickCommand {
    command
        .env("MALLOC_TOP_PAD_", "16777216")
        .env("MALLOC_TRIM_THRESHOLD_", "67108864")
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
