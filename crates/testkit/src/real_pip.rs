//! A pip that installs real CLIs from the directory of them, so that Proctor's own installing is tested
//! and nothing is downloaded.

use std::os::unix::fs::PermissionsExt;

use camino::Utf8PathBuf;

use crate::context::TestContext;
use crate::real_agent::{CLIS, missing};

/// A CLI that the pip of a context can install.
#[derive(Debug)]
pub struct PipCli {
    /// Its version.
    pub version: String,
    /// The version of Python that its compiled modules are for, such as `3.11`.
    pub python: String,
    /// The folder of its modules.
    pub modules: Utf8PathBuf,
}

impl TestContext {
    /// Puts a Python onto the PATH whose pip installs the CLI of the folder `<program>-<version>` of
    /// `PROCTOR_TEST_CLIS` from there. It keeps count in `pip.log`. `None` if it is not there; under
    /// `CI` the test fails then.
    pub fn install_pip(&self, program: &str) -> Option<PipCli> {
        let found = find(program);
        let Some((folder, cli)) = found else {
            missing(program);
            return None;
        };
        let site = &cli.modules;
        let log = self.root().join("pip.log");
        let script = format!(
            r#"#!/bin/sh
if [ "$1" = --version ]; then echo "Python {python}.0"; exit; fi
[ "$1 $2 $3 $4" = "-m pip install --target" ] || exit 9
target=$5
for wanted; do :; done
echo "$wanted" >> '{log}'
mkdir -p "$target"
cp -al '{site}/.' "$target/" 2>/dev/null || cp -a '{site}/.' "$target/"
mkdir -p "$target/bin"
cp -L '{folder}/bin/{program}' "$target/bin/"
"#,
            python = cli.python
        );
        let path = self.bin().join(format!("python{}", cli.python));
        fs_err::write(&path, script).expect("the script");
        let executable = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(&path, executable).expect("the mode of the script");
        Some(cli)
    }
}

/// The folder of a CLI, its version, and its Python.
fn find(program: &str) -> Option<(Utf8PathBuf, PipCli)> {
    let clis = Utf8PathBuf::from(std::env::var(CLIS).ok()?);
    let entries = clis.read_dir_utf8().ok()?.flatten();
    let mut found = entries.filter_map(|entry| {
        let version = entry.file_name().strip_prefix(program)?.strip_prefix('-')?;
        let lib = entry.path().join("lib").read_dir_utf8().ok()?.flatten();
        let mut pythons =
            lib.filter_map(|it| Some(it.file_name().strip_prefix("python")?.to_owned()));
        let python = pythons.next()?;
        let modules = format!("lib/python{python}/site-packages");
        let cli = PipCli {
            version: version.to_owned(),
            python,
            modules: entry.path().join(modules),
        };
        Some((entry.path().to_owned(), cli))
    });
    found.next()
}
