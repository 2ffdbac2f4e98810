//! The small `.cmd` files that npm and similar tools put into `PATH`. The program that they start
//! is parsed from them, so that no shell is needed. Other files are left to `cmd.exe`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::environment::Variables;
use super::find::find;

/// The most bytes of a shim; they are some hundred long.
const LONGEST: u64 = 16 * 1024;

/// The command of a shim: a program, and its leading arguments.
#[derive(Debug, PartialEq)]
pub(super) struct ShimTarget {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
}

/// The command of the shim at `path`, if it is one.
pub(super) fn target(path: &Path, env: &Variables, cwd: &Path) -> Option<ShimTarget> {
    if path.metadata().ok()?.len() > LONGEST {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let folder = path.parent()?;
    starts(&text)?
        .iter()
        .find_map(|words| resolve(words, &text, folder, env, cwd))
}

/// The words of the lines that start something; `None` if any other line does more than to find out what to start.
fn starts(text: &str) -> Option<Vec<Vec<String>>> {
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_start_matches(['@', ' ', '\t']).trim_end())
        .collect();
    let passes_on = |line: &&str| line.ends_with("%*");
    if !lines.iter().all(|line| passes_on(line) || is_known(line)) {
        return None;
    }
    // One line, or one for the interpreter beside the shim, else one for that of `PATH`.
    let places: Vec<usize> = (0..lines.len())
        .filter(|place| passes_on(&lines[*place]))
        .collect();
    let is_either = match places[..] {
        [_] => true,
        [first, second] => lines[first..second]
            .iter()
            .any(|line| line.eq_ignore_ascii_case(ELSE)),
        _ => false,
    };
    if !is_either {
        return None;
    }
    places
        .into_iter()
        .map(|place| start(lines[place]))
        .collect()
}

const ELSE: &str = ") else (";

/// Other lines that npm always writes.
const KNOWN: [&str; 11] = [
    "",
    "echo off",
    "goto start",
    ":find_dp0",
    "set dp0=%~dp0",
    "exit /b",
    ":start",
    "setlocal",
    "call :find_dp0",
    ")",
    "set pathext=%pathext:;.js;=;%",
];

/// The prefix that npm writes before a command, so that the script ends with it.
const LAST: &str = "endlocal & goto #_undefined_# 2>nul || title %comspec% & ";

/// Whether npm writes such a line, which starts nothing.
fn is_known(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let is_within = |before: &str, after: &str| {
        let inner = line
            .strip_prefix(before)
            .and_then(|line| line.strip_suffix(after));
        inner.is_some_and(|inner| !inner.contains('"'))
    };
    KNOWN.contains(&&line[..])
        || line == ELSE
        || is_within(r#"if exist "%dp0%\"#, r#"" ("#)
        || is_within(r#"if exist "%~dp0\"#, r#"" ("#)
        || is_within(r#"set "_prog="#, r#"""#)
}

/// The words of a line that passes all arguments on, without them.
fn start(line: &str) -> Option<Vec<String>> {
    let line = line.strip_suffix("%*")?;
    match line.split_at_checked(LAST.len()) {
        Some((before, command)) if before.eq_ignore_ascii_case(LAST) => words(command),
        _ => words(line),
    }
}

/// The words of a command; `None` if a shell has more to do than to split it.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = command.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        if word.contains(['^', '&', '|', '<', '>', '(', ')', '"']) || word.is_empty() {
            return None;
        }
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Some(words)
}

fn resolve(
    words: &[String],
    text: &str,
    folder: &Path,
    env: &Variables,
    cwd: &Path,
) -> Option<ShimTarget> {
    let (program, args) = words.split_first()?;
    let program = if program == "%_prog%" {
        let beside = folder.join("node.exe");
        if text.contains(r#"SET "_prog=%dp0%\node.exe""#) && beside.is_file() {
            beside
        } else {
            find(OsStr::new(interpreter(text)?), env, cwd).ok()?
        }
    } else {
        find(&expanded(program, folder)?, env, cwd).ok()?
    };
    // An interpreter that is a script itself would need the shell after all.
    let extension = program.extension()?.to_str()?.to_ascii_lowercase();
    // Shells do not take arguments as other programs do.
    let stem = program.file_stem()?.to_str()?.to_ascii_lowercase();
    if ["cmd", "powershell", "pwsh"].contains(&&stem[..]) {
        return None;
    }
    let args: Option<Vec<OsString>> = args.iter().map(|word| expanded(word, folder)).collect();
    (extension == "exe").then_some(ShimTarget {
        program,
        args: args?,
    })
}

/// The name of the interpreter that is looked up in `PATH`.
fn interpreter(text: &str) -> Option<&str> {
    let mut values = text.lines().filter_map(|line| {
        let value = line
            .trim()
            .strip_prefix(r#"SET "_prog="#)?
            .strip_suffix('"')?;
        (!value.contains('%')).then_some(value)
    });
    values.next_back()
}

/// A word with the folder of the shim in it, which must be there then; `None` if it holds any other variable.
fn expanded(word: &str, folder: &Path) -> Option<OsString> {
    let Some(rest) = word
        .strip_prefix("%dp0%")
        .or_else(|| word.strip_prefix("%~dp0"))
    else {
        return (!word.contains('%')).then(|| word.into());
    };
    let path = folder.join(rest.trim_start_matches(['\\', '/']));
    (!rest.contains('%') && path.is_file()).then(|| path.into_os_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NPM: &str = r#"@ECHO off
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

endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%_prog%" --flag "%dp0%\node_modules\tool\cli.js" %*
"#;

    const NATIVE: &str = r#"@ECHO off
SETLOCAL
CALL :find_dp0
endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%dp0%\node_modules\tool\tool.exe"   %*
"#;

    const OLD: &str = r#"@IF EXIST "%~dp0\node.exe" (
  "%~dp0\node.exe"  "%~dp0\node_modules\tool\cli.js" %*
) ELSE (
  @SETLOCAL
  @SET PATHEXT=%PATHEXT:;.JS;=;%
  node  "%~dp0\node_modules\tool\cli.js" %*
)"#;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new(shim: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let tool = folder.path().join(r"node_modules\tool");
            fs::create_dir_all(&tool).unwrap();
            fs::create_dir(folder.path().join("bin")).unwrap();
            for file in [
                r"node_modules\tool\cli.js",
                r"node_modules\tool\tool.exe",
                r"bin\node.exe",
                r"bin\python.exe",
                r"bin\cmd.exe",
                r"bin\PowerShell.exe",
                "activate.bat",
                "real.bat",
            ] {
                fs::write(folder.path().join(file), "").unwrap();
            }
            fs::write(folder.path().join("tool.cmd"), shim).unwrap();
            Self(folder)
        }

        /// Program and arguments, relative to the folder.
        fn target(&self) -> Option<(PathBuf, Vec<OsString>)> {
            let at = self.0.path();
            let env = Variables::new([("PATH".into(), at.join("bin").into())]);
            let target = target(&at.join("tool.cmd"), &env, at)?;
            let short = |path: &Path| path.strip_prefix(at).unwrap_or(path).to_owned();
            let args = target.args.iter().map(|arg| short(Path::new(arg)).into());
            Some((short(&target.program), args.collect()))
        }
    }

    #[test]
    fn the_shims_of_npm_are_seen_through() {
        let script = OsString::from(r"node_modules\tool\cli.js");
        let folder = Folder::new(NPM);
        let args = vec!["--flag".into(), script.clone()];
        assert_eq!(
            folder.target(),
            Some((r"bin\node.exe".into(), args.clone()))
        );
        fs::write(folder.0.path().join("node.exe"), "").unwrap();
        assert_eq!(folder.target(), Some(("node.exe".into(), args)));

        let folder = Folder::new(OLD);
        assert_eq!(
            folder.target(),
            Some((r"bin\node.exe".into(), vec![script.clone()]))
        );
        fs::write(folder.0.path().join("node.exe"), "").unwrap();
        assert_eq!(folder.target(), Some(("node.exe".into(), vec![script])));

        let short = Folder::new("@python one %*\r\n").target();
        assert_eq!(short, Some((r"bin\python.exe".into(), vec!["one".into()])));

        let native = Folder::new(NATIVE).target();
        assert_eq!(native, Some((r"node_modules\tool\tool.exe".into(), vec![])));
    }

    #[test]
    fn any_other_script_is_left_to_the_shell() {
        for script in [
            "@echo off\r\necho %*\r\n",
            "@echo hello\r\n",
            "@\"%OTHER%\\x.exe\" %*\r\n",
            "@\"%~dp0\\missing.exe\" %*\r\n",
            "@node \"%~dp0\\%1.js\" %*\r\n",
            "@node x > log.txt %*\r\n",
            "",
            // More than a start, which would be lost.
            "@echo off\r\ncall activate.bat\r\nset MODE=x\r\npython %*\r\n",
            "@echo off\r\ncall \"%~dp0\\activate.bat\"\r\npython %*\r\n",
            "@set MODE=x\r\n@python %*\r\n",
            "@set MODE=x & python %*\r\n",
            "@if exist \"%~dp0\\activate.bat\" call \"%~dp0\\activate.bat\"\r\n@python %*\r\n",
            "@set \"_prog=node\" & set \"MODE=x\"\r\n@python %*\r\n",
            "@python one %*\r\n@python two %*\r\n",
            "@python %*\r\n@exit /b %ERRORLEVEL%\r\n",
            // Shells, which take their arguments in other ways.
            "@cmd /c \"%~dp0\\real.bat\" %*\r\n",
            "@CMD.EXE /c \"%~dp0\\real.bat\" %*\r\n",
            "@powershell -File x.ps1 %*\r\n",
        ] {
            assert_eq!(Folder::new(script).target(), None, "{script}");
        }
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_left_to_the_shell() {
        let folder = Folder::new(NPM);
        fs::remove_file(folder.0.path().join(r"bin\node.exe")).unwrap();
        assert_eq!(folder.target(), None);
    }
}
