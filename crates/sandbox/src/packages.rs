//! Agent CLIs at a configured version: installed once into the user's cache and shared by all
//! trials, read-only. CLIs from npm include their own Node if necessary, independent of a task's
//! image.

mod python;
mod versions;

use std::{
    fmt::{self, Write as _},
    io,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::quick::{self, QuickCommand};
use proctor_record::{
    fs::{dir, open_lock_file},
    platform,
    record::cli::Registry,
};
use tempfile::TempDir;

pub use self::{python::PythonVersion, versions::versions};
use crate::host::Host;

/// The mount point of installed packages in containers.
const INSIDE: &str = "/proctor/cli";
/// The Node for CLIs that are scripts. It runs with glibc 2.28 and later.
const NODE_VERSION: &str = "22.23.3";
/// The variables of npm and pip, whose registries may need credentials.
const OF_INSTALLERS: [&str; 5] = [
    "NPM_",
    "PIP_",
    "PYTHON_",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];
/// The timeout of an installation.
const LONGEST: Duration = Duration::from_mins(10);
/// The maximum length of the quoted output of a failed installation.
const MAX_QUOTED_BYTES: usize = 2000;

/// The mount point of a contestant's package in its container: the agent's, or with 1 that of its
/// fallback.
pub fn inside(who: usize) -> Utf8PathBuf {
    match who {
        0 => INSIDE.into(),
        other => format!("{INSIDE}-{other}").into(),
    }
}

/// A CLI at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The registry.
    pub registry: Registry,
    /// The name in the registry.
    pub name: &'static str,
    /// The program in it.
    pub program: &'static str,
    /// Its version.
    pub version: String,
}

impl fmt::Display for Package {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}@{}", self.name, self.version)
    }
}

/// Why a package is not available.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// There is no cache directory.
    #[error("no cache directory: set XDG_CACHE_HOME or HOME")]
    NoCache,
    /// npm is missing.
    #[error("`npm`, which installs {package}, is not on PATH")]
    NoNpm {
        /// The package.
        package: String,
    },
    /// The required Python for the installation is missing.
    #[error("cannot install {package}: Python {version} with pip is missing on this machine")]
    NoPython {
        /// The package.
        package: String,
        /// The required Python.
        version: PythonVersion,
    },
    /// Python is missing.
    #[error("{package} requires `python3`")]
    NothingToRunWith {
        /// The package.
        package: String,
    },
    /// The installation failed.
    #[error("`{command} {package}` failed: {message}")]
    Failed {
        /// The installer.
        command: &'static str,
        /// The package.
        package: String,
        /// Its output.
        message: String,
    },
    /// The package does not contain the expected program.
    #[error("{package} has no program `{program}`")]
    NoProgram {
        /// The installed package.
        package: String,
        /// The missing program.
        program: &'static str,
    },
    /// The program cannot be installed for the target system.
    #[error(
        "{package} cannot be installed for Linux containers on this system: use an image that has it, or an agent without `version`"
    )]
    NotForContainers {
        /// The package.
        package: String,
    },
    /// The cache is not writable.
    #[error("cannot write to {folder}")]
    Cache {
        /// The folder.
        folder: Utf8PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The target system of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// On this machine.
    Here,
    /// In Linux containers.
    Containers,
}

impl Target {
    /// npm's name of the operating system.
    fn system(self) -> &'static str {
        match (self, std::env::consts::OS) {
            (Target::Containers, _) => "linux",
            (Target::Here, "macos") => "darwin",
            (Target::Here, "windows") => "win32",
            (Target::Here, other) => other,
        }
    }

    /// npm's names of the operating system and the CPU.
    fn platform(self) -> String {
        format!("{}-{}", self.system(), processor())
    }

    /// Whether it differs from this system.
    fn is_elsewhere(self) -> bool {
        self.system() != Target::Here.system()
    }
}

/// A package on this machine.
#[derive(Clone, Debug)]
pub struct InstalledPackage {
    /// Its directory, complete and immutable.
    pub folder: Utf8PathBuf,
    /// The program, relative to the directory.
    pub program: Utf8PathBuf,
}

impl Package {
    /// The directory of the package on this machine.
    fn place(
        &self,
        cache: &Utf8Path,
        python: Option<PythonVersion>,
        target: Target,
    ) -> Utf8PathBuf {
        let mut name = format!("{}@{}", self.name.replace('/', "+"), self.version);
        if let Some(version) = python {
            let _ = write!(name, "+python{version}");
        }
        cache.join("clis").join(target.platform()).join(name)
    }

    /// The program, relative to the directory. On Windows npm creates a startable one.
    fn program_in(&self, target: Target) -> Utf8PathBuf {
        match (self.registry, target.system()) {
            (Registry::Npm(_), "win32") => format!("node_modules/.bin/{}.cmd", self.program).into(),
            (Registry::PyPi { .. }, "win32") => format!("bin/{}.cmd", self.program).into(),
            _ => Utf8Path::new("bin").join(self.program),
        }
    }

    /// Checks whether the package can be installed for the target: npm supports other systems, but
    /// writes files by the rules of this one; pip does not.
    fn check_target(&self, target: Target) -> Result<(), PackageError> {
        let is_npm = matches!(self.registry, Registry::Npm(_));
        if target.is_elsewhere() && (cfg!(windows) || !is_npm) {
            return Err(PackageError::NotForContainers {
                package: self.to_string(),
            });
        }
        Ok(())
    }

    /// The package, installed now if necessary. Other users in this process or another wait for the
    /// same installation. `python` is the interpreter for a package of `PyPI`.
    pub async fn install(
        &self,
        host: &Host,
        python: Option<PythonVersion>,
        target: Target,
    ) -> Result<InstalledPackage, PackageError> {
        self.check_target(target)?;
        let cache = host.cache.as_ref().ok_or(PackageError::NoCache)?;
        let folder = self.place(cache, python, target);
        let installed = InstalledPackage {
            program: self.program_in(target),
            folder: folder.clone(),
        };
        if folder.is_dir() {
            return Ok(installed);
        }
        let place = folder.parent().unwrap_or(cache).to_owned();
        let failed = |source| PackageError::Cache {
            folder: place.clone(),
            source,
        };
        fs::create_dir_all(&place).map_err(failed)?;
        let lock = folder.with_file_name(format!("{}.lock", folder.file_name().unwrap_or("cli")));
        let held = tokio::task::spawn_blocking(move || {
            let file = open_lock_file(&lock)?;
            file.lock()?;
            Ok(file)
        });
        let held = held.await.map_err(io::Error::other).and_then(|held| held);
        let _held = held.map_err(failed)?;
        if folder.is_dir() {
            return Ok(installed);
        }
        let fresh = TempDir::with_prefix_in(".installing-", &place).map_err(failed)?;
        let inside = Utf8Path::from_path(fresh.path()).expect("the parent path is UTF-8");
        match (self.registry, python) {
            (Registry::Npm(_), _) => self.install_into(inside, host, target).await?,
            (Registry::PyPi { with, .. }, Some(python)) => {
                python::install(self, with, python, inside, host).await?;
            }
            (Registry::PyPi { .. }, None) => {
                return Err(PackageError::NothingToRunWith {
                    package: self.to_string(),
                });
            }
        }
        share(inside).map_err(failed)?;
        platform::rename(inside.as_std_path(), folder.as_std_path()).map_err(failed)?;
        Ok(installed)
    }

    async fn install_into(
        &self,
        folder: &Utf8Path,
        host: &Host,
        target: Target,
    ) -> Result<(), PackageError> {
        self.npm(folder, &self.to_string(), host, target).await?;
        if target.system() == "win32" {
            let is_there = folder.join(self.program_in(target)).is_file();
            return is_there
                .then_some(())
                .ok_or_else(|| PackageError::NoProgram {
                    package: self.to_string(),
                    program: self.program,
                });
        }
        let entry = folder.join("node_modules/.bin").join(self.program);
        let no_program = || PackageError::NoProgram {
            package: self.to_string(),
            program: self.program,
        };
        let start = first_bytes(&entry).map_err(|_| no_program())?;
        let failed = |source| PackageError::Cache {
            folder: folder.to_owned(),
            source,
        };
        let bin = folder.join("bin");
        fs::create_dir(&bin).map_err(failed)?;
        let program = bin.join(self.program);
        if !is_node_script(&start) {
            let entry = format!("../node_modules/.bin/{}", self.program);
            return platform::link(entry.as_ref(), program.as_std_path()).map_err(failed);
        }
        let node = format!("node-{}", target.platform());
        self.npm(folder, &format!("{node}@{NODE_VERSION}"), host, target)
            .await?;
        let script = format!(
            "#!/bin/sh\nhere=${{0%/*}}\nexec \"$here/../node_modules/{node}/bin/node\" \"$here/../node_modules/.bin/{}\" \"$@\"\n",
            self.program
        );
        fs::write(&program, script).map_err(failed)
    }

    async fn npm(
        &self,
        folder: &Utf8Path,
        wanted: &str,
        host: &Host,
        target: Target,
    ) -> Result<(), PackageError> {
        let Some(npm) = host.find_program("npm") else {
            return Err(PackageError::NoNpm {
                package: wanted.to_owned(),
            });
        };
        let args = [
            "install",
            "--prefix",
            folder.as_str(),
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            wanted,
        ];
        let elsewhere = [
            "--os=linux",
            &format!("--cpu={}", processor()),
            "--libc=glibc",
            "--force",
        ];
        let elsewhere = elsewhere.into_iter().filter(|_| target.is_elsewhere());
        let command = QuickCommand::new(npm)
            .args(args.into_iter().chain(elsewhere))
            .envs(host.helper_env(&OF_INSTALLERS))
            .cwd(folder);
        let failed = |message: String| PackageError::Failed {
            command: "npm install",
            package: wanted.to_owned(),
            message,
        };
        let output = quick::output(command, LONGEST).await;
        let output = output.map_err(|error| failed(error.to_string()))?;
        if output.success() {
            return Ok(());
        }
        Err(failed(tail(&output.stderr)))
    }
}

/// The end of the output of a failed installation.
fn tail(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said).trim().to_owned();
    let from = said.ceil_char_boundary(said.len().saturating_sub(MAX_QUOTED_BYTES));
    said[from..].to_owned()
}

/// npm's name of the CPU.
fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Whether a file is a script with Node in its first line.
fn is_node_script(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or(start);
    line.starts_with(b"#!") && String::from_utf8_lossy(line).contains("node")
}

fn first_bytes(path: &Utf8Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    let file = fs::File::open(path)?;
    io::Read::read_to_end(&mut io::Read::take(file, 64), &mut start)?;
    Ok(start)
}

/// Makes shared files readable and executable for all users: agents often run as another user.
fn share(folder: &Utf8Path) -> io::Result<()> {
    if !platform::HAS_MODES {
        return Ok(());
    }
    let bin = folder.join("bin");
    for entry in bin.read_dir_utf8()? {
        platform::set_mode(entry?.path().as_std_path(), 0o755)?;
    }
    dir::open_to_all(folder.as_std_path())
}
