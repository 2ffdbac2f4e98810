//! The command line of a CLI, fitted to the installed version: flags must be listed in its help.

use proctor_record::record::cli::Installed;

use super::verdict::Names;
use crate::agent::{LaunchContext, LaunchError};

/// A command line in the making.
pub(super) struct CommandLine<'a> {
    pub(super) cli: &'a Installed,
    names: Names,
    pub(super) argv: Vec<String>,
}

impl<'a> CommandLine<'a> {
    /// A command line that holds the program only.
    pub(super) fn new(
        context: &LaunchContext<'a>,
        names: Names,
    ) -> Result<CommandLine<'a>, LaunchError> {
        let cli = context
            .cli
            .ok_or_else(|| names.invalid("the agent's program was not found"))?;
        Ok(CommandLine {
            cli,
            names,
            argv: vec![cli.path.to_string()],
        })
    }

    /// Add words that every version accepts.
    pub(super) fn push<W: AsRef<str>>(&mut self, words: &[W]) {
        let words = words.iter().map(|word| word.as_ref().to_owned());
        self.argv.extend(words);
    }

    /// Add a flag with its values, unless this version does not list it in its help.
    pub(super) fn if_listed<W: AsRef<str>>(&mut self, words: &[W]) {
        if words.first().is_some_and(|flag| self.lists(flag.as_ref())) {
            self.push(words);
        }
    }

    /// Add a flag that the agent cannot do without. A version that does not list it is an error.
    pub(super) fn listed(&mut self, flag: &str, value: &str) -> Result<(), LaunchError> {
        if !self.lists(flag) {
            let program = self.cli.path.file_name().unwrap_or("the program");
            let version = self.cli.version.as_deref().unwrap_or("of this version");
            let message = format!("{program} {version} has no option {flag}");
            let hint = "install another version, or leave the setting out";
            return Err(self.names.invalid(message).with_hint(hint));
        }
        self.push(&[flag, value]);
        Ok(())
    }

    /// Whether the installed version knows `flag`; assumed when its help is not known.
    fn lists(&self, flag: &str) -> bool {
        self.cli.help.is_empty() || self.cli.has_flag(flag)
    }
}

/// The value of `flag` in a list of arguments, as `--flag value` or `--flag=value`.
pub(super) fn flag_value<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    let joined = |arg: &'a String| arg.strip_prefix(flag)?.strip_prefix('=');
    let at = |at: usize| {
        if args[at] == flag {
            args.get(at + 1).map(String::as_str)
        } else {
            joined(&args[at])
        }
    };
    (0..args.len()).find_map(at)
}
