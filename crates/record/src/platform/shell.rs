//! The shell for commands that are one line of text: `sh` if there is one, so that a test case
//! means the same on every system, otherwise `cmd.exe` on Windows.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use super::search::environment_name;

/// The maximum length of a line for `cmd.exe`, in UTF-16 units. It truncates a longer line and runs
/// the rest.
const LONGEST_LINE: usize = 8_191;

/// With this variable, Windows does not search for programs in the working directory of a command.
const NOT_HERE: &str = "NoDefaultCurrentDirectoryInExePath";

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// The Unix shell.
    Sh,
    /// The Windows shell.
    Cmd,
}

/// The path of `sh`. Git for Windows contains one, but only the directory of git itself is on PATH.
/// It is preferred: it adds Git's own directories to PATH, so that `find` and `sort` are the Unix
/// ones. Others on PATH may not.
pub fn find_sh(find_program: impl Fn(&str) -> Option<Utf8PathBuf>) -> Option<Utf8PathBuf> {
    let of_git = || beside_git(&find_program("git")?);
    let first = if cfg!(windows) { of_git() } else { None };
    first.or_else(|| find_program("sh"))
}

/// Makes programs of a command come from PATH only. Windows would search the working directory
/// first, which contains the agent's work, so that a `node.bat` there would replace node.
pub fn look_in_path_only(env: &mut BTreeMap<String, String>) {
    if cfg!(windows) {
        let name = environment_name(env, NOT_HERE);
        env.entry(name).or_insert_with(|| "1".to_owned());
    }
}

/// A command that is too long for a line of a script.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "the command has {length} UTF-16 units, but `cmd.exe` allows {LONGEST_LINE}: move it to a script, or install Git for Windows, whose `sh` takes more"
)]
pub struct LineTooLong {
    length: usize,
}

/// The `sh` of git's installation directory, one or two levels above git.
fn beside_git(git: &Utf8Path) -> Option<Utf8PathBuf> {
    git.ancestors()
        .skip(2)
        .take(2)
        .map(|folder| folder.join("bin").join("sh.exe"))
        .find(|sh| sh.is_file())
}

impl Shell {
    /// The command `sh -c TEXT` as a script for this shell; `None` if it runs unchanged. It is a
    /// script because `cmd.exe` cannot quote arbitrary arguments. The script runs the lines in
    /// another `cmd.exe`: otherwise the first line that starts a script, such as npm's, would be
    /// the last.
    ///
    /// Windows programs are given by full path, because the script runs among the agent's files,
    /// which may have the same names.
    pub fn script(self, argv: &[String]) -> Result<Option<String>, LineTooLong> {
        let (Shell::Cmd, [sh, option, text]) = (self, argv) else {
            return Ok(None);
        };
        if sh != "sh" || option != "-c" {
            return Ok(None);
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let text = quoted(&lines.collect::<Vec<_>>().join(" & "));
        let line = format!("{} /d /s /c \"{text}\"", of_system("cmd.exe"));
        let length = line.encode_utf16().count();
        if length > LONGEST_LINE {
            return Err(LineTooLong { length });
        }
        // Scripts are UTF-8.
        let pages = of_system("chcp.com");
        Ok(Some(format!(
            "@echo off\r\n{pages} 65001 >nul\r\n{line}\r\n"
        )))
    }
}

/// The path of a Windows program in a script.
fn of_system(program: &str) -> String {
    format!(r#""%SystemRoot%\System32\{program}""#)
}

/// The quoted form of `text` in a script, so that `cmd.exe` passes it unchanged. A quote within it
/// closes and reopens the quoting.
fn quoted(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut is_quoted = true;
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '%' => made.push('%'),
            '&' | '|' | '<' | '>' | '^' | '(' | ')' if !is_quoted => made.push('^'),
            _ => {}
        }
        made.push(c);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shell_commands_become_scripts() {
        let words = |all: &[&str]| {
            let words = all.iter().map(|word| (*word).to_owned());
            words.collect::<Vec<_>>()
        };
        let text = words(&["sh", "-c", "npm test && echo \"done\"\nexit /b 3"]);
        assert_eq!(Shell::Sh.script(&text), Ok(None));
        let script = "@echo off\r\n\"%SystemRoot%\\System32\\chcp.com\" 65001 >nul\r\n\
            \"%SystemRoot%\\System32\\cmd.exe\" /d /s /c \"npm test && echo \"done\" & exit /b 3\"\r\n";
        let made = Shell::Cmd.script(&text).unwrap();
        assert_eq!(made.as_deref(), Some(script));
        for argv in [&["npm", "test"][..], &["sh", "-c", "$0", "a"]] {
            assert_eq!(Shell::Cmd.script(&words(argv)), Ok(None));
        }
    }

    #[test]
    fn command_that_is_too_long_is_refused() {
        let script = |count| {
            let argv = ["sh", "-c", &"x".repeat(count)].map(str::to_owned);
            Shell::Cmd.script(&argv)
        };
        let around = r#""%SystemRoot%\System32\cmd.exe" /d /s /c """#.len();
        assert!(script(LONGEST_LINE - around).is_ok());
        let error = script(LONGEST_LINE - around + 1).unwrap_err();
        assert!(error.to_string().contains("8192 UTF-16"), "{error}");
    }

    #[test]
    fn programs_are_searched_in_path_only() {
        let mut env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        look_in_path_only(&mut env);
        assert_eq!(env.contains_key(NOT_HERE), cfg!(windows));
        assert_eq!(env["A"], "1");
    }

    #[test]
    fn lines_run_in_order_without_empty_ones() {
        let argv = ["sh", "-c", "npm ci\r\n\n  npm test\n"].map(str::to_owned);
        let script = Shell::Cmd.script(&argv).unwrap().unwrap();
        assert!(script.ends_with("cmd.exe\" /d /s /c \"npm ci & npm test\"\r\n"));
    }

    #[test]
    fn text_is_quoted_unchanged() {
        for (text, expect) in [
            ("npm test", "npm test"),
            ("a & b | c > d ^& (e)", "a & b | c > d ^& (e)"),
            ("echo \"a & b\" > c", "echo \"a ^& b\" > c"),
            (
                "\"x|y\" && \"<(^)>\" || z",
                "\"x^|y\" && \"^<^(^^^)^>\" || z",
            ),
            ("echo %PATH% \"100%\"", "echo %%PATH%% \"100%%\""),
            ("odd \" & end", "odd \" ^& end"),
        ] {
            assert_eq!(quoted(text), expect);
        }
    }

    #[test]
    fn shell_of_git_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let git = Utf8Path::from_path(dir.path()).unwrap().join("Git");
        for folder in ["bin", "cmd", "mingw64/bin"] {
            std::fs::create_dir_all(git.join(folder)).unwrap();
        }
        for place in ["cmd/git.exe", "mingw64/bin/git.exe", "bin/git.exe"] {
            assert_eq!(beside_git(&git.join(place)), None);
        }
        let sh = git.join("bin").join("sh.exe");
        std::fs::write(&sh, "").unwrap();
        for place in ["cmd/git.exe", "mingw64/bin/git.exe", "bin/git.exe"] {
            assert_eq!(beside_git(&git.join(place)).as_ref(), Some(&sh));
        }
    }
}
