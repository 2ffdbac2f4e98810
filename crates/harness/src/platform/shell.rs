//! The shell that runs a command which is written as a line of text: `sh` wherever there is one, so that a test case
//! means the same on every system, and `cmd.exe` on a Windows without.

use camino::{Utf8Path, Utf8PathBuf};

use crate::host::Host;

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    /// That of Unix.
    Sh,
    /// That of Windows.
    Cmd,
}

/// The one of this machine.
pub(crate) fn shell(host: &Host) -> Shell {
    if cfg!(windows) && sh(host).is_none() {
        Shell::Cmd
    } else {
        Shell::Sh
    }
}

/// Where `sh` is. Git for Windows brings one along, but puts only a folder with git itself on PATH. That one comes
/// first: started from there it puts Git's own folders in front of PATH, so that its `find` and `sort` are those of
/// Unix. Other ones on PATH may not.
pub(crate) fn sh(host: &Host) -> Option<Utf8PathBuf> {
    let of_git = || beside_git(&host.find_program("git")?);
    let first = if cfg!(windows) { of_git() } else { None };
    first.or_else(|| host.find_program("sh"))
}

/// The `sh` of the folder that git is installed in, of which it may be one or two folders below.
fn beside_git(git: &Utf8Path) -> Option<Utf8PathBuf> {
    git.ancestors()
        .skip(2)
        .take(2)
        .map(|folder| folder.join("bin").join("sh.exe"))
        .find(|sh| sh.is_file())
}

impl Shell {
    /// The command `sh -c TEXT` as a script for this shell; `None` when it is run as it is. A script, because
    /// `cmd.exe` has no rules by which any text could be an argument. The script has another `cmd.exe` run the lines
    /// one after the other: within the script itself, the first that starts a script, such as npm's, would be the last.
    pub(crate) fn script(self, argv: &[String]) -> Option<String> {
        match (self, argv) {
            (Shell::Cmd, [sh, option, text]) if sh == "sh" && option == "-c" => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                let text = quoted(&lines.collect::<Vec<_>>().join(" & "));
                // Texts are UTF-8.
                Some(format!(
                    "@echo off\r\nchcp 65001 >nul\r\ncmd /d /s /c \"{text}\"\r\n"
                ))
            }
            _ => None,
        }
    }
}

/// What stands between the quotes of a line in a script, so that `cmd.exe` passes `text` on as it is. A quote within it
/// ends and begins what is quoted.
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
    fn only_a_line_of_text_depends_on_the_shell() {
        let words = |all: &[&str]| {
            let words = all.iter().map(|word| (*word).to_owned());
            words.collect::<Vec<_>>()
        };
        let text = words(&["sh", "-c", "npm test && echo \"done\"\nexit /b 3"]);
        assert_eq!(Shell::Sh.script(&text), None);
        let script = "@echo off\r\nchcp 65001 >nul\r\n\
            cmd /d /s /c \"npm test && echo \"done\" & exit /b 3\"\r\n";
        assert_eq!(Shell::Cmd.script(&text).as_deref(), Some(script));
        assert_eq!(Shell::Cmd.script(&words(&["npm", "test"])), None);
        assert_eq!(Shell::Cmd.script(&words(&["sh", "-c", "$0", "a"])), None);
    }

    #[test]
    fn lines_are_run_one_after_the_other_and_empty_ones_left_out() {
        let argv = ["sh", "-c", "npm ci\r\n\n  npm test\n"].map(str::to_owned);
        let script = Shell::Cmd.script(&argv).unwrap();
        assert!(script.ends_with("\ncmd /d /s /c \"npm ci & npm test\"\r\n"));
    }

    #[test]
    fn a_text_is_passed_on_as_it_is() {
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
    fn the_shell_of_git_is_found_wherever_git_is() {
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
