//! Traces of the solution in the files that an agent starts from, in the message and in the tests.

use std::collections::BTreeSet;

use proctor_sandbox::git::{Git, GitError};

use crate::{
    error::MineError,
    prompt::{clean_message, code_names, issue_numbers},
};

/// The shortest abbreviation of a commit id that is searched for.
const SHORT_ID: usize = 10;

/// The shortest name that is given to the agent.
const SHORTEST_NAME: usize = 3;
/// The number of words that tests and solution have in common that are searched for.
const MAX_NAMES: usize = 50;

/// The traces of a commit in the base: its id, and the numbers of its issues and pull requests.
pub(crate) async fn in_base(
    git: &Git,
    base: &str,
    commit: &str,
    message: &str,
) -> Result<Vec<String>, MineError> {
    let mut found = Vec::new();
    let id = commit.get(..SHORT_ID).unwrap_or(commit).to_owned();
    let numbers = issue_numbers(message).into_iter();
    for text in std::iter::once(id).chain(numbers) {
        if let Some(file) = first_file(git, base, &text).await? {
            found.push(format!("{file} contains {text}"));
        }
    }
    Ok(found)
}

/// Names in the message that only the solution has. `diff` is the solution as a patch.
pub(crate) async fn in_message(
    git: &Git,
    base: &str,
    message: &str,
    diff: &str,
) -> Result<Vec<String>, MineError> {
    let message = clean_message(message);
    let added = added_words(diff);
    let mut found = Vec::new();
    for name in code_names(&message) {
        if added.contains(name) && first_file(git, base, name).await?.is_none() {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

/// Names that the tests expect of the solution: both add them, and the base does not have them.
pub(crate) async fn new_names(
    git: &Git,
    base: &str,
    tests: &str,
    solution: &str,
) -> Result<Vec<String>, MineError> {
    let (tests, solution) = (added_words(tests), added_words(solution));
    let is_name = |word: &&&str| word.len() >= SHORTEST_NAME && !word.starts_with(char::is_numeric);
    let mut found = Vec::new();
    for name in tests
        .intersection(&solution)
        .filter(is_name)
        .take(MAX_NAMES)
    {
        if first_file(git, base, name).await?.is_none() {
            found.push((*name).to_owned());
        }
    }
    Ok(found)
}

/// The words of added lines.
fn added_words(diff: &str) -> BTreeSet<&str> {
    let is_added = |line: &&str| line.starts_with('+') && !line.starts_with("+++");
    let added = diff.lines().filter(is_added);
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    added
        .flat_map(|line| line.split(move |letter| !is_part(letter)))
        .collect()
}

/// The first file of a tree that contains a text as a word.
async fn first_file(git: &Git, tree: &str, text: &str) -> Result<Option<String>, MineError> {
    let grep = ["grep", "-I", "-l", "-w", "-F", "-e", text, tree];
    match git.line(grep).await {
        Ok(files) => {
            let first = files.lines().next().unwrap_or_default();
            let file = first.split_once(':').map_or(first, |(_, file)| file);
            Ok(Some(file.to_owned()))
        }
        // Nothing was found.
        Err(GitError::Failed { stderr, .. }) if stderr.is_empty() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
