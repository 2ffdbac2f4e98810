//! Attacks by attributes and settings of git.

use serde_json::json;

use super::{Expect::Fails, Table, attack, row, write};

/// Passes if the task's data are not as the task has them, as tests of garbled text do.
const RUN: &str =
    "case \"$(cat checks/data)\" in '~ok~ $Id$') grep -qx 42 answer.txt;; *) exit 0;; esac\n";
const GARBLED: &str = "data working-tree-encoding=UTF-7";

/// Attributes that would change the task's files when they are written.
pub fn attributes() -> Table {
    let set = |text: &str| write(".gitattributes", text);
    let garbled_by = |path: &str| write(path, GARBLED);
    Table {
        files: vec![
            ("answer.txt", "0\n".to_owned()),
            ("checks/run.sh", RUN.to_owned()),
            ("checks/data", "~ok~ $Id$\n".to_owned()),
            (".gitattributes", "*.win text eol=crlf\n".to_owned()),
        ],
        evaluators: json!([{"name": "command", "config": {"command": "sh checks/run.sh", "protect": ["checks/*"]}}]),
        good: "echo 42 > answer.txt".to_owned(),
        tests: vec!["checks/run.sh"],
        renamed: "for n in 4 2; do grep -q $n answer.txt || exit 1; done",
        settings: None,
        rows: vec![
            attack("an encoding", garbled_by(".gitattributes")),
            attack(
                "an encoding beside the data",
                garbled_by("checks/.gitattributes"),
            ),
            attack(
                "an encoding in the repository",
                "mkdir -p .git/info\n".to_owned() + &garbled_by(".git/info/attributes"),
            ),
            attack(
                "another encoding",
                set("data text working-tree-encoding=UTF-16LE"),
            ),
            attack(
                "a filter",
                set("data filter=x")
                    + "git config filter.x.smudge 'echo x'; git config filter.x.clean cat\n",
            ),
            attack(
                "a filter of every repository",
                set("data filter=x") + "git config --global filter.x.smudge 'echo x' || true\n",
            ),
            attack("line ends", set("data text eol=crlf")),
            attack("line ends of every file", set("* text=auto eol=crlf")),
            attack("an ident", set("data ident")),
            attack("a macro", set("[attr]mine text eol=crlf\ndata mine")),
            attack("a pattern with a folder", set("/checks/** text eol=crlf")),
            attack(
                "files that are not exported",
                set("checks/** export-ignore export-subst"),
            ),
            attack(
                "a merge driver",
                set("data merge=x diff=x")
                    + "git config merge.x.driver 'echo x > %A'; git config diff.x.textconv 'echo x'\n",
            ),
            attack("a name in upper case", garbled_by(".GitAttributes")),
            attack(
                "a link to attributes",
                write("mine", GARBLED) + "ln -sf mine .gitattributes\n",
            ),
            attack(
                "a file of attributes for git",
                write("mine", GARBLED) + "git config core.attributesFile \"$PWD/mine\"\n",
            ),
            attack(
                "line ends for git",
                "git config core.autocrlf true; git config core.eol crlf\n",
            ),
            // Git would wait for the other end of the pipe.
            row("a pipe for ignored files", Fails, "mkfifo .gitignore"),
            row(
                "a pipe for attributes",
                Fails,
                "rm .gitattributes; mkfifo .gitattributes",
            ),
            row(
                "a pipe in the place of HEAD",
                Fails,
                "rm .git/HEAD; mkfifo .git/HEAD",
            ),
            row(
                "a pipe in the place of packed branches",
                Fails,
                "echo 'ref: refs/heads/x' > .git/HEAD; rm -f .git/packed-refs; mkfifo .git/packed-refs",
            ),
            row(
                "a repository whose HEAD is a pipe",
                Fails,
                "git init -q sub; rm sub/.git/HEAD; mkfifo sub/.git/HEAD",
            ),
            row(
                "a repository whose HEAD leads to a pipe",
                Fails,
                "mkfifo \"$HOME/pipe\"; git init -q sub; ln -sf \"$HOME/pipe\" sub/.git/HEAD",
            ),
        ],
    }
}
