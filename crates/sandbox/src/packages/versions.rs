//! The published versions of a CLI, from its registry.

use std::time::Duration;

use proctor_process::quick::{self, QuickCommand};
use proctor_record::record::cli::Registry;

use super::{OF_INSTALLERS, PackageError, python, tail};
use crate::host::Host;

/// The timeout of a query.
const LONGEST: Duration = Duration::from_mins(1);

/// The versions of a package, oldest first, without pre-releases.
pub async fn versions(registry: Registry, host: &Host) -> Result<Vec<String>, PackageError> {
    let (command, name, program, args) = match registry {
        Registry::Npm(name) => {
            let npm = host
                .find_program("npm")
                .ok_or_else(|| PackageError::NoNpm {
                    package: name.to_owned(),
                })?;
            let args = vec!["view", name, "versions", "--json"];
            ("npm view", name, npm, args)
        }
        Registry::PyPi { name, .. } => {
            let python = python::usual(host);
            let python = python.ok_or_else(|| PackageError::NothingToRunWith {
                package: name.to_owned(),
            })?;
            let quiet = "--disable-pip-version-check";
            let args = vec!["-m", "pip", "index", "versions", quiet, name];
            ("pip index versions", name, python, args)
        }
    };
    let failed = |message: String| PackageError::Failed {
        command,
        package: name.to_owned(),
        message,
    };
    let query = QuickCommand::new(program)
        .args(args)
        .envs(host.helper_env(&OF_INSTALLERS))
        .cwd(&host.cwd);
    let output = quick::output(query, LONGEST).await;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.success() {
        return Err(failed(tail(&output.stderr)));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let versions = match registry {
        Registry::Npm(_) => of_npm(&said),
        Registry::PyPi { .. } => of_pip(&said),
    };
    versions.ok_or_else(|| failed(format!("unexpected output: {}", tail(said.as_bytes()))))
}

/// A JSON array of versions, or a single one.
fn of_npm(said: &str) -> Option<Vec<String>> {
    let mut versions: Vec<String> = serde_json::from_str(said)
        .or_else(|_| serde_json::from_str(said).map(|only: String| vec![only]))
        .ok()?;
    versions.retain(|version| !version.contains('-'));
    Some(versions)
}

/// The line `Available versions:`, newest first.
fn of_pip(said: &str) -> Option<Vec<String>> {
    let mut lines = said.lines();
    let list = lines.find_map(|line| line.trim().strip_prefix("Available versions:"))?;
    let versions = list.split(',').map(|version| version.trim().to_owned());
    Some(
        versions
            .rev()
            .filter(|version| !version.is_empty())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_registries_is_read() {
        let npm = of_npm(r#"["1.0.0", "1.1.0-rc.1", "1.1.0"]"#).unwrap();
        assert_eq!(npm, ["1.0.0", "1.1.0"]);
        assert_eq!(of_npm("\"0.1.0\"").unwrap(), ["0.1.0"]);
        let pip =
            "aider-chat (0.86.1)\nAvailable versions: 0.86.1, 0.86.0, 0.85.0\n  INSTALLED: 1\n";
        assert_eq!(of_pip(pip).unwrap(), ["0.85.0", "0.86.0", "0.86.1"]);
        assert_eq!((of_npm("{}"), of_pip("")), (None, None));
    }
}
