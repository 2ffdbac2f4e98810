//! Error messages for test cases that are not valid.

use insta::assert_snapshot;

use super::{Folder, and, good, refusal, with};

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    assert_snapshot!(refusal(with("description:", "descripton:")), @"
    testcase.yaml:2:1: unknown key `descripton`
     2 | descripton: The agent fixes one bug
       | ^^^^^^^^^^
    hint: did you mean `description`?
    ");
    assert_snapshot!(refusal(and("zzz: 1")), @"
    testcase.yaml:10:1: unknown key `zzz`
     10 | zzz: 1
        | ^^^
    hint: known: `$schema`, `name`, `description`, `repo`, `branch`, `commit`, `history`, `expected_source`, `expected`, `reference`, `solution_paths`, `pre_execution`, `post_evaluation`, `agent`, `evaluators`, `workspace_dir`, `workspace_name`, `timeout`, `tell_deadline`, `idle_timeout`, `no_progress_timeout`, `loop_limit`, `output`, `gateway`
    ");
    assert_snapshot!(refusal(with("  type: claude-code", "  typ: claude-code")), @"
    testcase.yaml:5:3: unknown key `typ`
     5 |   typ: claude-code
       |   ^^^
    hint: did you mean `type`?
    ");
    assert_snapshot!(refusal(with("- git-diff", "- nam: git-diff")), @"
    testcase.yaml:9:5: unknown key `nam`
     9 |   - nam: git-diff
       |     ^^^
    hint: did you mean `name`?
    ");
}

#[test]
fn missing_keys_are_named() {
    assert_snapshot!(refusal(with("name: Fix the bug\n", "")), @"
    testcase.yaml:1:1: missing key `name`
     1 | description: The agent fixes one bug
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(refusal(with("  type: claude-code\n", "")), @"
    testcase.yaml:4:1: missing key `type`
     4 | agent:
       | ^^^^^
    hint: name the agent, such as `type: claude-code`
    ");
    assert_snapshot!(refusal("just text"), @r#"
    testcase.yaml:1:1: expected a map, found the string "just text"
     1 | just text
       | ^^^^^^^^^
    "#);
}

#[test]
fn wrong_types_are_reported_with_the_value() {
    assert_snapshot!(refusal(and("timeout: soon")), @r#"
    testcase.yaml:10:10: expected a whole number, found the string "soon"
     10 | timeout: soon
        |          ^^^^
    "#);
    assert_snapshot!(refusal(and("timeout: -1")), @"
    testcase.yaml:10:10: expected a whole number, 0 or more, found the whole number -1
     10 | timeout: -1
        |          ^^
    ");
    assert_snapshot!(refusal(and("commit: 1234567")), @"
    testcase.yaml:10:9: expected a string, found the whole number 1234567
     10 | commit: 1234567
        |         ^^^^^^^
    hint: put it in quotes
    ");
    assert_snapshot!(refusal(and("branch:")), @"
    testcase.yaml:10:1: the key has no value
     10 | branch:
        | ^^^^^^
    hint: add a value or remove the key
    ");
    assert_snapshot!(refusal(with("\n  - git-diff", " git-diff")), @r#"
    testcase.yaml:8:13: expected a list, found the string "git-diff"
     8 | evaluators: git-diff
       |             ^^^^^^^^
    "#);
    assert_snapshot!(refusal(with("\n    prompt: Fix it", " [x]")), @"
    testcase.yaml:6:11: expected a map, found a list
     6 |   config: [x]
       |           ^^^
    ");
}

#[test]
fn duplicate_keys_are_reported_with_both_positions() {
    assert_snapshot!(refusal(and("name: again\nagent: {}")), @"
    testcase.yaml:10:1: duplicate key `name`
     10 | name: again
        | ^^^^
    hint: it is already set on line 1; remove one of them

    testcase.yaml:11:1: duplicate key `agent`
     11 | agent: {}
        | ^^^^^
    hint: it is already set on line 4; remove one of them
    ");
}

#[test]
fn faults_of_all_sections_are_reported_together() {
    let text =
        with("type: claude-code", "tipe: x").replace("- git-diff", "- {name: 3}") + "wrong: 1\n";
    assert_snapshot!(refusal(text), @"
    testcase.yaml:5:3: unknown key `tipe`
     5 |   tipe: x
       |   ^^^^
    hint: did you mean `type`?

    testcase.yaml:9:12: expected a string, found the whole number 3
     9 |   - {name: 3}
       |            ^
    hint: put it in quotes

    testcase.yaml:10:1: unknown key `wrong`
     10 | wrong: 1
        | ^^^^^
    hint: known: `$schema`, `name`, `description`, `repo`, `branch`, `commit`, `history`, `expected_source`, `expected`, `reference`, `solution_paths`, `pre_execution`, `post_evaluation`, `agent`, `evaluators`, `workspace_dir`, `workspace_name`, `timeout`, `tell_deadline`, `idle_timeout`, `no_progress_timeout`, `loop_limit`, `output`, `gateway`
    ");
}

#[test]
fn unsupported_values_are_refused() {
    assert_snapshot!(refusal(with("type: claude-code", "backend: gemini")), @"
    testcase.yaml:5:12: unsupported backend `gemini`
     5 |   backend: gemini
       |            ^^^^^^
    hint: known: `claude`, `auto`
    ");
}

#[test]
fn keys_that_depend_on_each_other_are_checked() {
    assert_snapshot!(refusal(and("expected: solved")), @"
    testcase.yaml:10:1: `expected` requires `expected_source`
     10 | expected: solved
        | ^^^^^^^^
    hint: add `expected_source: branch`
    ");
    assert_snapshot!(refusal(and("expected_source: file\nexpected: x")), @"
    testcase.yaml:10:18: unknown value `file`
     10 | expected_source: file
        |                  ^^^^
    hint: known: `branch`
    ");
    assert_snapshot!(refusal(and("expected_source: branch\nexpected: x\nreference: y")), @"
    testcase.yaml:12:1: `reference` and `expected` cannot be combined
     12 | reference: y
        | ^^^^^^^^^
    hint: a task has one reference solution; remove one of them
    ");
    assert_snapshot!(refusal(with("type: claude-code", "type: claude-code\n  backend: auto")), @"
    testcase.yaml:6:3: both `type` and `backend` are given
     6 |   backend: auto
       |   ^^^^^^^
    hint: keep `type`
    ");
    assert_snapshot!(refusal(with("- git-diff", "- {name: a, file: b}")), @"
    testcase.yaml:9:15: `name` and `file` cannot be combined
     9 |   - {name: a, file: b}
       |               ^^^^
    hint: remove one of them
    ");
    assert_snapshot!(refusal(with("- git-diff", "- {file: b, config: {}}")), @"
    testcase.yaml:9:15: `config` has no effect with `file`
     9 |   - {file: b, config: {}}
       |               ^^^^^^
    hint: move it to the definition file
    ");
    assert_snapshot!(refusal(with("\n  - git-diff", " []")), @"
    testcase.yaml:8:13: `evaluators` is empty
     8 | evaluators: []
       |             ^^
    hint: name at least one, such as `- git-diff`
    ");
}

#[test]
fn limits_hold_at_their_bounds() {
    let long = |count| "x".repeat(count);
    good(&with("Fix the bug", &"é".repeat(200)));
    assert!(
        refusal(with("Fix the bug", &long(201))).contains("201 characters, the maximum is 200")
    );
    good(&with("The agent fixes one bug", &long(1000)));
    assert!(refusal(with("The agent fixes one bug", &long(1001))).contains("the maximum is 1000"));
    good(&and(&format!("workspace_name: {}", long(100))));
    assert!(refusal(and(&format!("workspace_name: {}", long(101)))).contains("more than 100"));
    good(&and("timeout: 1"));
    good(&and("output: {transcript_bytes: 1}"));
    assert!(refusal(and("output: {raw_bytes: 0}")).contains("`raw_bytes` must be at least 1"));
}

#[test]
fn invalid_values_are_refused_with_the_reason() {
    assert_snapshot!(refusal(with("Fix the bug", "' '")), @"
    testcase.yaml:1:7: invalid `name`: it is empty
     1 | name: ' '
       |       ^^^
    ");
    assert_snapshot!(refusal(and("workspace_name: -x")), @"
    testcase.yaml:10:17: invalid `workspace_name`: it must start with a letter or digit and hold only letters, digits, `.`, `_` and `-`
     10 | workspace_name: -x
        |                 ^^
    ");
    assert_snapshot!(refusal(and("branch: --upload-pack=x")), @"
    testcase.yaml:10:9: invalid `branch`: it must not start with `-`
     10 | branch: --upload-pack=x
        |         ^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(refusal(with("https://example.com/repo.git", "ftp://x/y")), @"
    testcase.yaml:3:7: invalid `repo`: `ftp` URLs are not supported; use https, http, ssh or file
     3 | repo: ftp://x/y
       |       ^^^^^^^^^
    ");
    assert_snapshot!(refusal(and("reference: ../fix.patch")), @"
    testcase.yaml:10:12: invalid `reference`: it must not contain `..`
     10 | reference: ../fix.patch
        |            ^^^^^^^^^^^^
    ");
    assert!(refusal(and("reference: fix.patch")).contains("file not found in"));
    assert_snapshot!(refusal(and("reference: testcase.yaml")), @"
    testcase.yaml:10:12: invalid `reference`: testcase.yaml, line 1: this is not a patch: it has no `diff --git` header and no `---`, `+++` and `@@` lines
     10 | reference: testcase.yaml
        |            ^^^^^^^^^^^^^
    ");
}

#[test]
fn malformed_files_are_reported_with_the_position() {
    assert_snapshot!(refusal("name: a: b\n"), @"
    testcase.yaml:1:8: not valid YAML: mapping values are not allowed in this context
     1 | name: a: b
       |        ^
    hint: put a value that contains `: ` in quotes; if there is none, look above for a key without its `:`, or a `-` without a space
    ");
    assert_snapshot!(refusal("name: @x\n"), @"
    testcase.yaml:1:7: not valid YAML: unexpected character: `@'
     1 | name: @x
       |       ^
    hint: put the value in quotes
    ");
    assert_snapshot!(refusal("name: 'open\nrepo: x\n"), @"
    testcase.yaml:2:1: not valid YAML: invalid indentation in multiline quoted scalar
     2 | repo: x
       | ^
    hint: is a closing quote missing?
    ");
    assert_snapshot!(refusal("name: [1, 2\n"), @"
    testcase.yaml:1:7: not valid YAML: unclosed bracket '['
     1 | name: [1, 2
       |       ^
    ");
    assert_snapshot!(refusal("name: x\n---\nname: y\n"), @"
    testcase.yaml:2:1: a second document in the file
     2 | ---
       | ^^^
    hint: a file can have only one document; remove the `---`
    ");
    assert_snapshot!(refusal("name: !secret x\n"), @"
    testcase.yaml:1:15: unsupported tag `!secret`
     1 | name: !secret x
       |               ^
    ");
    assert_snapshot!(refusal("name: *nope\n"), @"
    testcase.yaml:1:7: not valid YAML: while parsing node, found unknown anchor
     1 | name: *nope
       |       ^
    hint: `*name` repeats the value marked `&name`; put text that starts with `*` in quotes
    ");
    assert_snapshot!(refusal(""), @"
    testcase.yaml:1:1: the file is empty
    hint: `proctor init` writes an example test case
    ");
    assert_snapshot!(refusal("# nothing\n"), @"
    testcase.yaml:1:1: the file is empty
     1 | # nothing
       | ^
    hint: `proctor init` writes an example test case
    ");
    assert_snapshot!(refusal(b"name: ok\nrepo: \xff\xfe\n"), @"
    testcase.yaml:2:7: the file is not UTF-8 text
     2 | repo: ��
       |       ^
    hint: save it as UTF-8
    ");
}

#[test]
fn malformed_json_is_not_read_as_yaml() {
    let folder = Folder::new();
    folder.write("case.json", "{\n  \"name\": \"x\",\n}\n");
    assert_snapshot!(folder.refusal("case.json"), @"
    case.json:3:1: not valid JSON: key must be a string
     3 | }
       | ^
    ");
    folder.write("case.json", "{\"name\": 'x'}");
    assert_snapshot!(folder.refusal("case.json"), @r#"
    case.json:1:10: not valid JSON: expected value
     1 | {"name": 'x'}
       |          ^
    "#);
}

#[test]
fn unreadable_files_are_reported_with_the_cause() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    assert_snapshot!(folder.refusal("nope.yaml"), @"
    nope.yaml: file not found
    hint: check the path; `proctor init` writes an example test case
    ");
    assert_snapshot!(folder.refusal("dir"), @"
    dir: expected a file, found a directory
    hint: pass the file in it, such as `testcase.yaml`
    ");
}

#[test]
fn faults_in_definition_files_are_reported_at_their_position() {
    let folder = Folder::new();
    folder.write(
        "testcase.yaml",
        with("- git-diff", "- file: eval/size.yaml"),
    );
    assert!(
        folder
            .refusal("testcase.yaml")
            .contains("file not found in")
    );
    folder.write("eval/size.yaml", "name: git-diff\nconfg: {}\n");
    assert_snapshot!(folder.refusal("testcase.yaml"), @"
    eval/size.yaml:2:1: unknown key `confg`
     2 | confg: {}
       | ^^^^^
    hint: did you mean `config`?
    ");
    folder.write("testcase.yaml", with("- git-diff", "- file: ../size.yaml"));
    assert_snapshot!(folder.refusal("testcase.yaml"), @"
    testcase.yaml:9:11: cannot read the definition file `../size.yaml`: it must not contain `..`
     9 |   - file: ../size.yaml
       |           ^^^^^^^^^^^^
    ");
}
