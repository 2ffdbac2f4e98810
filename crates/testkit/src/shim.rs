//! Agents as npm installs them on Windows: a batch file that starts Node with the agent's script.

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::context::{TestContext, place};

/// A shim as npm writes it, with the program's name for `AGENT`.
const SHIM: &str = r#"@ECHO off
GOTO start
:find_dp0
SET dp0=%~dp0
EXIT /b
:start
SETLOCAL
CALL :find_dp0

IF EXIST "%dp0%\node.exe" (
  SET "_prog=%dp0%\node.exe"
) ELSE (
  SET "_prog=node"
  SET PATHEXT=%PATHEXT:;.JS;=;%
)

endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%_prog%"  "%dp0%\node_modules\AGENT\cli.js" %*
"#;

impl TestContext {
    /// Puts a fake agent on the path as npm would install it on Windows: `<name>.cmd` starts a `node.exe`
    /// beside it, which is the fake agent, with `node_modules\<name>\cli.js` as its first argument.
    #[track_caller]
    pub fn install_fake_shim(&self, name: &str, script: &Value) -> Utf8PathBuf {
        if let Err(error) = crate::fake::FakeScript::parse(script.clone()) {
            panic!("the script of {name}: {error}");
        }
        let bin = self.bin();
        let package = bin.join("node_modules").join(name);
        fs_err::create_dir_all(&package).expect("the folder of the package");
        fs_err::write(package.join("cli.js"), "").expect("the agent's script");
        if !bin.join("node.exe").exists() {
            place(&self.fake_agent(), &bin.join("node.exe"));
        }
        let file = bin.join("node.script.json");
        fs_err::write(file, script.to_string()).expect("the script");
        let shim = bin.join(format!("{name}.cmd"));
        let text = SHIM.replace("AGENT", name).replace('\n', "\r\n");
        fs_err::write(&shim, text).expect("the shim");
        shim
    }
}
