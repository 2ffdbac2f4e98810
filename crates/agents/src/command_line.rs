//! The command line of a CLI for the installed version: flags must be listed in its help.

use proctor_record::record::cli::Installed;

use super::verdict::CliNames;
use crate::agent::{LaunchContext, LaunchError};

/// A command line under construction.
pub(super) struct CommandLine<'a> {
    pub(super) cli: &'a Installed,
    names: CliNames,
    pub(super) argv: Vec<String>,
}

impl<'a> CommandLine<'a> {
    /// A command line with the program only.
    pub(super) fn new(
        context: &LaunchContext<'a>,
        names: CliNames,
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

    /// Adds words that every version accepts.
    pub(super) fn push<W: AsRef<str>>(&mut self, words: &[W]) {
        let words = words.iter().map(|word| word.as_ref().to_owned());
        self.argv.extend(words);
    }

    /// Adds a flag with its values if this version lists it in its help.
    pub(super) fn if_listed<W: AsRef<str>>(&mut self, words: &[W]) {
        if words.first().is_some_and(|flag| self.lists(flag.as_ref())) {
            self.push(words);
        }
    }

    /// Adds a required flag. A version that does not list it is an error.
    pub(super) fn listed(&mut self, flag: &str, value: &str) -> Result<(), LaunchError> {
        if !self.lists(flag) {
            let program = self.cli.path.file_name().unwrap_or("the program");
            let version = self.cli.version.as_deref().unwrap_or("of this version");
            let message = format!("{program} {version} has no option {flag}");
            let hint = "install another version, or remove the setting";
            return Err(self.names.invalid(message).with_hint(hint));
        }
        self.push(&[flag, value]);
        Ok(())
    }

    /// Whether the installed version lists `flag`; assumed if its help is unknown.
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
