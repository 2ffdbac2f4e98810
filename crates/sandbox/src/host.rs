//! The machine and the user, as the harness sees them. Only the cli crate reads the environment.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use proctor_process::Supervisor;
use proctor_record::{
    platform::{self, Shell},
    secrets::Secrets,
};

/// The machine and the user at the start of Proctor.
#[derive(Clone, Debug)]
pub struct Host {
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Values that agents must not see.
    pub secrets: Secrets,
    /// The user's HOME.
    pub home: Option<Utf8PathBuf>,
    /// The working directory.
    pub cwd: Utf8PathBuf,
    /// The directory for temporary files.
    pub temp: Utf8PathBuf,
    /// The directory for probes of CLIs and for datasets.
    pub cache: Option<Utf8PathBuf>,
    /// Whether Proctor runs as root.
    pub is_root: bool,
    /// The user and group ids.
    pub ids: (u32, u32),
    /// The name of the machine.
    pub name: String,
    /// The running program: the first process of containers.
    pub binary: Utf8PathBuf,
    /// The supervisor of the processes that we start.
    pub supervisor: Supervisor,
}

/// Variables that agents and evaluators get from the host: PATH, text encoding, network access. No
/// secrets, no settings.
const ALLOWED: &[&str] = &[
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// Variables that helper programs of Proctor get in addition to [`ALLOWED`]: the user's directories
/// and library paths. A name with a trailing underscore is a prefix.
const OF_HELPERS: &[&str] = &[
    "HOME",
    "TMPDIR",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "XDG_",
    "LD_LIBRARY_PATH",
    "NIX_",
];

impl Host {
    /// The directory of datasets from git.
    pub fn datasets(&self) -> Option<Utf8PathBuf> {
        self.cache.as_ref().map(|cache| cache.join("datasets"))
    }

    /// The environment of a helper program of Proctor, such as git, with its `own` variables,
    /// listed as in `OF_HELPERS`. Agents of the same user can read it, so that it has no other
    /// secrets.
    pub fn helper_env(&self, own: &[&str]) -> BTreeMap<String, String> {
        let general = ALLOWED.iter().chain(&platform::OF_WINDOWS);
        let meant: Vec<&str> = general.chain(OF_HELPERS).chain(own).copied().collect();
        let mut env = self.env.clone();
        env.retain(|name, _| meant.iter().any(|meant| stands_for(meant, name)));
        env
    }

    /// The allow-listed environment, with a separate HOME and temporary directory.
    pub fn clean_env(&self, home: &camino::Utf8Path) -> BTreeMap<String, String> {
        let mut env: BTreeMap<String, String> = ALLOWED
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.variable(name)?.to_owned())))
            .collect();
        env.extend(platform::own_environment(&self.env, home));
        env.insert("HOME".to_owned(), home.to_string());
        env.insert("TERM".to_owned(), "xterm-256color".to_owned());
        env
    }

    /// The same host with another environment, in which the variables `listed` are secret.
    #[must_use]
    pub fn with_env(&self, env: BTreeMap<String, String>, listed: &[String]) -> Host {
        Host {
            secrets: Secrets::of(&env, listed),
            env,
            ..self.clone()
        }
    }

    /// The same host with one variable set.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Host {
        let mut host = self.clone();
        let name = platform::environment_name(&host.env, name);
        host.env.insert(name, value.to_owned());
        host
    }

    /// The value of a variable, ignoring case on systems that do.
    pub fn variable(&self, name: &str) -> Option<&str> {
        platform::variable(&self.env, name)
    }

    /// Finds a program on the host's PATH.
    pub fn find_program(&self, name: &str) -> Option<Utf8PathBuf> {
        platform::find_program(&self.env, &self.cwd, name)
    }

    /// The path of `sh`, if this machine has one.
    pub fn sh(&self) -> Option<Utf8PathBuf> {
        platform::find_sh(|name| self.find_program(name))
    }

    /// The shell for commands in text form: `cmd.exe` only on Windows without `sh`.
    pub fn shell(&self) -> Shell {
        if cfg!(windows) && self.sh().is_none() {
            Shell::Cmd
        } else {
            Shell::Sh
        }
    }
}

/// Whether an entry of a list of variables matches a name.
fn stands_for(entry: &str, name: &str) -> bool {
    if entry.ends_with('_') {
        name.to_ascii_uppercase().starts_with(entry)
    } else {
        platform::is_same_name(entry, name)
    }
}
