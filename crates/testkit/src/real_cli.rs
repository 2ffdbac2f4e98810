//! Puts a real agent CLI on the path of a context, so that it can reach nothing but loopback.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};

use crate::context::TestContext;

/// Names the directory of real CLIs; nothing is downloaded by a test.
const CLIS: &str = "PROCTOR_TEST_CLIS";

/// A real CLI on the path of a context.
#[derive(Debug)]
pub struct RealCli {
    /// The program to call.
    pub program: Utf8PathBuf,
}

impl TestContext {
    /// Installs Claude Code as `claude`: `latest` or a version.
    ///
    /// Looks for `claude-code-<version>/node_modules` in the directory that `PROCTOR_TEST_CLIS`
    /// names. When it is not there the test says so and gets none; under `CI` it fails.
    pub fn install_real_claude(&self, version: &str) -> Option<RealCli> {
        let Some(command) = find_claude(version) else {
            missing(version);
            return None;
        };
        let program = self.bin().join("claude");
        fs_err::write(&program, wrapper(&command)).expect("the wrapper");
        let executable = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(&program, executable).expect("the mode of the wrapper");
        Some(RealCli { program })
    }
}

impl TestContext {
    /// The `node_modules` of the real Claude Code of this folder of `clis`; `None` if it is not
    /// there.
    pub fn real_claude_modules(&self, folder: &str) -> Option<Utf8PathBuf> {
        let found = std::env::var(CLIS).ok().map(Utf8PathBuf::from);
        let modules = found.map(|clis| clis.join(format!("claude-code-{folder}/node_modules")));
        let modules = modules.filter(|modules| modules.is_dir());
        if modules.is_none() {
            missing(folder);
        }
        modules
    }

    /// Puts an `npm` onto the PATH that installs the real Claude Code of this folder of `clis`
    /// from there, and the Node of this machine as the one of the registry. It keeps count in
    /// `npm.log`. The version of that Claude Code, or `None` if it is not there.
    pub fn install_npm(&self, folder: &str) -> Option<String> {
        let modules = self.real_claude_modules(folder)?;
        let package = modules.join("@anthropic-ai/claude-code/package.json");
        let package = fs_err::read(package).expect("the package");
        let package: serde_json::Value = serde_json::from_slice(&package).expect("JSON");
        let version = package["version"].as_str().expect("a version").to_owned();
        let program = self.bin().join("npm");
        let mut script = fs_err::read_to_string(&program)
            .unwrap_or_else(|_| "#!/bin/sh\nfor wanted; do :; done\n".to_owned());
        if !script.contains("npm.log") {
            let node = on_path("node").expect("a machine that has these CLIs has Node");
            script = format!(
                "{script}echo \"$wanted\" >> '{}'\ncase $wanted in node-linux-*)\n  mkdir -p \"$3/node_modules/${{wanted%@*}}/bin\"\n  cp -L '{node}' \"$3/node_modules/${{wanted%@*}}/bin/node\" ;;\nesac\n",
                self.root().join("npm.log")
            );
        }
        script = format!(
            "{script}if [ \"$wanted\" = '@anthropic-ai/claude-code@{version}' ]; then cp -a '{modules}' \"$3/\"; fi\n"
        );
        fs_err::write(&program, script).expect("the script");
        let executable = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(&program, executable).expect("the mode of the script");
        Some(version)
    }
}

/// The words that start it.
fn find_claude(version: &str) -> Option<Vec<Utf8PathBuf>> {
    let clis = Utf8PathBuf::from(std::env::var(CLIS).ok()?);
    let packages = clis.join(format!("claude-code-{version}/node_modules/@anthropic-ai"));
    let entries = packages.read_dir_utf8().ok()?.flatten();
    let native = entries.map(|entry| entry.path().join("claude"));
    if let Some(native) = native.into_iter().find(|path| path.is_file()) {
        return Some(vec![native]);
    }
    let script = packages.join("claude-code/cli.js");
    let node = on_path("node")?;
    script.is_file().then(|| vec![node, script])
}

fn on_path(name: &str) -> Option<Utf8PathBuf> {
    let path = std::env::var("PATH").ok()?;
    let places = path.split(':').map(|dir| Utf8Path::new(dir).join(name));
    places.into_iter().find(|place| place.is_file())
}

/// A shell script that becomes the CLI. It holds what keeps the CLI hermetic, because the harness
/// under test decides which variables an agent sees.
fn wrapper(command: &[Utf8PathBuf]) -> String {
    let words: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
    format!(
        r#"#!/bin/sh
# There is no listener on the discard port: without a model there is no response and no network
# access.
: "${{ANTHROPIC_BASE_URL:=http://127.0.0.1:9}}"
case "$ANTHROPIC_BASE_URL" in
  *@*) loopback=no ;;
  http://127.0.0.1:*) loopback=yes ;;
  *) loopback=no ;;
esac
if [ $loopback = no ]; then
  echo "refusing to talk to $ANTHROPIC_BASE_URL in a test" >&2
  exit 98
fi
export ANTHROPIC_BASE_URL
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1
export DISABLE_AUTOUPDATER=1 DISABLE_ERROR_REPORTING=1
# Tests often run as root, which the CLI allows only with a variable.
export IS_SANDBOX=1
exec {} "$@"
"#,
        words.join(" ")
    )
}

fn missing(version: &str) {
    let install = format!(
        "npm install --prefix \"${CLIS}/claude-code-{version}\" @anthropic-ai/claude-code@{version}"
    );
    assert!(
        std::env::var_os("CI").is_none(),
        "Claude Code {version} is missing: set {CLIS} to a directory and run `{install}`"
    );
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    let mut stderr = std::io::stderr();
    // Not a reason to fail: the line is only for those who look.
    let _ = writeln!(
        stderr,
        "SKIPPED {test}: no Claude Code {version} ({CLIS}; `{install}`)"
    );
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(base_url: Option<&str>) -> (Option<i32>, String) {
        let script = wrapper(&["/usr/bin/env".into()]);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).env_clear();
        command.envs(base_url.map(|url| ("ANTHROPIC_BASE_URL", url)));
        let output = command.output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), stdout)
    }

    #[test]
    fn a_real_cli_never_starts_towards_another_host() {
        for url in [
            "https://api.example.com",
            "http://127.0.0.1.example.com",
            "http://127.0.0.1:80@example.com",
        ] {
            assert_eq!(run(Some(url)), (Some(98), String::new()));
        }
    }

    #[test]
    fn a_real_cli_is_pointed_at_loopback_with_telemetry_off() {
        let (code, env) = run(Some("http://127.0.0.1:1234"));
        assert_eq!(code, Some(0));
        assert!(
            env.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:1234\n"),
            "{env}"
        );
        assert!(env.contains("DISABLE_TELEMETRY=1\n"), "{env}");
        let (_, env) = run(None);
        assert!(
            env.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:9\n"),
            "{env}"
        );
    }
}
