//! The shell that runs a command which is written as a line of text: `sh` wherever there is one, so that a test case
//! means the same on every system, and `cmd.exe` on a Windows without.

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
    if cfg!(windows) && host.find_program("sh").is_none() {
        Shell::Cmd
    } else {
        Shell::Sh
    }
}

impl Shell {
    /// The command `sh -c TEXT` as a script for this shell; `None` when it is run as it is. A script, because
    /// `cmd.exe` has no rules by which any text could be an argument.
    pub(crate) fn script(self, argv: &[String]) -> Option<String> {
        match (self, argv) {
            (Shell::Cmd, [sh, option, text]) if sh == "sh" && option == "-c" => {
                let lines: Vec<&str> = text.lines().collect();
                Some(format!("@echo off\r\n{}\r\n", lines.join("\r\n")))
            }
            _ => None,
        }
    }
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
        let script = "@echo off\r\nnpm test && echo \"done\"\r\nexit /b 3\r\n";
        assert_eq!(Shell::Cmd.script(&text).as_deref(), Some(script));
        assert_eq!(Shell::Cmd.script(&words(&["npm", "test"])), None);
        assert_eq!(Shell::Cmd.script(&words(&["sh", "-c", "$0", "a"])), None);
    }
}
