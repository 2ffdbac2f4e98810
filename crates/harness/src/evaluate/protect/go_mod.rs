//! `go.mod`: the work may add dependencies, but modules of the task keep the source that the task
//! defines.

use std::collections::BTreeSet;

/// A directive of one line, or of one line within a block.
struct Directive {
    verb: String,
    words: Vec<String>,
}

impl Directive {
    /// The module of the directive.
    fn module(&self) -> Option<&str> {
        self.words.first().map(String::as_str)
    }
}

/// The work's file with the task's `replace` directives for all modules that the task names.
/// Returns the modules that differed.
pub(super) fn merge(task: Option<&[u8]>, work: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let work = directives(str::from_utf8(work).ok()?);
    let task = directives(str::from_utf8(task.unwrap_or_default()).ok()?);
    let known: BTreeSet<&str> = task
        .iter()
        .filter(|it| it.verb == "require" || it.verb == "replace")
        .filter_map(Directive::module)
        .collect();
    let is_tasks = |it: &&Directive| {
        it.verb == "replace" && it.module().is_some_and(|module| known.contains(module))
    };
    let lines = |of: &[Directive]| -> BTreeSet<Vec<String>> {
        of.iter()
            .filter(is_tasks)
            .map(|it| it.words.clone())
            .collect()
    };
    let (wanted, found) = (lines(&task), lines(&work));
    let differing = wanted.symmetric_difference(&found);
    let keys: BTreeSet<String> = differing
        .filter_map(|words| words.first())
        .map(|module| format!("replace {module}"))
        .collect();
    let kept = work.iter().filter(|it| !is_tasks(it));
    let all = kept.chain(task.iter().filter(is_tasks));
    let line = |it: &Directive| format!("{} {}\n", it.verb, it.words.join(" "));
    let text: String = all.map(line).collect();
    Some((text.into_bytes(), keys.into_iter().collect()))
}

/// Whether the module has requirements, which a `vendor` folder could replace.
pub(super) fn has_requirements(text: &str) -> bool {
    directives(text).iter().any(|it| it.verb == "require")
}

fn directives(text: &str) -> Vec<Directive> {
    let mut all = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        let mut words = words(line);
        match (&block, words.as_slice()) {
            (_, []) => {}
            (Some(_), [end]) if end == ")" => block = None,
            (Some(verb), _) => all.push(Directive {
                verb: verb.clone(),
                words,
            }),
            (None, [verb, open]) if open == "(" => block = Some(verb.clone()),
            (None, _) => all.push(Directive {
                verb: words.remove(0),
                words,
            }),
        }
    }
    all
}

/// The words of a line, without quotes and comments.
fn words(line: &str) -> Vec<String> {
    let line = line.split("//").next().unwrap_or_default();
    let spaced = line.replace('(', " ( ").replace(')', " ) ");
    spaced
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '`']).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "module p\n\ngo 1.18\n\nrequire (\n\tx.org/check v0.0.0\n\tx.org/plain v1.0.0\n)\n\nreplace x.org/check => ./testdata/check\n";

    #[track_caller]
    fn check(work: &str, keys: &[&str]) -> String {
        let (text, found) = merge(Some(TASK.as_bytes()), work.as_bytes()).unwrap();
        assert_eq!(found, keys, "{work}");
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn modules_of_the_task_keep_their_source() {
        for spelling in [
            "replace x.org/check => ./evil",
            "replace x.org/check v0.0.0 => ./evil",
            "replace \"x.org/check\" => \"./evil\"",
            "replace (\n\tx.org/check => ./evil // why\n)",
            "replace(\n\t`x.org/check` => ./evil\n)",
        ] {
            let work = TASK.replace("replace x.org/check => ./testdata/check", spelling);
            let text = check(&work, &["replace x.org/check"]);
            assert!(!text.contains("evil"), "{text}");
            assert!(text.contains("replace x.org/check => ./testdata/check\n"));
        }
        let text = check(
            &format!("{TASK}replace x.org/plain => ./evil\n"),
            &["replace x.org/plain"],
        );
        assert!(!text.contains("evil"), "{text}");
    }

    #[test]
    fn new_modules_are_taken_from_the_work() {
        let work = format!("{TASK}require x.org/new v0.0.0\nreplace x.org/new => ./new // local\n");
        let text = check(&work, &[]);
        assert!(text.contains("replace x.org/new => ./new\n"), "{text}");
        assert!(has_requirements(TASK) && !has_requirements("module p\ngo 1.18\n"));
    }
}
