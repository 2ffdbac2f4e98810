//! Parses the command line, and completes clap's errors: the nearest command, and the range of a
//! number instead of an unknown flag.

use std::{ffi::OsString, path::Path};

use clap::{
    Command, FromArgMatches,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};
use proctor_document::nearest;

use super::Args;

/// Parses a command line.
pub fn parse_from(
    command: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<Args, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut command = with_negative_numbers(command);
    let matches = command.try_get_matches_from_mut(&words);
    let parsed = matches.and_then(|matches| Args::from_arg_matches(&matches));
    parsed.map_err(|error| suggest(error, &command, &words))
}

/// Clap's message without its usage.
pub fn message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text.find("\n\n").unwrap_or(text.len());
    text[..end].trim_end().to_owned()
}

/// A negative number is the value of its option, so that the error names the valid range.
fn with_negative_numbers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let takes_value = !arg.is_positional() && arg.get_action().takes_values();
        if takes_value {
            arg.allow_negative_numbers(true)
        } else {
            arg
        }
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Adds the command that was probably meant. Clap's own suggestions miss swapped letters.
fn suggest(mut error: clap::Error, command: &Command, words: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let name = name.clone();
    if Path::new(&name).exists() {
        let tip = format!("to run {name}, use: {} run {name}", command.get_name());
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
        return error;
    }
    let known: Vec<&str> = parent(command, words)
        .get_subcommands()
        .map(Command::get_name)
        .collect();
    if let Some(nearest) = nearest(&name, &known) {
        let nearest = ContextValue::Strings(vec![nearest.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, nearest);
    }
    error
}

/// The innermost command that the words name.
fn parent<'a>(mut command: &'a Command, words: &[OsString]) -> &'a Command {
    for word in words.iter().skip(1) {
        let found = word.to_str().and_then(|word| command.find_subcommand(word));
        command = found.unwrap_or(command);
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn refusal(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        parse_from(Args::command(), words)
            .unwrap_err()
            .render()
            .to_string()
    }

    #[test]
    fn nearest_command_is_suggested() {
        for (line, expected) in [
            ("proctor rnu", "'run'"),
            ("proctor Run", "'run'"),
            ("proctor valdate x.yaml", "'validate'"),
            ("proctor staus", "'status'"),
            ("proctor task chekc", "'check'"),
            ("proctor baseline svae x", "'save'"),
        ] {
            let refusal = refusal(line);
            let suggested = refusal.lines().find(|line| line.contains("tip:"));
            let is_suggested = suggested.is_some_and(|tip| tip.contains(expected));
            assert!(is_suggested, "{line}: {refusal}");
        }
        assert!(!refusal("proctor frobnicate").contains("tip:"));
    }

    #[test]
    fn file_instead_of_a_command_is_explained() {
        let refusal = refusal("proctor Cargo.toml");
        assert!(refusal.contains("use: proctor run Cargo.toml"), "{refusal}");
    }

    #[test]
    fn negative_numbers_are_out_of_range() {
        for (line, expected) in [
            ("run --trials -1", "-1 is not in 1..=1000"),
            ("run --parallel -2", "-2 is not in 1..=256"),
            ("run --seed -1", "expected a whole number, 0 or more"),
            ("run --retry-infra -1", "-1 is not in 0.."),
            ("run --max-cost -5", "expected an amount of dollars above 0"),
            ("rescore --parallel -1", "-1 is not in 1..=256"),
            ("task check x --times -3", "-3 is not in 1..=100"),
            ("report --level -1", "expected a number between 0.5 and 1"),
            ("report --seed -1", "expected a whole number, 0 or more"),
            (
                "replay x --speed -1",
                "expected a number from 0.01 to 10000",
            ),
            (
                "gateway --budget-tokens -1",
                "expected a whole number, 0 or more",
            ),
            (
                "gateway --budget-calls -1",
                "expected a whole number, 0 or more",
            ),
            (
                "gateway --max-tokens -1",
                "expected a whole number, 0 or more",
            ),
            ("gateway --temperature -1", "expected a number from 0 to 2"),
            ("gateway --retries -1", "-1 is not in 0..=10"),
            (
                "sdk-server --silence -1",
                "expected a whole number, 0 or more",
            ),
            ("sdk-server --port -1", "-1 is not in 0..=65535"),
        ] {
            let refusal = refusal(&format!("proctor {line}"));
            assert!(refusal.contains(expected), "{line}: {refusal}");
        }
    }
}
