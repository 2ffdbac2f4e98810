//! How a judging command ended, and whether the work or the task is the cause. An exit code, a
//! signal, a time or memory limit are results of the work. A command that was not found is tried on
//! the untouched task and on the reference solution.

use proctor_process::{EndReason, Status};
use proctor_sandbox::shell::ShellResult;

use super::Judging;
use crate::config::Reference;

/// Shells add this number to the signal that killed a program.
const SHELLS_SIGNAL: i32 = 128;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It exited with this code.
    Exited(i32),
    /// Its program, or a program that it starts, was not found. This is the shell's exit code for
    /// it.
    NotFound(i32),
    /// A signal ended it, possibly because it ran out of memory.
    Killed(i32),
    /// It exceeded its time limit.
    TimedOut,
}

impl End {
    /// How a command ended; an error if it was interrupted.
    pub(super) fn of(ran: &ShellResult, line: &str) -> Result<End, String> {
        /// Exit codes for "not executable" and "not found" of shells, and of `cmd.exe`. Other
        /// platforms have no exit code that high.
        const NOT_FOUND: [i32; 3] = [126, 127, 9009];
        match (ran.exit.ended_by, ran.exit.status) {
            (None, Some(Status::Code(code))) if NOT_FOUND.contains(&code) => {
                Ok(End::NotFound(code))
            }
            (None, Some(Status::Code(code))) => Ok(End::Exited(code)),
            (None, Some(Status::Signal(signal))) => Ok(End::Killed(signal)),
            (Some(EndReason::TimedOut), _) => Ok(End::TimedOut),
            _ => Err(ran.code(line).err().unwrap_or_default()),
        }
    }

    /// The exit code; `None` if there was no exit.
    pub(super) fn code(self) -> Option<i32> {
        match self {
            End::Exited(code) | End::NotFound(code) => Some(code),
            End::Killed(_) | End::TimedOut => None,
        }
    }

    /// Whether its time limit or a signal ended it, or a program that it started, by the shell's
    /// exit code for signals. This is always caused by the work.
    pub(super) fn was_ended(self) -> bool {
        const CRASHES: [i32; 6] = [4, 6, 7, 8, 9, 11];
        match self {
            End::TimedOut | End::Killed(_) => true,
            End::Exited(code) => CRASHES.contains(&(code - SHELLS_SIGNAL)),
            End::NotFound(_) => false,
        }
    }

    /// A message about the end of a command, with the last line of its output.
    pub(super) fn in_words(self, line: &str, last_line: &str) -> String {
        let ended = match self {
            End::Exited(0) => return format!("`{line}` passed"),
            End::Exited(code) => {
                format!("`{line}` {}", proctor_record::outcome::exit_in_words(code))
            }
            End::NotFound(code) => format!("cannot run `{line}` (exit code {code})"),
            End::Killed(signal) => format!("`{line}` was killed by signal {signal}"),
            End::TimedOut => format!("`{line}` exceeded its time limit"),
        };
        match last_line {
            "" => ended,
            last => format!("{ended}: {last}"),
        }
    }
}

/// A tree other than the work on which the same command can run.
#[derive(Clone, Debug)]
pub(super) struct ControlTree {
    /// The name of its files.
    pub(super) name: &'static str,
    /// Its description, for messages.
    pub(super) what: &'static str,
    pub(super) tree: String,
}

impl Judging<'_> {
    /// The control trees: the untouched task, unless it is the tree to judge, and the reference
    /// solution.
    pub(super) async fn controls(&self) -> Vec<ControlTree> {
        let base = self.base();
        let is_other = self.change.tree != base.tree;
        let mut controls: Vec<_> = is_other.then_some(base).into_iter().collect();
        controls.extend(self.reference_control().await);
        controls
    }

    /// The untouched task.
    pub(super) fn base(&self) -> ControlTree {
        ControlTree {
            name: "-base",
            what: "the untouched task",
            tree: self.workspace.base_tree.clone(),
        }
    }

    /// The reference solution, if its files are known without running it.
    pub(super) async fn reference_control(&self) -> Option<ControlTree> {
        let reference = self.reference?;
        if let Reference::Script(_) = reference {
            return None;
        }
        let tree = self.workspace.reference_tree(reference).await.ok()?;
        Some(ControlTree {
            name: "-reference",
            what: "the reference solution",
            tree,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_process::Exit;

    #[test]
    fn end_of_a_command_is_classified() {
        let end = |status, ended_by| {
            let ran = ShellResult {
                exit: Exit {
                    status: Some(status),
                    ended_by,
                },
                last_line: String::new(),
                shell: None,
            };
            End::of(&ran, "x")
        };
        for code in [126, 127, 9009] {
            assert_eq!(end(Status::Code(code), None), Ok(End::NotFound(code)));
        }
        for code in [0, 1, 128, 137, -1] {
            assert_eq!(end(Status::Code(code), None), Ok(End::Exited(code)));
        }
        assert_eq!(end(Status::Signal(9), None), Ok(End::Killed(9)));
        let late = end(Status::Code(127), Some(EndReason::TimedOut));
        assert_eq!(late, Ok(End::TimedOut));
        for (end, was_ended) in [
            (End::Exited(137), true),
            (End::Exited(139), true),
            (End::Exited(1), false),
            (End::Exited(130), false),
            (End::NotFound(127), false),
            (End::Killed(9), true),
            (End::TimedOut, true),
        ] {
            assert_eq!(end.was_ended(), was_ended, "{end:?}");
        }
        let cut = end(Status::Signal(15), Some(EndReason::Cancelled));
        assert_eq!(cut, Err("`x` was interrupted".to_owned()));
    }
}
