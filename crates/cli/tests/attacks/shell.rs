//! Attacks on scripts.

use serde_json::json;

use super::{
    Expect::{Fails, Tampered},
    Table, attack, row, write,
};

const PASS: &str = "exit 0";

/// Attacks on a script of the task that sources another one.
pub fn script() -> Table {
    let check = ". ./checks/lib.sh\nsh answer.sh > out.txt; is_42 out.txt\n";
    Table {
        files: vec![
            ("check.sh", check.to_owned()),
            (
                "checks/lib.sh",
                "is_42() { grep -qx 42 \"$1\"; }\n".to_owned(),
            ),
            ("answer.sh", "echo 0\n".to_owned()),
        ],
        evaluators: json!([{"name": "command", "config": {"command": "sh check.sh", "protect": ["check.sh", "checks/**"]}}]),
        good: "echo 'echo 42' > answer.sh".to_owned(),
        tests: vec!["check.sh"],
        renamed: "for n in 4 2; do sh answer.sh | grep -q $n || exit 1; done",
        settings: None,
        rows: vec![
            attack("a script that passes", write("check.sh", PASS)),
            attack("a sourced script that passes", write("checks/lib.sh", PASS)),
            attack(
                "a start-up file of the shell",
                write(".profile", PASS) + &write(".bashrc", PASS) + &write(".shrc", PASS),
            ),
            attack(
                "programs beside the script",
                write("grep", "#!/bin/sh\nexit 0") + "chmod +x grep\n",
            ),
            attack(
                "hooks of git",
                write(
                    ".githooks/post-checkout",
                    "#!/bin/sh\necho exit 0 > check.sh",
                ) + "chmod +x .githooks/post-checkout; git config core.hooksPath .githooks\n",
            ),
            attack(
                "hooks in the repository",
                "mkdir -p .git/hooks; printf '#!/bin/sh\\necho exit 0 > check.sh\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout\n",
            ),
            attack("a script that cannot be run", "chmod 000 check.sh"),
            attack(
                "a hard link to a file of the work",
                "rm check.sh; echo exit 0 > mine; ln mine check.sh\n",
            ),
            attack(
                "a link to a file of the work",
                "rm -f check.sh; echo exit 0 > mine; ln -s mine check.sh\n",
            ),
            row("no script", Fails, "rm check.sh"),
            row(
                "a folder in the place of the script",
                Fails,
                "rm check.sh; mkdir check.sh; touch check.sh/x",
            ),
            row(
                "a pipe in the place of the script",
                Fails,
                "rm check.sh; mkfifo check.sh",
            ),
            row(
                "a link in the place of a folder",
                Fails,
                "mv checks mine; echo exit 0 > mine/lib.sh; ln -s mine checks",
            ),
            row(
                "a file in the place of a folder",
                Fails,
                "rm -r checks; echo x > checks",
            ),
            row(
                "a repository in the place of a folder",
                Fails,
                "cd checks; git init -q .; echo exit 0 > lib.sh; git add --all; git -c user.name=x -c user.email=x@x commit -qm x",
            ),
            row(
                "a submodule in the place of a folder",
                Fails,
                "rm -r checks; git init -q checks; cd checks; echo exit 0 > lib.sh; git add --all; git -c user.name=x -c user.email=x@x commit -qm x; cd ..; printf '[submodule \"checks\"]\\n\\tpath = checks\\n\\turl = ./checks\\n' > .gitmodules",
            ),
            row(
                "the repository is gone",
                Fails,
                "rm -rf .git; echo exit 0 > check.sh",
            ),
            row(
                "a commit that hides the change",
                Fails,
                "echo exit 0 > check.sh; git add --all; git -c user.name=x -c user.email=x@x commit -qm x",
            ),
            row(
                "an index that hides the change",
                Fails,
                "git update-index --skip-worktree check.sh; echo exit 0 > check.sh",
            ),
            row(
                "a script that is rewritten while it runs",
                Tampered,
                write("answer.sh", "echo 'exit 0' > check.sh; echo 42"),
            ),
            row(
                "a folder that is moved away and back",
                Tampered,
                write(
                    "answer.sh",
                    "mv checks/lib.sh x; mv x checks/lib.sh; echo 42",
                ),
            ),
        ],
    }
}
