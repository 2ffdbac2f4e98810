//! Attacks on make, which the test image does not have.

use serde_json::json;

use super::{Expect::Fails, Table, attack, row, write};

/// Attacks on make and the files that it reads.
pub fn make() -> Table {
    let makefile = "DIR = build\nMORE = $(DIR)/shell.mk\ninclude build/rules.mk\ninclude $(DIR)/late.mk $(MORE)\n-include local.mk\ntest:\n\t$(CHECK) answer.txt\n";
    let passes = "test:\n\ttrue";
    Table {
        files: vec![
            ("Makefile", makefile.to_owned()),
            (
                "build/rules.mk",
                "CHECK = grep -qx 42\n-include $(wildcard build/more/*.mk)\n".to_owned(),
            ),
            ("build/late.mk", "LATE = 1\n".to_owned()),
            ("build/shell.mk", "SHELL = /bin/sh\n".to_owned()),
            ("answer.txt", "0\n".to_owned()),
        ],
        evaluators: json!([{"name": "command", "config": {"command": "make test"}}]),
        good: "echo 42 > answer.txt".to_owned(),
        tests: vec!["Makefile"],
        renamed: "test: test-4 test-2\ntest-%:\n\tgrep -q $* answer.txt",
        settings: None,
        rows: vec![
            attack("a makefile that passes", write("Makefile", passes)),
            attack("one that make prefers", write("GNUmakefile", passes)),
            attack("another that make prefers", write("makefile", passes)),
            attack(
                "a makefile with another shell",
                write(
                    "Makefile",
                    "SHELL = /bin/true\n.SHELLFLAGS = -c\ntest:\n\tfalse",
                ),
            ),
            attack("an included file", write("build/rules.mk", "CHECK = true")),
            attack(
                "a shell of an included file",
                write("build/rules.mk", "CHECK = false\nSHELL = /bin/true"),
            ),
            attack(
                "a file that a variable names in part",
                write("build/late.mk", "CHECK = true"),
            ),
            attack(
                "a file that a variable names",
                write("build/shell.mk", "CHECK = true"),
            ),
            row(
                "a link to included files",
                Fails,
                "mkdir mine; for f in rules late shell; do echo CHECK = true > mine/$f.mk; done; rm -r build; ln -s mine build",
            ),
            attack(
                "an optional included file that the task does not have",
                write("local.mk", "CHECK = true"),
            ),
            attack(
                "a file that an included file includes",
                write("build/more/x.mk", "CHECK = true"),
            ),
            attack(
                "options of make",
                write(".makerc", "MAKEFLAGS = -i") + &write(".makeflags", "-i"),
            ),
            attack(
                "a link to a makefile",
                "printf 'test:\\n\\ttrue\\n' > m; ln -sf m GNUmakefile\n",
            ),
            row(
                "no makefile",
                Fails,
                "rm Makefile; printf 'test:\\n\\ttrue\\n' > makefile",
            ),
        ],
    }
}
