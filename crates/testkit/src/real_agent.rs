//! Puts real agent CLIs other than Claude Code on the path of a context. `scripts/test all`
//! installs them; what they would otherwise fetch or unpack for each test is there once for all.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

use camino::{Utf8Path, Utf8PathBuf};

use crate::context::TestContext;

/// Names the directory of real CLIs; nothing is downloaded by a test.
pub(crate) const CLIS: &str = "PROCTOR_TEST_CLIS";

impl TestContext {
    /// Installs the real CLI of this name, as `bin/<program>` in the directory that
    /// `PROCTOR_TEST_CLIS` names. When it is not there the test says so and goes without; under
    /// `CI` it fails.
    pub fn install_real(&self, program: &str) -> bool {
        let clis = std::env::var(CLIS).ok().map(Utf8PathBuf::from);
        let installed = clis.filter(|clis| clis.join("bin").join(program).is_file());
        let Some(clis) = installed else {
            missing(program);
            return false;
        };
        let wrapped = wrap(&clis, program);
        let at = self.bin().join(program);
        symlink(wrapped, &at).expect("a link to the CLI");
        self.share_cache(&clis);
        true
    }

    /// The cache of CLI probes is shared by all tests: a probe takes seconds, and Copilot unpacks
    /// 250 MB.
    fn share_cache(&self, clis: &Utf8Path) {
        let shared = clis.join("cache");
        fs_err::create_dir_all(&shared).expect("the cache of all tests");
        let own = self.root().join("cache/proctor");
        if !own.exists() {
            symlink(&shared, &own).expect("a link to the cache");
        }
    }
}

/// The script that starts a CLI: one for all tests, so that Proctor knows it again.
fn wrap(clis: &Utf8Path, program: &str) -> Utf8PathBuf {
    let folder = clis.join("wrapped");
    let path = folder.join(program);
    let script = wrapper(&clis.join("bin").join(program));
    if fs_err::read_to_string(&path).is_ok_and(|found| found == script) {
        return path;
    }
    fs_err::create_dir_all(&folder).expect("the folder of wrappers");
    // Other tests may do the same at this moment.
    let new = folder.join(format!("{program}.{}", std::process::id()));
    fs_err::write(&new, script).expect("the wrapper");
    let executable = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(&new, executable).expect("the mode of the wrapper");
    fs_err::rename(&new, &path).expect("the wrapper in its place");
    path
}

/// There is no listener on the discard port: connections other than loopback fail.
fn wrapper(program: &Utf8Path) -> String {
    format!(
        r#"#!/bin/sh
for name in HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; do
  export "$name=http://127.0.0.1:9"
done
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
exec '{program}' "$@"
"#
    )
}

pub(crate) fn missing(program: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "{program} is missing: set {CLIS} to a directory and run `scripts/test all`, which installs it there"
    );
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    // Not a reason to fail: the line is only for those who look.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED {test}: no {program} ({CLIS}; `scripts/test all` installs it)"
    );
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_real_cli_gets_out_nowhere_but_to_loopback() {
        let script = wrapper("/usr/bin/env".into());
        let mut command = Command::new("/bin/sh");
        let output = command.args(["-c", &script]).env_clear().output().unwrap();
        let env = String::from_utf8(output.stdout).unwrap();
        for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            let line = format!("{name}=http://127.0.0.1:9\n");
            assert!(env.contains(&line), "{env}");
        }
    }
}
