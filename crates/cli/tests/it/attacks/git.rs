//! Git goes by the attributes and settings of the task, not by those of the work.

use serde_json::json;

use super::{check, clear};
use crate::{
    judging::{case_of, judged, standing},
    support::{context, with, write_case},
    table::{
        Expect::{Fails, Passes},
        row,
    },
};

#[test]
fn git_attributes_of_the_work_are_ignored() {
    let context = context();
    let files = [
        ("old.txt", "a\nb\n"),
        (".gitattributes", "*.win text eol=crlf\n"),
    ];
    context.repo().commit("base", &files);
    let limits = json!([{"name": "git-diff", "config": {"assertions": {"max_lines_added": 10}}}]);
    let many = "seq 100 > new.txt";
    check(
        &context,
        &limits,
        &[
            row("many lines", Fails, many),
            row(
                "lines that are not shown",
                Fails,
                format!("echo '* -diff' > .gitattributes; {many}"),
            ),
            row(
                "the same as binary",
                Fails,
                format!("echo '* binary' > .gitattributes; {many}"),
            ),
            row(
                "the same in info/attributes",
                Fails,
                format!("mkdir -p .git/info; echo '* -diff' > .git/info/attributes; {many}"),
            ),
            row(
                "a zero byte among them",
                Fails,
                "{ seq 100; printf '\\000\\n'; } > new.txt",
            ),
            row("few lines", Passes, "seq 5 > new.txt"),
            row(
                "a small binary file",
                Passes,
                "printf '\\000\\001\\n' > new.bin",
            ),
        ],
    );
    // The base's own attributes hold: line ends of the work are as the task wants them in the copy.
    let ends =
        json!([{"name": "command", "config": {"command": "test \"$(wc -c < new.win)\" = 3"}}]);
    check(
        &context,
        &ends,
        &[row(
            "a file with the task's line ends",
            Passes,
            "printf 'a\\n' > new.win",
        )],
    );
}

#[test]
fn hiding_lines_from_the_diff_does_not_raise_similarity() {
    let context = context();
    let repo = context.repo();
    repo.commit("base", &[("a.txt", "a\n")]);
    repo.git(["checkout", "--quiet", "-b", "solution"]);
    repo.commit("solution", &[("a.txt", "b\n"), ("b.txt", "1\n2\n3\n")]);
    repo.git(["checkout", "--quiet", "-"]);
    let evaluators = json!([{"name": "expected-diff"}]);
    let score = |line: &str| {
        let reference = json!({"expected_source": "branch", "expected": "solution"});
        let path = write_case(&context, &with(&case_of(line, &evaluators), &reference));
        clear(&context);
        context.proctor(["run", "-c", path.as_str()]).run();
        standing(&context.record()).1.unwrap()
    };
    let work = "echo b > a.txt; seq 200 > c.txt";
    let plain = score(work);
    assert!(plain < 0.2, "{plain}");
    for hiding in [
        "echo '* -diff' > .gitattributes",
        "echo 'c.txt binary' > .gitattributes",
        "printf '\\000\\n' >> c.txt",
    ] {
        let hidden = score(&format!("{work}; {hiding}"));
        assert!(hidden <= plain + 0.01, "{hiding}: {hidden} > {plain}");
    }
}

/// On this machine an agent can find our repository. The settings that it writes there are not obeyed.
#[test]
fn settings_of_our_repository_are_not_the_agents() {
    let context = context();
    context.repo().commit(
        "base",
        &[
            ("answer.txt", "0\n"),
            ("check.sh", "grep -qx 42 answer.txt\n"),
        ],
    );
    let evaluators =
        json!([{"name": "command", "config": {"command": "sh check.sh", "protect": ["check.sh"]}}]);
    let mark = context.root().join("mark");
    let find = format!(
        "ours=$(find {} -type d -name baseline.git | head -1); test -n \"$ours\"; ",
        context.root()
    );
    let settings = format!(
        "{find}printf '[core]\\n\\tfsmonitor = \"touch {mark}; false\"\\n[filter \"x\"]\\n\\tclean = touch {mark}\\n\\tsmudge = touch {mark}\\n\\trequired\\n[diff]\\n\\texternal = touch {mark}\\n' >> $ours/config; echo '* filter=x' > $ours/info/attributes; echo 'check.sh' > $ours/info/exclude; "
    );
    let record = judged(
        &context,
        &format!("{settings}echo exit 0 > check.sh"),
        &evaluators,
    );
    assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    assert!(!mark.exists(), "a command of the agent ran in our git");
    let record = judged(
        &context,
        &format!("{settings}echo 42 > answer.txt"),
        &evaluators,
    );
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    // Objects in the place of others, and locks that would keep our git from working.
    for tampers in [
        "export GIT_DIR=$ours; git replace $(git hash-object check.sh) $(echo exit 0 | git hash-object -w --stdin)",
        "touch $ours/index.lock $ours/HEAD.lock $ours/config.lock $ours/packed-refs.lock",
        "echo 0000 > $ours/info/grafts",
    ] {
        let record = judged(&context, &format!("{find}{tampers}"), &evaluators);
        assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    }
    // An index that calls every change unchanged.
    let hides = format!(
        "{find}GIT_DIR=$ours git update-index --assume-unchanged answer.txt; echo 42 > answer.txt"
    );
    let record = judged(&context, &hides, &evaluators);
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
}
