//! The files that a command names. Files that it runs determine the verdict, and only the task's
//! author can define whether they belong to the task or to the work.

use std::collections::BTreeSet;

/// Programs that run the file in their first argument.
const INTERPRETERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "python",
    "python2",
    "python3",
    "node",
    "nodejs",
    "ruby",
    "perl",
    "php",
    "deno",
    "bun",
    "tsx",
    "ts-node",
    "Rscript",
    "lua",
    "pwsh",
    "source",
    ".",
    "exec",
    "awk",
    "osascript",
];

/// Options of interpreters that are followed by code or a module instead of a file.
const CODE: &[&str] = &["-c", "-e", "-m", "-p", "--eval", "--print", "-r", "--test"];

/// Shells, for which `-e` has another meaning.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "fish"];

/// Whether an option of an interpreter is followed by code.
fn is_code(name: &str, option: &str) -> bool {
    if SHELLS.contains(&name) {
        !option.starts_with("--") && option.contains('c')
    } else {
        CODE.contains(&option)
    }
}

/// Words that can precede a program.
const PREFIXES: &[&str] = &[
    "env", "nice", "time", "command", "exec", "!", "if", "then", "else", "do", "while",
];

/// The simple commands of an argument list; the argument of `sh -c` is split.
fn commands(argv: &[String]) -> Vec<Vec<String>> {
    let [shell, option, line] = argv else {
        return vec![argv.to_vec()];
    };
    if shell != "sh" || option != "-c" {
        return vec![argv.to_vec()];
    }
    let parts = line.split(['\n', ';', '|', '&', '(', ')', '{', '}', '`']);
    let words = |part: &str| {
        let plain = || {
            part.split_whitespace()
                .map(|word| word.trim_matches(['"', '\'']).to_owned())
                .collect()
        };
        shell_words::split(part).unwrap_or_else(|_| plain())
    };
    parts.map(words).filter(|words| !words.is_empty()).collect()
}

/// A word as a path relative to the copy; `None` for paths elsewhere.
fn below(word: &str, working_dir: &str) -> Option<String> {
    let word = word.trim_start_matches("./");
    let is_plain = !word.is_empty()
        && !word.starts_with(['-', '$', '/', '~', '>', '<'])
        && !word.contains(['$', '*', '?', '=']);
    if !is_plain || word.split('/').any(|part| part == "..") {
        return None;
    }
    Some(match working_dir {
        "" => word.to_owned(),
        folder => format!("{folder}/{word}"),
    })
}

/// The words of a simple command, starting with its program.
fn from_program(words: &[String]) -> &[String] {
    let is_before = |word: &&String| {
        PREFIXES.contains(&word.as_str())
            || word
                .split_once('=')
                .is_some_and(|(name, _)| !name.contains('/'))
    };
    let skipped = words.iter().take_while(is_before).count();
    &words[skipped..]
}

/// The files below the copy that a command may name, and the names of its programs.
pub(in crate::evaluate) fn named_files(
    argv: &[String],
    working_dir: &str,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut files = BTreeSet::new();
    let mut programs = BTreeSet::new();
    for command in commands(argv) {
        let words = from_program(&command);
        if let Some(program) = words.first() {
            programs.insert(program.rsplit('/').next().unwrap_or(program).to_owned());
        }
        files.extend(command.iter().filter_map(|word| below(word, working_dir)));
    }
    (files, programs)
}

/// The files below the copy that a command runs.
pub(in crate::evaluate) fn scripts(argv: &[String], working_dir: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for command in commands(argv) {
        let [program, rest @ ..] = from_program(&command) else {
            continue;
        };
        if program.contains('/') {
            found.extend(below(program, working_dir));
        }
        let name = program.rsplit('/').next().unwrap_or(program);
        let is_make = name == "make" || name == "gmake";
        if is_make {
            let file = rest.windows(2).find(|pair| pair[0] == "-f");
            found.extend(file.and_then(|pair| below(&pair[1], working_dir)));
        }
        let mut options = rest.iter().take_while(|word| word.starts_with('-'));
        let runs_code = options.any(|word| is_code(name, word));
        if INTERPRETERS.contains(&name) && !runs_code {
            let file = rest.iter().find(|word| !word.starts_with('-'));
            found.extend(file.and_then(|file| below(file, working_dir)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let argv = ["sh", "-c", line].map(str::to_owned);
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(scripts(&argv, ""), expected, "{line}");
    }

    #[test]
    fn scripts_of_a_command_are_found() {
        check("sh test.sh", &["test.sh"]);
        check(
            "sh -e ./scripts/test.sh fast && echo done",
            &["scripts/test.sh"],
        );
        check("cd x; ./check", &["check"]);
        check("FOO=1 python3 -u check.py", &["check.py"]);
        check("make -f ci.mk all", &["ci.mk"]);
        check("env A=1 nice node tools/lint.js src", &["tools/lint.js"]);
    }

    #[test]
    fn commands_without_a_script_have_no_scripts() {
        for line in [
            "cargo test",
            "python3 -m pytest",
            "node --test",
            "grep -qx 4 answer",
            "sh -c 'exit 0'",
            "sh \"$PROCTOR_CASE_DIR/x.sh\"",
            "/usr/bin/check",
            "sh ../x",
            "test -e answer.txt",
            "node -e 'x'",
            "npm test",
            "make test",
        ] {
            check(line, &[]);
        }
        let words = ["sh", "run.sh"].map(str::to_owned);
        assert_eq!(
            scripts(&words, "sub"),
            BTreeSet::from(["sub/run.sh".to_owned()])
        );
    }

    #[test]
    fn words_and_programs_are_distinguished() {
        let argv = ["sh", "-c", "test -f tests/new.py && npm run x"].map(str::to_owned);
        let (files, programs) = named_files(&argv, "");
        assert!(files.contains("tests/new.py"));
        assert!(programs.contains("npm") && programs.contains("test") && !programs.contains("x"));
    }
}
