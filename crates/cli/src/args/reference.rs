//! The command reference, `docs/reference/commands/`, from the definition of the arguments. The test
//! compares the pages with it; `BLESS=1 cargo test -p proctor-cli reference` writes them.

use std::fmt::Write;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Arg, Command, CommandFactory as _};

use super::Args;

/// The page of a command: its name and its text.
fn pages() -> Vec<(String, String)> {
    let mut all = Args::command();
    all.build();
    let commands = all.get_subcommands().filter(|it| it.get_name() != "help");
    commands
        .map(|command| {
            let mut text = String::new();
            section(&mut text, command, "#");
            (command.get_name().to_owned(), text)
        })
        .collect()
}

/// The options that all commands have.
const COMMON: [&str; 2] = ["help", "version"];

fn section(text: &mut String, command: &Command, level: &str) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_about().map(ToString::to_string);
    let _ = write!(
        text,
        "{level} {name}\n\n{}.\n",
        about.unwrap_or_default().trim_end_matches('.')
    );
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let usage: Vec<&str> = usage.lines().map(str::trim).collect();
    let _ = write!(text, "\n```text\n{}\n```\n", usage.join("\n"));
    let shown: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !COMMON.contains(&arg.get_id().as_str()))
        .collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &shown {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let title = heading.unwrap_or("arguments and options").to_lowercase();
        let _ = write!(text, "\n| {title} | meaning |\n|---|---|\n");
        for arg in shown.iter().filter(|it| it.get_help_heading() == heading) {
            let _ = writeln!(text, "| {} | {} |", names(arg), meaning(arg));
        }
    }
    if let Some(after) = command.get_after_help() {
        let _ = write!(text, "\n{}\n", wrapped(&after.to_string()));
    }
    let below = command.get_subcommands();
    for command in below.filter(|it| it.get_name() != "help") {
        text.push('\n');
        section(text, command, &format!("{level}#"));
    }
}

fn names(arg: &Arg) -> String {
    let value = arg.get_value_names().filter(|_| {
        let takes_value = arg.get_action().takes_values();
        takes_value || arg.is_positional()
    });
    let value = value
        .and_then(|names| names.first())
        .map(ToString::to_string);
    let value = value.unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_short().map(|it| format!("-{it}")));
    names.extend(arg.get_long().map(|it| format!("--{it}")));
    if names.is_empty() {
        names.push(value);
    } else if let Some(last) = names.last_mut()
        && !value.is_empty()
    {
        *last = format!("{last} {value}");
    }
    let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
    names.join(", ").replace('|', "\\|")
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values = values.iter().filter(|it| !it.is_hide_set());
    let values: Vec<String> = values.map(|it| format!("`{}`", it.get_name())).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let _ = write!(text, ": {}", values.join(", "));
    }
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, "; default `{}`", defaults.join(" "));
    }
    text.replace('\n', " ").replace('|', "\\|")
}

/// A text in lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if last.chars().count() + word.chars().count() >= 100 {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines.join("\n")
}

fn folder() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands")
}

#[test]
fn command_reference_is_current() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a switch for people who change the docs"
    )]
    let writes = std::env::var_os("BLESS").is_some();
    let mut list = String::from("# Commands\n\n| command | purpose |\n|---|---|\n");
    let mut command = Args::command();
    command.build();
    let mut pages = pages();
    for (name, _) in &pages {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(list, "| [{name}](commands/{name}.md) | {about} |");
    }
    let codes = command.get_after_help().map(ToString::to_string);
    let _ = write!(list, "\n{}\n", wrapped(&codes.unwrap_or_default()));
    pages.push(("../commands".to_owned(), list));
    for (name, text) in pages {
        let path = folder().join(format!("{name}.md"));
        if writes {
            fs_err::create_dir_all(folder()).unwrap();
            fs_err::write(&path, &text).unwrap();
        }
        let found = fs_err::read_to_string(&path).unwrap_or_default();
        let found = found.replace("\r\n", "\n");
        assert!(
            found == text,
            "{path} is not current: BLESS=1 cargo test -p proctor-cli reference\n{text}"
        );
    }
}
