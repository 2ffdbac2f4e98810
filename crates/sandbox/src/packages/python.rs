//! CLIs from `PyPI`: installed with pip into a directory from which any Python of the same version
//! runs them. They do not include Python: the image, or this machine, must have it.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::quick::{self, QuickCommand};

use super::{LONGEST, OF_INSTALLERS, Package, PackageError, tail};
use crate::host::Host;

/// The folder of the modules.
const SITE: &str = "site";

/// A version of Python, as relevant for compiled modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PythonVersion {
    major: u32,
    minor: u32,
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl PythonVersion {
    /// Parses the output of `python3 --version`.
    pub fn parse(said: &str) -> Option<PythonVersion> {
        let version = said.trim().strip_prefix("Python ")?;
        let mut parts = version.split('.').map(|part| part.parse().ok());
        Some(PythonVersion {
            major: parts.next()??,
            minor: parts.next()??,
        })
    }

    /// The version of this machine's `python3`.
    pub async fn here(host: &Host) -> Option<PythonVersion> {
        version_of(&usual(host)?, host).await
    }
}

async fn version_of(python: &Utf8Path, host: &Host) -> Option<PythonVersion> {
    let command = QuickCommand::new(python)
        .args(["--version"])
        .envs(host.helper_env(&[]));
    let output = quick::output(command, proctor_record::record::cli::PROBE_LIMIT)
        .await
        .ok()?;
    PythonVersion::parse(&String::from_utf8_lossy(&output.stdout))
}

/// The default Python of this machine. On Windows its name has no number.
pub(super) fn usual(host: &Host) -> Option<Utf8PathBuf> {
    let named = host.find_program("python3");
    named.or_else(|| host.find_program("python").filter(|_| cfg!(windows)))
}

/// A Python of this version on this machine: packages with compiled parts must be fetched by the
/// same version.
async fn find(version: PythonVersion, host: &Host) -> Option<Utf8PathBuf> {
    if let Some(named) = host.find_program(&format!("python{version}")) {
        return Some(named);
    }
    let usual = usual(host)?;
    (version_of(&usual, host).await == Some(version)).then_some(usual)
}

/// Installs a package and its dependencies for this version of Python.
pub(super) async fn install(
    package: &Package,
    with: &[&str],
    version: PythonVersion,
    folder: &Utf8Path,
    host: &Host,
) -> Result<(), PackageError> {
    let Some(python) = find(version, host).await else {
        return Err(PackageError::NoPython {
            package: package.to_string(),
            version,
        });
    };
    let site = folder.join(SITE);
    let wanted = format!("{}=={}", package.name, package.version);
    let args = ["-m", "pip", "install", "--target", site.as_str()];
    let quiet = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    ];
    let args = args.iter().chain(&quiet).chain(with).copied();
    let command = QuickCommand::new(&python)
        .args(args.chain([wanted.as_str()]))
        .envs(host.helper_env(&OF_INSTALLERS))
        .cwd(folder);
    let failed = |message: String| PackageError::Failed {
        command: "pip install",
        package: wanted.clone(),
        message,
    };
    let output = quick::output(command, LONGEST).await;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.success() {
        return Err(failed(tail(&output.stderr)));
    }
    let made = format!("{}{}", package.program, std::env::consts::EXE_SUFFIX);
    if !site.join("bin").join(made).is_file() {
        return Err(PackageError::NoProgram {
            package: package.to_string(),
            program: package.program,
        });
    }
    let bin = folder.join("bin");
    let written = fs::create_dir(&bin).and_then(|()| {
        if cfg!(windows) {
            fs::write(bin.join("start.py"), windows_starter(package))?;
            let line = format!("@\"{python}\" \"%~dp0start.py\" %*\r\n");
            return fs::write(bin.join(format!("{}.cmd", package.program)), line);
        }
        fs::write(bin.join(package.program), starter(package, version))
    });
    written.map_err(|source| PackageError::Cache {
        folder: folder.to_owned(),
        source,
    })
}

/// The start script. It adds the modules for this program only: a variable would affect the Python
/// of the task, too.
fn starter(package: &Package, version: PythonVersion) -> String {
    let PythonVersion { major, minor } = version;
    let program = package.program;
    format!(
        r#"#!/bin/sh
here=${{0%/*}}
python=$(command -v python{version} || command -v python3) || {{
  echo "{program} needs Python {version}" >&2
  exit 127
}}
exec "$python" -c '
import runpy, site, sys
place = sys.argv[1]
if sys.version_info[:2] != ({major}, {minor}):
    sys.exit("{program} was installed for Python {version}")
sys.path.insert(0, place)
site.addsitedir(place)
sys.argv = [place + "/bin/{program}"] + sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
' "$here/../{SITE}" "$@"
"#
    )
}

/// The same for Windows, where pip's programs are archives for Python.
fn windows_starter(package: &Package) -> String {
    let program = package.program;
    format!(
        r#"import os, runpy, site, sys
place = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "{SITE}")
sys.path.insert(0, place)
site.addsitedir(place)
sys.argv[0] = os.path.join(place, "bin", "{program}.exe")
runpy.run_path(sys.argv[0], run_name="__main__")
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_parsed_to_major_and_minor() {
        let parsed = |said| PythonVersion::parse(said).map(|version| version.to_string());
        assert_eq!(parsed("Python 3.11.2\n").as_deref(), Some("3.11"));
        assert_eq!(parsed("Python 3.13.0rc1").as_deref(), Some("3.13"));
        assert_eq!(parsed("sh: python3: not found"), None);
    }
}
