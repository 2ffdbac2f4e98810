//! The names under which the program can be started, and the differences that each of them makes.
//! All differences are here: as `yb` or `youbencha` the program behaves like youBencha, as
//! `thunderdome` like Thunderdome. Commands ask for a property, never for a name.

mod youbencha;

use std::ffi::OsStr;

use clap::CommandFactory;
use proctor_harness::config::RelativeTo;

use crate::{
    args::{Args, Command},
    error::Exit,
};

pub use youbencha::{AGENT_FILES, completed, evaluators, reached_end};

/// One name of the program.
#[derive(Debug)]
pub struct Personality {
    /// The name in help and messages.
    pub program: &'static str,
    /// Suites that are found without being named, in order of precedence.
    pub suites: [&'static str; 2],
    /// The content of `list`.
    pub listing: Listing,
    /// The directory of runs; that of the project when unset.
    pub runs_dir: Option<&'static str>,
    /// The directory of evaluations; that of runs when unset.
    pub evals_dir: Option<&'static str>,
    /// Where relative paths of directories and hooks begin.
    pub relative_to: RelativeTo,
    /// Whether reports, files and exit codes are Proctor's or youBencha's.
    pub style: Style,
}

/// The content of `list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The suite, and the types of agents and evaluators.
    Everything,
    /// The suite, which has to be there.
    Suite,
    /// The evaluators with their metrics.
    Evaluators,
}

/// The conventions for reports, files and exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Proctor's.
    Proctor,
    /// youBencha's.
    YouBencha,
}

const PROCTOR: Personality = Personality {
    program: "proctor",
    suites: ["proctor.yaml", "thunderdome.yaml"],
    listing: Listing::Everything,
    runs_dir: None,
    evals_dir: None,
    relative_to: RelativeTo::File,
    style: Style::Proctor,
};

const YOUBENCHA: Personality = Personality {
    program: "youbencha",
    listing: Listing::Evaluators,
    runs_dir: Some(".youbencha-workspace"),
    evals_dir: Some(".youbencha-eval"),
    relative_to: RelativeTo::WorkingDirectory,
    style: Style::YouBencha,
    ..PROCTOR
};

static ALL: [Personality; 4] = [
    PROCTOR,
    Personality {
        program: "thunderdome",
        suites: ["thunderdome.yaml", "proctor.yaml"],
        listing: Listing::Suite,
        ..PROCTOR
    },
    YOUBENCHA,
    Personality {
        program: "yb",
        ..YOUBENCHA
    },
];

impl Personality {
    /// The personality of the name that this process was started under.
    pub fn current() -> &'static Personality {
        let name = std::env::args_os().next().unwrap_or_default();
        let name = std::path::Path::new(&name).file_stem();
        Personality::named(name.unwrap_or_default())
    }

    fn named(name: &OsStr) -> &'static Personality {
        let found = ALL.iter().find(|personality| name == personality.program);
        found.unwrap_or(&ALL[0])
    }

    /// The command line of this name.
    pub fn command(&self) -> clap::Command {
        let command = Args::command();
        match self.style {
            Style::Proctor => command,
            Style::YouBencha => youbencha::command(command, self.program),
        }
    }

    /// A text with commands of `proctor`, as commands of this name.
    pub fn in_own_name(&self, text: &str) -> String {
        text.replace("`proctor ", &format!("`{} ", self.program))
    }

    /// The exit code of a command. youBencha has 0 for an evaluation that reached its end, regardless
    /// of its result, and 1 for everything that did not work.
    pub fn code(&self, exit: Exit, purpose: Purpose) -> u8 {
        match (self.style, exit, purpose) {
            (Style::Proctor, exit, _) => exit.code(),
            (Style::YouBencha, Exit::Success, _)
            | (Style::YouBencha, Exit::Failed, Purpose::Evaluation) => 0,
            (Style::YouBencha, ..) => 1,
        }
    }
}

/// The purpose of a command, as far as its exit code depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It judges work: bad work is a result.
    Evaluation,
    /// It checks or changes something: a failure is a failure.
    Check,
}

impl Purpose {
    /// The purpose of a command.
    pub fn of(command: &Command) -> Purpose {
        match command {
            Command::Run(_) | Command::Eval(_) => Purpose::Evaluation,
            _ => Purpose::Check,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_depends_on_the_name_and_the_purpose() {
        use Purpose::{Check, Evaluation};
        for (name, exit, purpose, code) in [
            ("proctor", Exit::Failed, Evaluation, 1),
            ("proctor", Exit::Usage, Check, 2),
            ("anything", Exit::Infrastructure, Evaluation, 3),
            ("thunderdome", Exit::Interrupted, Evaluation, 130),
            ("yb", Exit::Failed, Evaluation, 0),
            ("yb", Exit::Failed, Check, 1),
            ("yb", Exit::Usage, Evaluation, 1),
            ("youbencha", Exit::Infrastructure, Evaluation, 1),
            ("youbencha", Exit::Interrupted, Evaluation, 1),
        ] {
            let personality = Personality::named(OsStr::new(name));
            assert_eq!(personality.code(exit, purpose), code, "{name} {exit:?}");
        }
    }

    #[test]
    fn command_lines_of_all_names_are_consistent() {
        for personality in &ALL {
            personality.command().debug_assert();
        }
    }
}
