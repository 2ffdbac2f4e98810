//! `ablate`, `bisect` and `trend`: the agents are scripts whose results depend on their files, on the start revision or
//! on the version of their CLI.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, TestContext, wait_until};
use serde_json::{Value, json};

use crate::{
    suites::json_of,
    support::{context, install_claude, session, shell},
};

/// Writes a suite with this agent and some tasks, which pass if the agent writes `work.txt`; gives its path.
fn suite(context: &TestContext, agent: &Value, tasks: usize) -> Utf8PathBuf {
    let folder = context.root().join("suite");
    fs_err::create_dir_all(folder.join("cases")).unwrap();
    for task in 1..=tasks {
        let case = json!({
            "name": format!("task-{task}"),
            "description": "a task",
            "repo": context.repo().path(),
            "agent": {"type": "null", "config": {"prompt": "do it"}},
            "evaluators": [{"name": "command", "config": {"command": "test -e work.txt"}}],
        });
        let path = folder.join(format!("cases/task-{task}.json"));
        fs_err::write(path, case.to_string()).unwrap();
    }
    let suite = json!({"agents": [agent], "tasks": [{"testcase": "cases/*.json"}], "parallel": 2});
    let path = folder.join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path
}

/// An agent that does the task if a shell command succeeds.
fn works_if(command: &str) -> Value {
    let line = format!("if {command}; then touch work.txt; fi");
    json!({"type": "command", "name": "agent", "config": {"command": ["sh", "-c", line]}})
}

fn write(context: &TestContext, name: &str, text: &str) {
    let path = context.root().join(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, text).unwrap();
}

fn run(context: &TestContext, args: &[&str]) -> Output {
    context.proctor(args.iter().copied()).run()
}

fn answer(output: &Output) -> Value {
    let answer: Value = serde_json::from_str(&output.stdout).unwrap();
    answer["result"].clone()
}

/// The parts with their verdicts.
fn verdicts(result: &Value) -> Vec<String> {
    let parts = result["parts"].as_array().unwrap().iter();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let verdict = |it: &Value| format!("{}: {}", text(&it["part"]), text(&it["verdict"]));
    parts.map(verdict).collect()
}

const RULES: &str = "# Rules\n\n## Tests\nAlways test.\n\n## Style\nUse tabs.\n";

#[test]
fn section_that_the_agent_needs_helps_and_another_has_no_effect() {
    let context = context();
    write(&context, "CLAUDE.md", RULES);
    let path = suite(&context, &works_if("grep -q 'Always test' CLAUDE.md"), 2);
    let args = ["ablate", "CLAUDE.md", path.as_str(), "--trials", "4"];
    let dry = run(&context, &[&args[..], &["--dry-run"]].concat());
    dry.assert_code(0);
    for text in [
        "24 trials: 3 variants of CLAUDE.md with 2 parts on 2 tasks, 4 trials each",
        "usually detects an effect of",
        "without-01-tests: without Tests",
        "nothing was run",
    ] {
        assert!(dry.stdout.contains(text), "{text}: {dry}");
    }
    let output = run(
        &context,
        &[&args[..], &["--equivalent", "0.4", "--json"]].concat(),
    );
    output.assert_code(0);
    let result = answer(&output);
    assert_eq!(
        verdicts(&result),
        ["Tests: helps", "Style: no-measurable-effect"],
        "{result:#}"
    );
    assert_eq!(result["parts"][0]["effect"], 1.0);
    assert_eq!(result["parts"][0]["tokens"], Value::Null, "unknown is null");
    // The file is not part of the task, and the same run answers again without new trials.
    let again = run(&context, &[&args[..], &["--resume"]].concat());
    again.assert_code(4);
    assert!(
        again.stdout.starts_with("Tests helps; 1 part undecided\n"),
        "{again}"
    );
}

#[test]
fn item_that_misleads_the_agent_hurts() {
    let context = context();
    write(&context, "rules.md", "- Be brief.\n- Never\n  test.\n");
    let path = suite(&context, &works_if("! grep -q Never CLAUDE.md"), 1);
    let args = [
        "ablate",
        "rules.md",
        path.as_str(),
        "--by",
        "item",
        "--as",
        "CLAUDE.md",
    ];
    let output = run(&context, &[&args[..], &["--trials", "6"]].concat());
    output.assert_code(1);
    assert!(
        output.stdout.starts_with("Never hurts; 1 part undecided\n"),
        "{output}"
    );
    assert!(output.stdout.contains("−100 points"), "{output}");
}

#[test]
fn many_parts_are_removed_several_at_a_time() {
    let context = context();
    let items: Vec<String> = (1..=10).map(|it| format!("- rule {it};\n")).collect();
    write(&context, "CLAUDE.md", &items.concat());
    let path = suite(&context, &works_if("grep -q 'rule 7;' CLAUDE.md"), 1);
    let args = ["ablate", "CLAUDE.md", path.as_str(), "--by", "item"];
    let output = run(
        &context,
        &[&args[..], &["--trials", "2", "--json"]].concat(),
    );
    output.assert_code(4);
    let result = answer(&output);
    assert_eq!(result["one_at_a_time"], false);
    let mut helping = verdicts(&result);
    helping.retain(|it| it.ends_with(" helps"));
    assert_eq!(helping, ["rule 7;: helps"], "{result:#}");
}

#[test]
fn files_skills_and_servers_are_removed_as_a_whole() {
    let context = context();
    install_claude(
        &context,
        &session(&[shell(
            "if [ -e .claude/skills/good/SKILL.md ]; then touch work.txt; fi",
        )]),
    );
    for skill in ["good", "other"] {
        let text = format!("---\nname: {skill}\ndescription: A skill.\n---\nDo it.\n");
        write(&context, &format!("suite/skills/{skill}/SKILL.md"), &text);
    }
    write(&context, "suite/rules/a.md", "a\n");
    write(&context, "suite/rules/more/b.md", "b\n");
    let servers = json!({"mcpServers": {"one": {"command": "true"}, "two": {"command": "true"}}});
    write(&context, "suite/mcp.json", &servers.to_string());
    let agent =
        json!({"type": "claude-code", "config": {"require_mcp": false, "mcp_config": "mcp.json"}});
    let path = suite(&context, &agent, 1);
    let output = run(
        &context,
        &[
            "ablate",
            "suite/skills",
            path.as_str(),
            "--trials",
            "6",
            "--json",
        ],
    );
    let result = answer(&output);
    assert_eq!(
        verdicts(&result),
        ["good: helps", "other: undecided"],
        "{output}"
    );
    assert_eq!(result["parts"][0]["tokens"]["difference"], 0.0);
    for (file, expected) in [
        ("suite/rules", "3 variants of suite/rules with 2 files"),
        (
            "suite/mcp.json",
            "3 variants of suite/mcp.json with 2 servers",
        ),
        ("suite/mcp.json", "without-02-two: without two"),
    ] {
        let output = run(&context, &["ablate", file, path.as_str(), "--dry-run"]);
        output.assert_code(0);
        assert!(output.stdout.contains(expected), "{expected}: {output}");
    }
    let made = context.root().join("suite/results/ablation");
    let sizes = made.read_dir_utf8().unwrap().map(|entry| {
        let written = json_of(&entry.unwrap().into_path());
        written["mcpServers"].as_object().unwrap().len()
    });
    let mut sizes: Vec<usize> = sizes.collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 2]);
}

#[test]
fn line_that_breaks_the_agent_is_found() {
    let context = context();
    let lines: Vec<String> = (1..=12).map(|it| format!("rule {it};\n\n")).collect();
    write(&context, "CLAUDE.md", &lines.concat());
    let path = suite(&context, &works_if("! grep -q 'rule 9;' CLAUDE.md"), 2);
    let args = ["bisect", "--file", "CLAUDE.md", path.as_str()];
    let dry = run(&context, &[&args[..], &["--dry-run"]].concat());
    dry.assert_code(0);
    assert!(
        dry.stdout.starts_with(
            "13 versions from no lines to line 23: rule 12; on 2 tasks: 4 trials at a time, at most 240 in all\n"
        ),
        "{dry}"
    );
    let output = run(&context, &args);
    output.assert_code(1);
    assert!(
        output.stdout.starts_with("worse since line 17: rule 9; ("),
        "{output}"
    );
}

#[test]
fn search_without_a_change_says_so_and_a_small_budget_does_not_decide() {
    let context = context();
    write(&context, "CLAUDE.md", "a\nb\nc\n");
    let path = suite(&context, &works_if("true"), 2);
    let args = ["bisect", "--file", "CLAUDE.md", path.as_str()];
    let small = run(&context, &[&args[..], &["--max-trials", "5"]].concat());
    small.assert_code(4);
    assert!(
        small.stdout.starts_with("cannot be decided after 4 trials"),
        "{small}"
    );
    assert!(small.stdout.contains("--resume --max-trials 10"), "{small}");
    let whole = run(&context, &[&args[..], &["--resume", "--json"]].concat());
    whole.assert_code(0);
    let result = answer(&whole);
    assert_eq!(
        (&result["first_bad"], &result["is_decided"]),
        (&Value::Null, &json!(true)),
        "{result:#}"
    );
}

#[test]
fn commit_since_which_trials_fail_is_found() {
    let context = context();
    let repo = context.repo();
    let first = repo.head();
    for number in 1..=8 {
        let config = format!("{}\n", if number < 6 { "fine" } else { "broken" });
        let note = format!("{number}\n");
        repo.commit(
            &format!("change {number}"),
            &[("config.txt", config.as_str()), ("note.txt", note.as_str())],
        );
    }
    let path = suite(&context, &works_if("! grep -q broken config.txt"), 1);
    let search = |more: &[&str]| {
        let args = [
            "bisect",
            "--refs",
            "--good",
            &first,
            "--bad",
            "HEAD",
            path.as_str(),
        ];
        let all = args.iter().chain(more).copied();
        context.proctor(all).current_dir(repo.path()).run()
    };
    let output = search(&[]);
    output.assert_code(1);
    assert!(output.stdout.starts_with("worse since "), "{output}");
    assert!(output.stdout.contains(" change 6 ("), "{output}");
    // Only two commits changed the file.
    let output = search(&["--file", "config.txt", "--dry-run"]);
    output.assert_code(0);
    assert!(output.stdout.starts_with("3 versions from "), "{output}");
}

/// A registry of Claude Code: an `npm` that lists versions and installs scripts. From 1.0.6 on, they do not do the task.
/// One version is listed and cannot be installed.
fn install_npm(context: &TestContext, missing: &str) {
    install_claude(
        context,
        &session(&[shell("test -e broken || touch work.txt")]),
    );
    let fake = context.bin();
    let text = format!(
        r#"#!/bin/sh
set -e
if [ "$1" = view ]; then
  echo '["1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5", "1.0.6-rc.1", "1.0.6", "1.0.7", "1.0.8"]'
  exit
fi
for wanted; do :; done
version=${{wanted##*@}}
if [ "$version" = '{missing}' ]; then exit 1; fi
mkdir -p "$3/node_modules/.bin"
case $version in
  1.0.[6-8]) line='touch broken' ;;
  *) line=: ;;
esac
printf '#!/bin/sh\ncase "$*" in *stream-json*) %s ;; esac\nexec %s/claude "$@"\n' "$line" '{fake}' > "$3/node_modules/.bin/claude"
chmod +x "$3/node_modules/.bin/claude"
"#
    );
    let npm = fake.join("npm");
    fs_err::write(&npm, text).unwrap();
    fs_err::set_permissions(npm, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn version_of_the_registry_since_which_trials_fail_is_found() {
    let context = context();
    install_npm(&context, "");
    let path = suite(&context, &json!({"type": "claude-code"}), 1);
    let args = ["bisect", "--agent", "claude-code", path.as_str()];
    let range = ["--good", "1.0.2", "--bad", "1.0.8", "--json"];
    let output = run(&context, &[&args[..], &range].concat());
    output.assert_code(1);
    let result = answer(&output);
    assert_eq!(result["first_bad"], "1.0.6", "{result:#}");
    assert_eq!(result["versions"].as_array().unwrap().len(), 7);
    let output = run(
        &context,
        &[&args[..], &["--good", "1.0.2", "--bad", "2"]].concat(),
    );
    output.assert_code(2);
    assert!(output.stderr.contains("unknown version `2`"), "{output}");
    // The list of an offline machine.
    write(
        &context,
        "versions.txt",
        "# oldest first\n1.0.4\n1.0.5\n\n1.0.6\n",
    );
    let list = ["--versions", "versions.txt", "--dry-run"];
    let output = run(&context, &[&args[..], &list].concat());
    output.assert_code(0);
    assert!(
        output.stdout.starts_with("3 versions from 1.0.4 to 1.0.6"),
        "{output}"
    );
}

#[test]
fn version_that_cannot_be_installed_is_passed_over() {
    let context = context();
    install_npm(&context, "1.0.5");
    let path = suite(&context, &json!({"type": "claude-code"}), 1);
    let args = ["bisect", "--agent", "claude-code", path.as_str()];
    let range = ["--good", "1.0.2", "--bad", "1.0.8", "--json"];
    let output = run(
        &context,
        &[&args[..], &range, &["--retry-infra", "0"]].concat(),
    );
    output.assert_code(1);
    let result = answer(&output);
    assert_eq!(result["first_bad"], "1.0.6", "{result:#}");
    assert_eq!(result["untried"], json!(["1.0.5"]), "{result:#}");
    let sentence = result["sentence"].as_str().unwrap();
    let expected = "worse since 1.0.6 or 1.0.5, which could not be tried (";
    assert!(sentence.starts_with(expected), "{sentence}");
    // The search does not spend its budget on neighbours that say nothing more.
    assert!(
        result["trials"].as_u64().is_some_and(|it| it < 60),
        "{result:#}"
    );
}

#[test]
fn killed_search_continues_with_its_trials() {
    let context = context();
    write(&context, "CLAUDE.md", "a\nb\nbroken\nd\ne\nf\n");
    let root = context.root();
    // The sixth trial waits until the search is killed.
    let command = format!(
        "echo x >> {root}/launches; if [ $(wc -l < {root}/launches) -ge 6 ] && [ ! -e {root}/go ]; then touch {root}/waiting; sleep 60; fi; ! grep -q broken CLAUDE.md"
    );
    let path = suite(&context, &works_if(&command), 1);
    let args = [
        "bisect",
        "--file",
        "CLAUDE.md",
        path.as_str(),
        "--parallel",
        "1",
    ];
    let mut running = context.proctor(args).spawn();
    wait_until(Duration::from_mins(1), "the sixth trial", || {
        root.join("waiting").exists()
    });
    running.kill();
    running.wait();
    write(&context, "go", "");
    let changed = run(
        &context,
        &[&args[..], &["--resume", "--drop", "0.3"]].concat(),
    );
    changed.assert_code(2);
    let output = run(&context, &[&args[..], &["--resume", "--json"]].concat());
    output.assert_code(1);
    let result = answer(&output);
    assert_eq!(result["first_bad"], "line 3: broken", "{result:#}");
    let launches = fs_err::read_to_string(root.join("launches")).unwrap();
    let trials = usize::try_from(result["trials"].as_u64().unwrap()).unwrap();
    assert_eq!(launches.lines().count(), trials + 1, "{result:#}");
    let summary = json_of(&root.join(".proctor/latest/summary.json"));
    assert_eq!(summary["trials"].as_array().unwrap().len(), trials);
}

/// Copies a run as that of another night.
fn copy_night(context: &TestContext, runs: &Utf8Path, from: &Utf8Path, night: usize) {
    let name = format!(
        "2026{:02}{:02}-020000-{night:08x}",
        1 + night / 28,
        1 + night % 28
    );
    let night = runs.join(name);
    let args = ["-r", from.as_str(), night.as_str()];
    context.program("cp".into(), args).run().assert_code(0);
}

#[test]
fn drop_of_labelled_nights_raises_an_alarm_and_a_changed_definition_is_a_break() {
    let context = context();
    let flag = context.root().join("flag");
    let path = suite(&context, &works_if(&format!("[ -e {flag} ]")), 2);
    let runs = context.root().join(".proctor");
    let night = |name: &str| {
        run(&context, &["run", path.as_str(), "--label", "nightly=main"]);
        let latest = context.root().join(".proctor/latest");
        let kept = context.root().join(name);
        fs_err::rename(latest.canonicalize_utf8().unwrap(), &kept).unwrap();
        kept
    };
    fs_err::write(&flag, "").unwrap();
    let good = night("good");
    fs_err::remove_file(&flag).unwrap();
    let bad = night("bad");
    let trend = |more: &[&str]| {
        let args = ["trend", "--label", "nightly=main"].iter().chain(more);
        let program = context.proctor(args.copied());
        program.current_dir(context.root().join("suite")).run()
    };
    for number in 0..5 {
        copy_night(&context, &runs, &good, number);
    }
    let few = trend(&[]);
    few.assert_code(4);
    assert!(
        few.stdout
            .starts_with("agent: cannot be decided after 5 nights"),
        "{few}"
    );
    for number in 5..30 {
        copy_night(&context, &runs, &good, number);
    }
    let steady = trend(&["--agent", "agent"]);
    steady.assert_code(0);
    assert!(
        steady
            .stdout
            .starts_with("agent: no drop in 30 nights, mean score 1.000\n"),
        "{steady}"
    );
    for number in 30..50 {
        copy_night(&context, &runs, &bad, number);
    }
    let output = trend(&["--json"]);
    output.assert_code(1);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let agent = &report["agents"][0];
    assert_eq!(agent["since"], "2026-02-03T02:00", "{agent:#}");
    let listed = run(&context, &["list", "runs", ".proctor"]);
    assert!(listed.stdout.contains("  nightly=main\n"), "{listed}");
    // Another definition of the agent: the nights before are not combined with it.
    suite(&context, &works_if("true"), 2);
    let other = night("other");
    copy_night(&context, &runs, &other, 50);
    let output = trend(&[]);
    output.assert_code(4);
    for text in [
        "agent: cannot be decided after 1 night",
        "-- definition changed --",
        "Is this intended?",
        "`proctor compare ",
    ] {
        assert!(output.stdout.contains(text), "{text}: {output}");
    }
}

#[test]
fn unusable_input_is_refused_with_a_hint() {
    let context = context();
    write(&context, "CLAUDE.md", "no sections\n");
    write(&context, "versions.txt", "1.0.1\n");
    fs_err::create_dir_all(context.root().join("empty")).unwrap();
    let path = suite(&context, &works_if("true"), 1);
    for (args, message, hint) in [
        (
            &["ablate", "CLAUDE.md"][..],
            "CLAUDE.md has no parts",
            "--by item",
        ),
        (&["ablate", "none.md"], "cannot read none.md", "a text file"),
        (&["ablate", "empty"], "empty has no files", "--by"),
        (
            &["ablate", "empty", "--by", "section"],
            "the parts of empty are files",
            "--by file",
        ),
        (&["bisect"], "no versions to search", "--refs"),
        (
            &["bisect", "--good", "1", "--bad", "2"],
            "agent `command` has no versions",
            "--agent claude-code",
        ),
        (
            &["bisect", "--file", "CLAUDE.md", "--good", "1"],
            "--good and --bad have no effect",
            "--refs",
        ),
        (
            &["bisect", "--versions", "versions.txt"],
            "fewer than two versions",
            "later than the good one",
        ),
        (
            &["run", "--label", "a=1", "--label", "a=2"],
            "--label a is given twice",
            "another key",
        ),
    ] {
        let output = run(&context, &[args, &[path.as_str()]].concat());
        output.assert_code(2);
        for text in [message, hint] {
            assert!(output.stderr.contains(text), "{text}: {output}");
        }
    }
    for args in [
        &["trend"][..],
        &["trend", "--label", "x"],
        &["run", "--label", "x"],
        &["bisect", "--drop", "2"],
    ] {
        run(&context, args).assert_code(2);
    }
}
