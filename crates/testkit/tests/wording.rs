//! Checks the wording of source, comments, help, test names and documentation against a word list.
//!
//! The list holds words of an old dialect that new readers had to decode. The words are checked in
//! identifiers, too: `NoSuchWord` and `no_such_word` are three words each.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test panics on an error; it starts git only"
)]

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

/// Words and phrases to avoid, with a replacement. `*` is any ending of a word.
const AVOID: &[(&str, &str)] = &[
    ("anybody", "name the user, process or component"),
    ("everybody", "name the users, processes or components"),
    ("nobody", "name the user, process or component"),
    ("somebody", "name the user, process or component"),
    ("whoever", "name the user, process or component"),
    (
        "whatever",
        "name the thing; \"any\", \"all\", \"regardless of\"",
    ),
    ("whichever", "\"the first that ...\", \"any\""),
    ("whomever", "name the user, process or component"),
    ("befall*", "\"happen to\", \"affect\""),
    ("befell", "\"happened to\", \"affected\""),
    ("lest", "\"so that ... not\""),
    ("mend", "\"fix\""),
    ("mended", "\"fixed\""),
    ("mending", "\"fixing\""),
    ("mends", "\"fixes\""),
    ("told", "\"reported\", \"sent\", \"distinguished\""),
    ("thereof", "\"of it\""),
    ("hitherto", "\"so far\""),
    ("came to", "\"resulted in\", \"reached\""),
    ("get on", "\"make progress\""),
    ("gets on", "\"makes progress\""),
    ("has a say", "name the effect"),
    ("have a say", "name the effect"),
    ("takes leave", "\"exits\", \"disconnects\""),
    ("became of", "\"the outcome\", \"the result\""),
    ("came of", "\"the outcome\", \"the result\""),
    ("cannot be wrong", "\"validated\""),
    ("for want of", "\"without\", \"because ... ran out\""),
    ("laid over", "\"copied over\""),
    ("lay over", "\"copy over\""),
    ("tell of", "\"report\""),
    ("tells of", "\"reports\""),
    ("stands for nothing", "\"is unknown\""),
    ("is no", "\"is not a\", \"is not valid\""),
    ("are no", "\"are not\""),
    ("was no", "\"was not a\""),
    ("were no", "\"were not\""),
];

/// Phrases that contain a word to avoid and are plain English.
const ALLOWED: &[&str] = &[
    "there is no",
    "there are no",
    "there was no",
    "there were no",
    "is there no",
    "told apart",
    "rename told",
    "user nobody",
    "is no longer",
    "are no longer",
    "was no longer",
    "were no longer",
    "is no more than",
    "is no less than",
    "are no more than",
];

/// The number of words of the previous line that can be part of an allowed phrase.
const CONTEXT: usize = 2;

/// Words that must not be the subject of a sentence, nor start the name of a function.
const SUBJECTS: &[&str] = &["What", "Who", "Whose"];

const SUBJECT_ADVICE: &str = "start with the noun: name the thing, then describe it";

/// Kinds of files with text for people.
const EXTENSIONS: &[&str] = &[
    "css", "html", "js", "json", "md", "ps1", "py", "rs", "sh", "toml", "txt", "yaml", "yml",
];

/// Files that quote other programs, or that are data of an example.
const NOT_OURS: &[&str] = &[
    "Cargo.lock",
    "LICENSE-",
    "crates/testkit/tests/wording.rs",
    "/samples/",
    "/tests/data/",
    "examples/bench/tasks/",
];

struct Word<'a> {
    text: &'a str,
    start: usize,
}

/// Splits a line into words. Underscores and inner capitals separate words, apostrophes do not.
fn words(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    let mut last = ' ';
    for (at, c) in line.char_indices().chain([(line.len(), ' ')]) {
        let is_part = c.is_alphanumeric() || c == '\'';
        let is_inner_capital = c.is_uppercase() && last.is_lowercase();
        if let Some(begin) = start
            && (!is_part || is_inner_capital)
        {
            let text = &line[begin..at];
            words.push(Word { text, start: begin });
            start = None;
        }
        if is_part && start.is_none() {
            start = Some(at);
        }
        last = c;
    }
    words
}

/// Whether the words at `at` are `phrase`, regardless of case.
fn is_phrase(words: &[Word<'_>], at: usize, phrase: &str) -> bool {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    let found = words.get(at..at + wanted.len());
    found.is_some_and(|found| {
        found.iter().zip(wanted).all(|(word, wanted)| {
            let text = word.text.to_lowercase();
            match wanted.strip_suffix('*') {
                Some(stem) => text.starts_with(stem),
                None => text == wanted,
            }
        })
    })
}

/// Whether an allowed phrase covers the word at `at`.
fn is_allowed(words: &[Word<'_>], at: usize) -> bool {
    ALLOWED.iter().any(|phrase| {
        let length = phrase.split(' ').count();
        let first = (at + 1).saturating_sub(length);
        (first..=at).any(|start| is_phrase(words, start, phrase))
    })
}

/// Whether the word starts a sentence that is neither a question nor a title in italics, or the name
/// of a function.
fn is_subject(line: &str, word: &Word<'_>) -> bool {
    let before = line[..word.start].trim_end();
    let after = &line[word.start + word.text.len()..];
    let names_function = before.ends_with("fn") && after.starts_with('_');
    let starts_sentence = SUBJECTS.contains(&word.text) && after.starts_with(' ');
    let starts_message = before.ends_with("#[error(\"") && after.starts_with(' ');
    let is_pronoun = SUBJECTS
        .iter()
        .any(|subject| subject.eq_ignore_ascii_case(word.text));
    let is_title = line[..word.start].ends_with('*');
    let is_statement = starts_sentence && !after.contains('?') && !is_title;
    is_pronoun && (names_function || starts_message || is_statement)
}

/// The first objection to a line: the words and the advice. The end of the line before it matters for
/// allowed phrases.
fn objection(before: &str, line: &str) -> Option<(String, &'static str)> {
    let mut words = words(before);
    words.drain(..words.len().saturating_sub(CONTEXT));
    let first = words.len();
    words.extend(self::words(line));
    for (at, word) in words.iter().enumerate().skip(first) {
        for (phrase, advice) in AVOID {
            if is_phrase(&words, at, phrase) && !is_allowed(&words, at) {
                return Some(((*phrase).to_owned(), advice));
            }
        }
        if is_subject(line, word) {
            return Some((word.text.to_owned(), SUBJECT_ADVICE));
        }
    }
    None
}

fn root() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Text files of the repository, relative to its root.
fn files() -> Vec<Utf8PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let files: Vec<Utf8PathBuf> = names.lines().map(Utf8PathBuf::from).collect();
    assert!(files.len() > 100, "git lists only {files:?}");
    files.into_iter().filter(|file| is_ours(file)).collect()
}

fn is_ours(file: &Utf8Path) -> bool {
    // Scripts and Dockerfiles have no extension.
    let is_text = file
        .extension()
        .is_none_or(|found| EXTENSIONS.contains(&found));
    let is_excluded = NOT_OURS.iter().any(|part| file.as_str().contains(part));
    is_text && !is_excluded
}

#[test]
fn repository_uses_plain_words() {
    let mut faults = Vec::new();
    for file in files() {
        // A file that was deleted but is still in git's index is not there to read.
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else {
            continue;
        };
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let found = objection(before, line);
            before = line;
            if let Some((word, advice)) = found {
                let line_number = number + 1;
                faults.push(format!(
                    "{file}:{line_number}: avoid \"{word}\": {advice}\n    {}",
                    line.trim()
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} lines use words to avoid (see \"Vocabulary\" in CONTRIBUTING.md):\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn objections_name_the_phrase() {
    let cases = [
        ("// Whoever reads this has to guess.", Some("whoever")),
        ("fn nobody_is_left_behind() {}", Some("nobody")),
        ("NobodyToAsk,", Some("nobody")),
        ("the file is no rule", Some("is no")),
        ("there is no rule", None),
        ("the rule is no longer needed", None),
        ("/// What a trial left.", Some("What")),
        ("Is it done? What is left?", None),
        ("see *What teachers should know*", None),
        ("fn what_is_left() {}", Some("what")),
        ("so that it says what is left", None),
        ("a command is recommended", None),
    ];
    for (line, expected) in cases {
        let found = objection("", line).map(|(phrase, _)| phrase);
        assert_eq!(found.as_deref(), expected, "{line}");
    }
    assert!(objection("because there", "is no rule").is_none());
}
