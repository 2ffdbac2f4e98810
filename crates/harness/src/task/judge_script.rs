//! The script of a Harbor folder that judges the agent's files in a container of its own, without
//! Proctor: tests that are named must pass.

use camino::Utf8Path;

use crate::evaluate::{reports::name_key, test_patterns};

/// The script that judges, and the reader of reports.
const TEST_SCRIPT: &str = include_str!("judge_script/test.sh");
const RESULTS_SCRIPT: &str = include_str!("judge_script/results.awk");

/// Files with settings of runners among others. They are the agent's only if the solution changes
/// them.
const MANIFESTS: [&str; 3] = ["package.json", "pyproject.toml", "setup.cfg"];

/// Removes ignored files, such as those of a build, which are not a part of the work.
const REMOVE_IGNORED: &str = "(cd @FILES@ && git --git-dir=/judge/.git --work-tree=. ls-files -o -i --exclude-standard -z | xargs -0 -r rm -f --)\n";

/// Puts the tested files at the place of the agent's.
const REPLACE: &str = "cd / && rm -rf @FILES@ && mv /judge @FILES@ && cd @FILES@ || exit 1\n";

/// The script, and its lists.
pub struct JudgeScript<'a> {
    /// The directory of the agent's files.
    pub files: &'a str,
    /// Where the tests run.
    pub place: JudgePlace<'a>,
    /// Names of directories that are not a part of the work.
    pub excluded: &'a [&'a str],
    /// The files that the reference solution changes. They are the agent's.
    pub solution: &'a [&'a str],
    /// The files of the hidden tests. They are never the agent's.
    pub hidden: &'a [&'a str],
    /// The test command.
    pub command: &'a str,
    /// The names of the tests that must pass.
    pub expected: &'a [String],
}

/// Where the tests run.
#[derive(Clone, Copy)]
pub enum JudgePlace<'a> {
    /// In /judge. Names of tests are those of the reports.
    Beside {
        /// The files of the repository.
        base: &'a [String],
    },
    /// At the place of the agent's files. /judge is a git repository, /base-files lists its files,
    /// and names of tests have any spelling.
    Same,
}

impl JudgeScript<'_> {
    /// Writes the files of `tests/`.
    pub fn write(&self, folder: &Utf8Path) -> std::io::Result<()> {
        let write = |name: &str, text: &str| fs_err::write(folder.join(name), text);
        let (base, ignored, place, by_name, expected) = match self.place {
            JudgePlace::Beside { base } => {
                write("base-files", &lines(base))?;
                ("/tests/base-files", "", "", "0", lines(self.expected))
            }
            JudgePlace::Same => {
                let keys = self.expected.iter().map(|name| name_key(name));
                let keys = lines(&keys.collect::<Vec<_>>());
                ("/base-files", REMOVE_IGNORED, REPLACE, "1", keys)
            }
        };
        let exact = |paths: &[&str]| {
            let paths = paths.iter().map(|path| quoted(&format!("/{path}")));
            any_of(&paths.collect::<Vec<_>>())
        };
        let pruned = self.excluded.iter().map(|name| format!("-name {name}"));
        let pruned = format!("\\( {} \\)", pruned.collect::<Vec<_>>().join(" -o "));
        let (paths, names) = shell_patterns();
        let script = TEST_SCRIPT
            .replace("@IGNORED@\n", ignored)
            .replace("@PLACE@\n", place)
            .replace("@BASE@", base)
            .replace("@BY_NAME@", by_name)
            .replace("@FILES@", self.files)
            .replace("@PRUNED@", &pruned)
            .replace("@PATHS@", &any_of(&paths))
            .replace("@NAMES@", &any_of(&names))
            .replace("@HIDDEN@", &exact(self.hidden))
            .replace("@SOLUTION@", &exact(self.solution));
        write("test.sh", &script)?;
        write("results.awk", RESULTS_SCRIPT)?;
        write("run.sh", &format!("{}\n", self.command))?;
        write("expected", &expected)
    }
}

/// A pattern of the shell for any of `patterns`. No path is empty.
fn any_of(patterns: &[String]) -> String {
    match patterns {
        [] => "''".to_owned(),
        patterns => patterns.join("|"),
    }
}

/// One text in each line. The reader of reports replaces control characters, too.
fn lines(texts: &[String]) -> String {
    let line = |text: &String| text.replace(|letter: char| letter.is_ascii_control(), " ") + "\n";
    texts.iter().map(line).collect()
}

/// A text as one word of the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The files that are never the agent's as patterns of the shell: of whole paths, which start with a
/// slash, and of names.
fn shell_patterns() -> (Vec<String>, Vec<String>) {
    let (mut paths, mut names) = (Vec::new(), Vec::new());
    for pattern in test_patterns().flat_map(alternatives) {
        let pattern = pattern.strip_prefix("**/").unwrap_or(&pattern);
        match pattern.strip_suffix("/**") {
            // A link could take the place of the directory.
            Some(folder) => paths.extend([format!("*/{folder}"), format!("*/{folder}/*")]),
            None if pattern.contains('/') => paths.push(format!("*/{pattern}")),
            None => names.push(pattern.to_owned()),
        }
    }
    names.extend(MANIFESTS.map(str::to_owned));
    (paths, names)
}

/// The patterns that one with `{a,b}` stands for.
fn alternatives(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
    let inside = inside.split(',');
    inside
        .flat_map(|one| alternatives(&format!("{before}{one}{after}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::evaluate::reports::{Status, TestCase, TestReport};
    use camino::Utf8Path;

    use super::*;

    #[test]
    fn patterns_are_written_for_the_shell() {
        assert_eq!(alternatives("a{b,}c{1,2}"), ["abc1", "abc2", "ac1", "ac2"]);
        let (paths, names) = shell_patterns();
        for path in ["*/tests", "*/tests/*", "*/.cargo/config*", "*/t/*.t"] {
            assert!(paths.iter().any(|it| it == path), "{path}: {paths:?}");
        }
        for name in ["conftest.py", "*.test.*", "test_*.py", "package.json"] {
            assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "*/._-[]@".contains(letter);
        for pattern in paths.iter().chain(&names) {
            assert!(pattern.chars().all(is_plain), "{pattern}");
        }
    }

    /// The script of the tasks reads reports like Proctor.
    #[cfg(unix)]
    #[test]
    fn script_finds_the_passed_tests_of_every_format() {
        let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/src/evaluate/reports/samples");
        let mut count = 0;
        for entry in Utf8Path::new(samples).read_dir_utf8().unwrap() {
            let path = entry.unwrap().into_path();
            let text = fs_err::read(&path).unwrap();
            let Ok(report) = TestReport::read(&text) else {
                continue;
            };
            // Nothing that this crate detects writes it.
            if path.file_name() == Some("ctrf.json") {
                continue;
            }
            let report = report.relative_to("/project");
            let passed = report
                .tests
                .iter()
                .filter(|test| test.status == Status::Passed);
            let expected: BTreeSet<String> = passed.map(TestCase::full_name).collect();
            assert_eq!(passed_by_script(&path), expected, "{path}");
            count += 1;
        }
        assert!(count >= 14, "{count} samples");
    }

    #[cfg(unix)]
    #[expect(
        clippy::disallowed_methods,
        reason = "the script runs in containers, not here"
    )]
    fn passed_by_script(report: &Utf8Path) -> BTreeSet<String> {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/task/judge_script/results.awk"
        );
        let args = ["-v", "dir=/project", "-f", script, report.as_str()];
        let output = std::process::Command::new("awk")
            .args(args)
            .env("LC_ALL", "C")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let passed = text.lines().filter_map(|line| line.strip_prefix("passed "));
        passed.map(str::to_owned).collect()
    }

    #[cfg(unix)]
    #[test]
    fn script_decodes_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("report");
        for (text, expected) in [
            (
                "<testsuites><testsuite name='s'><testcase classname='a&lt;b&gt;' name='&quot;x&#228;&#x1F600; &amp;lt; y&quot;'/>\n<testcase name='z'><system-out><![CDATA[<failure>]]></system-out></testcase></testsuite></testsuites>",
                &["a<b>::\"xä😀 &lt; y\"", "s::z"][..],
            ),
            (
                r#"{"testResults":[{"assertionResults":[{"ancestorTitles":["a \"q\""],"title":"b\\ \u00e4\ud83d\ude00 {}","status":"passed"}],"name":"/project/x.js","status":"passed"}]}"#,
                &["x.js::a \"q\" > b\\ ä😀 {}"],
            ),
            (
                "   Compiling \"x {\n{\"type\":\"suite\",\"event\":\"started\",\"test_count\":1}\n{\"type\":\"test\",\"event\":\"ok\",\"name\":\"t::a\"}\n{\"type\":\"suite\",\"event\":\"ok\"}\n",
                &["t::a"],
            ),
            (
                "TAP version 13\nok 1 - a \\# b\nok 2 - c # SKIP d\n1..2\n",
                &["a # b"],
            ),
        ] {
            fs_err::write(&path, text).unwrap();
            let expected = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(passed_by_script(&path), expected, "{text}");
            let report = TestReport::read(text.as_bytes())
                .unwrap()
                .relative_to("/project");
            let passed = report
                .tests
                .iter()
                .filter(|test| test.status == Status::Passed);
            assert_eq!(
                passed.map(TestCase::full_name).collect::<BTreeSet<_>>(),
                expected
            );
        }
    }
}
