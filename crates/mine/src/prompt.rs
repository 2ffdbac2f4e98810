//! The prompt of a task: the message of the commit, the failing tests, or both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use serde::{Deserialize, Serialize};

/// The number of failing tests in a prompt.
const MAX_TESTS: usize = 20;
/// The length of a failure message in a prompt.
const MAX_MESSAGE: usize = 300;
/// The shortest name in a message that is compared with the solution.
const SHORTEST_NAME: usize = 4;

/// Lines of a message that say nothing about the change, in lower case.
const TRAILERS: [&str; 14] = [
    "signed-off-by:",
    "co-authored-by:",
    "co-developed-by:",
    "reviewed-by:",
    "acked-by:",
    "tested-by:",
    "reported-by:",
    "change-id:",
    "cc:",
    "closes #",
    "fixes #",
    "resolves #",
    "refs #",
    "(cherry picked from commit",
];

/// The source of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptTier {
    /// The message of the commit.
    Message,
    /// The names and messages of the failing tests.
    Tests,
    /// Both.
    #[default]
    Both,
}

/// A prompt, with its actual source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    pub(crate) tier: PromptTier,
}

/// The prompt of a task. `failures` are the tests that fail before the work, with their messages, and
/// `new_names` the names that they expect of the solution. A commit without a usable message is
/// described by its tests.
pub(crate) fn prompt(
    wanted: PromptTier,
    message: &str,
    failures: &BTreeMap<String, Option<String>>,
    new_names: &[String],
) -> Prompt {
    let message = clean_message(message);
    let tier = if message.is_empty() {
        PromptTier::Tests
    } else {
        wanted
    };
    let mut text = String::new();
    if tier != PromptTier::Tests {
        let _ = write!(text, "Make this change in the repository:\n\n{message}\n\n");
    }
    if tier != PromptTier::Message {
        text.push_str("These hidden tests fail now and must pass:\n\n");
        for (name, message) in failures.iter().take(MAX_TESTS) {
            let _ = write!(text, "- {name}");
            let line: String = first_line(message.as_deref().unwrap_or_default())
                .chars()
                .take(MAX_MESSAGE)
                .collect();
            if !line.is_empty() {
                let _ = write!(text, ": {line}");
            }
            text.push('\n');
        }
        if let Some(more @ 1..) = failures.len().checked_sub(MAX_TESTS) {
            let _ = writeln!(text, "- and {more} more");
        }
        text.push('\n');
        if !new_names.is_empty() {
            let names = new_names.join("`, `");
            let _ = write!(text, "They use these new names: `{names}`.\n\n");
        }
    }
    text.push_str("Hidden tests judge the work. Tests that pass now must still pass.\n");
    Prompt { text, tier }
}

/// The first line of a failure that describes it: the output of Go begins with the names of tests.
fn first_line(message: &str) -> &str {
    let mut lines = message.lines().map(str::trim);
    let is_frame = |line: &str| line.starts_with("=== ") || line.starts_with("--- FAIL");
    lines
        .find(|line| !line.is_empty() && !is_frame(line))
        .unwrap_or_default()
}

/// A message without trailers, numbers of issues and the titles of merges.
pub(crate) fn clean_message(message: &str) -> String {
    let is_kept = |line: &&str| {
        let line = line.trim().to_lowercase();
        !TRAILERS.iter().any(|trailer| line.starts_with(trailer))
    };
    let mut lines: Vec<&str> = message.lines().filter(is_kept).collect();
    let is_merge = |line: &&str| {
        [
            "Merge pull request",
            "Merge branch",
            "Merge remote",
            "Merge tag",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    if lines.first().is_some_and(is_merge) {
        lines.remove(0);
    }
    let lines: Vec<String> = lines.into_iter().map(without_number).collect();
    lines.join("\n").trim().to_owned()
}

/// A line without the number of a pull request at its end.
fn without_number(line: &str) -> String {
    let line = line.trim_end();
    let start = line.rfind(" (#").filter(|_| line.ends_with(')'));
    let number = start.map(|start| &line[start + 3..line.len() - 1]);
    let is_number = number.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match start {
        Some(start) if is_number => line[..start].to_owned(),
        _ => line.to_owned(),
    }
}

/// The numbers of issues and pull requests in a message.
pub(crate) fn issue_numbers(message: &str) -> BTreeSet<String> {
    let words = message.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '#');
    let numbers = words.filter_map(|word| word.strip_prefix('#'));
    let numbers = numbers.filter(|it| it.len() > 1 && it.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.map(|number| format!("#{number}")).collect()
}

/// Names in a message that look like code: with an underscore, or with a capital letter inside.
pub(crate) fn code_names(message: &str) -> BTreeSet<&str> {
    let words = message.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_code = |word: &&str| {
        let mut pairs = word.chars().zip(word.chars().skip(1));
        word.len() >= SHORTEST_NAME
            && (word.trim_matches('_').contains('_')
                || pairs.any(|(one, next)| one.is_lowercase() && next.is_uppercase()))
    };
    words.filter(is_code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_freed_of_trailers_and_numbers() {
        let message = "Fix the parser (#123)\n\nIt failed on empty input.\n\nCloses #12\nSigned-off-by: A <a@b>\n";
        assert_eq!(
            clean_message(message),
            "Fix the parser\n\nIt failed on empty input."
        );
        assert_eq!(
            clean_message("Merge pull request #3 from a/b\n\nAdd x"),
            "Add x"
        );
        assert_eq!(clean_message("Merge branch 'x'"), "");
        assert_eq!(
            issue_numbers(message),
            ["#12", "#123"].map(str::to_owned).into()
        );
    }

    #[test]
    fn prompt_has_the_wanted_parts() {
        let failures = BTreeMap::from([("test_a".to_owned(), Some("boom\nmore".to_owned()))]);
        let names = ["mul".to_owned(), "Div".to_owned()];
        let text = |tier| prompt(tier, "Fix it", &failures, &names).text;
        let hidden = "Hidden tests judge the work. Tests that pass now must still pass.\n";
        let message = "Make this change in the repository:\n\nFix it\n\n";
        let tests = "These hidden tests fail now and must pass:\n\n- test_a: boom\n\nThey use these new names: `mul`, `Div`.\n\n";
        assert_eq!(text(PromptTier::Message), format!("{message}{hidden}"));
        assert_eq!(text(PromptTier::Tests), format!("{tests}{hidden}"));
        assert_eq!(text(PromptTier::Both), format!("{message}{tests}{hidden}"));
        let merge = prompt(PromptTier::Message, "Merge branch 'x'", &failures, &[]);
        assert_eq!(merge.tier, PromptTier::Tests);
    }

    #[test]
    fn failure_is_described_by_its_first_useful_line() {
        let go = "=== RUN   TestFour\n    roman_test.go:17: got IIII\n--- FAIL: TestFour (0.00s)\n";
        assert_eq!(first_line(go), "roman_test.go:17: got IIII");
        assert_eq!(first_line("=== RUN   TestSix\n--- FAIL: TestSix\n"), "");
        assert_eq!(first_line("\nassert 3 == 4\n"), "assert 3 == 4");
    }

    #[test]
    fn names_of_code_are_found_in_a_message() {
        let found = code_names("Use read_all in JsonReader, not in Parser or __init__");
        assert_eq!(found, ["JsonReader", "read_all"].into());
    }
}
