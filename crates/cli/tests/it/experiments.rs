//! `proctor ab` and `proctor experiment`: from two variants to one sentence and its exit code. The
//! agents are shell commands, so that each test knows the true answer.

use std::os::unix::fs::PermissionsExt;

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::{suites::json_of, support::context};

/// An agent that succeeds if RULES.md wants it to, and writes a line into `{starts}`.
pub(crate) const AGENT: &str =
    "echo start >> {starts}; if grep -q good RULES.md; then touch ok; fi";

/// Writes test cases of these names and a suite with one agent that runs `command`.
pub(crate) fn suite(
    context: &TestContext,
    tasks: &[&str],
    command: &str,
    more: &Value,
) -> Utf8PathBuf {
    let folder = context.root().join("suite");
    fs_err::create_dir_all(folder.join("cases")).unwrap();
    for name in tasks {
        let case = json!({
            "name": name,
            "description": "a task",
            "repo": context.repo().path(),
            "agent": {"type": "null", "config": {"prompt": format!("do {name}")}},
            "evaluators": [{"name": "command", "config": {"command": "test -e ok"}}],
        });
        fs_err::write(folder.join(format!("cases/{name}.json")), case.to_string()).unwrap();
    }
    // As a variable, the file would be part of the agent's definition.
    let starts = context.root().join("starts");
    let command = command.replace("{starts}", starts.as_str());
    let mut suite = json!({
        "agents": [{"type": "command", "config": {"command": ["sh", "-c", command]}}],
        "tasks": [{"testcase": "cases/*.json"}],
        "parallel": 2,
    });
    let members = suite.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let path = folder.join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path
}

fn ab(context: &TestContext, path: &Utf8PathBuf, more: &[&str]) -> Output {
    let args = ["ab", path.as_str()].into_iter();
    context.proctor(args.chain(more.iter().copied())).run()
}

fn starts(context: &TestContext) -> usize {
    let text = fs_err::read_to_string(context.root().join("starts"));
    text.unwrap_or_default().lines().count()
}

fn latest(context: &TestContext) -> Utf8PathBuf {
    let latest = context.root().join(".proctor/latest");
    latest.canonicalize_utf8().unwrap()
}

#[test]
fn better_variant_is_found_and_the_page_has_the_answer() {
    let context = context();
    let path = suite(&context, &["one"], AGENT, &json!({}));
    let variants = ["--a", "RULES.md=text:bad", "--b", "RULES.md=text:good"];
    let output = ab(&context, &path, &variants);
    output.assert_code(0);
    // One task needs four trials of each variant, so that any result is significant.
    for text in [
        "8 trials: b against a on 1 task, 4 trials each",
        "time and cost: unknown before the first trials",
        "this size usually detects a difference of",
        "unknown cost in all, from the first 2 trials",
    ] {
        assert!(output.stderr.contains(text), "{text}: {output}");
    }
    let first = output.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("b is better: +100 points [") && first.ends_with("on exactly this task"),
        "{output}"
    );
    for text in [
        "Passed only by b: one.",
        "As planned before the first trial (plan ",
        "Delivery unknown: file RULES.md of a ",
    ] {
        assert!(output.stdout.contains(text), "{text}: {output}");
    }
    let page = output.stdout.lines().last().unwrap();
    let page = page.strip_prefix("page: ").unwrap();
    let html = fs_err::read_to_string(page).unwrap();
    assert!(html.contains(&first.replace('&', "&amp;")), "{first}");

    // The next run is estimated from this one, and its answer is the opposite.
    let variants = ["--a", "RULES.md=text:good", "--b", "RULES.md=text:bad"];
    let output = ab(&context, &path, &[&variants[..], &["--json"]].concat());
    output.assert_code(1);
    assert!(output.stderr.contains("from 8 earlier trials"), "{output}");
    let answer: Value = serde_json::from_str(&output.stdout).unwrap();
    let result = &answer["results"][0];
    assert_eq!(result["decision"], "worse", "{answer:#}");
    assert_eq!(result["flipped"]["lost"], json!(["one"]), "{answer:#}");
    assert_eq!(result["registration"]["deviations"], json!([]));
    assert!(Utf8PathBuf::from(answer["page"].as_str().unwrap()).is_file());
    // The report of the run has the same answer.
    let run = latest(&context);
    let report = context.proctor(["report", run.as_str()]).run();
    let sentence = result["sentence"].as_str().unwrap();
    assert!(report.stdout.starts_with(sentence), "{report}");
}

#[test]
fn equal_variants_are_undecided_and_the_advice_is_not_too_optimistic() {
    let context = context();
    let path = suite(&context, &["one", "two"], "touch ok", &json!({}));
    let output = ab(
        &context,
        &path,
        &["--b", "NOTES.md=text:x", "--equivalent", "0.2"],
    );
    output.assert_code(4);
    // 14 units without a difference show a margin of 20 points: 2 tasks with 3 trials are 6.
    let expected =
        "cannot be decided: 3 more tasks or 4 more trials of these 2 tasks would decide it";
    assert_eq!(output.stdout.lines().next(), Some(expected), "{output}");
    let more = [
        "--b",
        "NOTES.md=text:x",
        "--equivalent",
        "0.2",
        "--trials",
        "7",
    ];
    let output = ab(&context, &path, &more);
    output.assert_code(0);
    let first = output.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("no difference larger than 20 points: +0 points ["),
        "{output}"
    );
}

#[test]
fn settled_experiment_stops_early_and_the_schedule_survives_a_resume() {
    let context = context();
    let path = suite(&context, &["one", "two"], AGENT, &json!({}));
    let variants = ["--a", "RULES.md=text:bad", "--b", "RULES.md=text:good"];
    let more = ["--until-settled", "--trials", "8"];
    let args = [&variants[..], &more].concat();
    let output = ab(&context, &path, &args);
    output.assert_code(0);
    assert!(output.stdout.contains("Analysis 2 of 4"), "{output}");
    assert!(
        output.stdout.contains("stopped after 16 of 32 trials"),
        "{output}"
    );
    assert_eq!(starts(&context), 16);
    let answer = |output: &Output| -> Vec<String> {
        let lines = output.stdout.lines().filter(|it| !it.starts_with("time"));
        lines.map(str::to_owned).collect()
    };
    // As after a kill: a trial without a record, and one with a record that it was interrupted.
    let trials = latest(&context).join("trials/b");
    fs_err::remove_dir_all(trials.join("one/trial-3")).unwrap();
    let record = trials.join("two/trial-4/artifacts/record.json");
    let mut broken = json_of(&record);
    broken["outcome"] = json!("interrupted");
    broken["status"] = json!("interrupted");
    broken["score"] = Value::Null;
    fs_err::write(&record, broken.to_string()).unwrap();
    let resumed = ab(&context, &path, &[&args[..], &["--resume"]].concat());
    resumed.assert_code(0);
    assert_eq!(answer(&resumed), answer(&output));
    assert_eq!(starts(&context), 18);
    // Other analyses, or another definition, are another experiment.
    for (more, message) in [
        (vec!["--equivalent", "0.1"], "the experiment's settings"),
        (vec!["--seed", "3"], "seed: "),
    ] {
        let output = ab(&context, &path, &[&args[..], &["--resume"], &more].concat());
        output.assert_code(2);
        assert!(output.stderr.contains(message), "{output}");
    }
    let changed = ["--a", "RULES.md=text:worse", "--b", "RULES.md=text:good"];
    for more in [vec!["--resume"], vec!["--resume", "--accept-changes"]] {
        let output = ab(
            &context,
            &path,
            &[&changed[..], &["--until-settled", "--trials", "8"], &more].concat(),
        );
        output.assert_code(2);
        for text in [
            "an experiment compares fixed definitions",
            "/files/RULES.md/sha256",
        ] {
            assert!(output.stderr.contains(text), "{text}: {output}");
        }
    }
    assert_eq!(starts(&context), 18);
}

#[test]
fn adaptive_trials_go_to_the_task_with_varying_results() {
    let context = context();
    // Only the task `luck` varies: its trials pass in turn.
    let command = "if grep -q luck \"$PROCTOR_PROMPT_FILE\"; then \
                   echo start >> {starts}; n=$(wc -l < {starts}); \
                   if [ $((n / 2 % 2)) -eq 0 ]; then touch ok; fi; else touch ok; fi";
    let tasks = ["luck", "one", "two"];
    let path = suite(&context, &tasks, command, &json!({"parallel": 1}));
    let args = [
        "--b",
        "X.md=text:x",
        "--until-settled",
        "--adaptive",
        "--trials",
        "3",
        "--equivalent",
        "0.01",
    ];
    let output = ab(&context, &path, &args);
    assert!(matches!(output.code, Some(0 | 1 | 4)), "{output}");
    let number = |task: &str| {
        let folder = latest(&context).join("trials/a").join(task);
        folder.read_dir_utf8().unwrap().count()
    };
    let [luck, one, two] = tasks.map(number);
    assert!(luck > one && luck > two, "{luck} {one} {two}: {output}");
    assert_eq!(luck + one + two, 9, "{output}");
}

#[test]
fn limits_reduce_the_experiment() {
    let context = context();
    let path = suite(&context, &["one", "two"], AGENT, &json!({}));
    let variants = ["--a", "RULES.md=text:bad", "--b", "RULES.md=text:good"];
    let limited = |more: &[&str]| ab(&context, &path, &[&variants[..], more].concat());
    let output = limited(&["--trials", "5", "--max-trials", "14", "--dry-run"]);
    output.assert_code(0);
    assert!(
        output
            .stdout
            .starts_with("12 trials: b against a on 2 tasks, 3 trials each"),
        "{output}"
    );
    let output = limited(&["--max-trials", "3"]);
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("3 trials are too few: one of each agent and task is 4"),
        "{output}"
    );
    // The cost of these agents is unknown, so that the limit cannot be kept.
    let output = limited(&["--max-cost", "1", "--trials", "3"]);
    assert!(matches!(output.code, Some(3 | 4)), "{output}");
    assert!(
        output.stdout.contains("the cost of a trial is unknown"),
        "{output}"
    );
    assert!(starts(&context) <= 3, "{output}");
}

#[test]
fn single_task_of_the_repository_needs_no_file() {
    let context = context();
    context.repo().commit(
        "agent",
        &[("agent.sh", "grep -q good RULES.md && touch ok\n")],
    );
    context.repo().commit("rules", &[("RULES.md", "bad\n")]);
    fs_err::write(context.repo().path().join("RULES.md"), "good\n").unwrap();
    let args = [
        "ab",
        "--agent",
        "command",
        "--a",
        "config.command=[\"sh\",\"agent.sh\"]",
        "--b",
        "config.command=[\"sh\",\"agent.sh\"]",
        "--a",
        "RULES.md=git:HEAD",
        "--b",
        "RULES.md=./RULES.md",
        "--prompt",
        "Make it ${work}.",
        "--check",
        "test -e ok",
        "--names",
        "old",
        "new",
    ];
    let program = context.proctor(args).current_dir(context.repo().path());
    let output = program.run();
    output.assert_code(0);
    assert!(
        output.stdout.starts_with("new is better: +100 points"),
        "{output}"
    );
    // Results are in a directory that git ignores, and the work of agents is not in the repository.
    let status = context.repo().git(["status", "--short"]);
    assert_eq!(status.trim(), "M RULES.md", "{output}");
}

#[test]
fn several_candidates_are_compared_with_the_baseline() {
    let context = context();
    let variants = json!([
        {"name": "bad", "files": {"RULES.md": {"text": "bad"}}},
        {"name": "good", "files": {"RULES.md": {"text": "good"}}},
        {"name": "same", "files": {"RULES.md": {"text": "as bad"}}},
    ]);
    let agents = json!([{"type": "command", "config": {"command": ["sh", "-c", "grep -q good RULES.md && touch ok || true"]}, "variants": variants}]);
    let more = json!({"agents": agents, "trials": 5, "experiment": {"baseline": "bad"}});
    let path = suite(&context, &["one"], AGENT, &more);
    let output = context
        .proctor(["experiment", path.as_str(), "--json"])
        .run();
    // One candidate is better, the other one is undecided.
    output.assert_code(4);
    let answer: Value = serde_json::from_str(&output.stdout).unwrap();
    let decisions: Vec<(&Value, &Value)> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["candidate"], &it["decision"]))
        .collect();
    assert_eq!(
        decisions,
        [
            (&json!("good"), &json!("better")),
            (&json!("same"), &json!("undecided"))
        ]
    );
    let output = context.proctor(["run", path.as_str(), "--dry-run"]).run();
    assert!(
        output
            .stdout
            .starts_with("15 trials: good, same against bad on 1 task"),
        "{output}"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn wrong_input_is_explained() {
    let context = context();
    let path = suite(&context, &["one"], AGENT, &json!({}));
    let plain = suite_of_two(&context);
    let cases: &[(&[&str], &str)] = &[
        (
            &["ab", path.as_str()],
            "nothing to compare: A and B are the same",
        ),
        (
            &["ab", path.as_str(), "--b", "CLAUDE.md"],
            "invalid setting `CLAUDE.md`: expected KEY=VALUE",
        ),
        (
            &["ab", path.as_str(), "--b", "CLAUDE.md=./nowhere.md"],
            "cannot read `CLAUDE.md=./nowhere.md`",
        ),
        (
            &["ab", path.as_str(), "--b", "../CLAUDE.md=text:x"],
            "invalid path `../CLAUDE.md`",
        ),
        (
            &["ab", path.as_str(), "--b", "skill=./nowhere"],
            "cannot read `skill=./nowhere`",
        ),
        (
            &["ab", path.as_str(), "--b", "modle=x"],
            "did you mean `model`?",
        ),
        (
            &[
                "ab",
                path.as_str(),
                "--b",
                "X.md=text:x",
                "--names",
                "a",
                "a",
            ],
            "A and B have the same name: a",
        ),
        (
            &["ab", path.as_str(), "--b", "X.md=text:x", "--adaptive"],
            "adaptive allocation has no effect without interim analyses",
        ),
        (
            &[
                "ab",
                path.as_str(),
                "--b",
                "X.md=text:x",
                "--equivalent",
                "5",
            ],
            "expected a number between 0 and 1",
        ),
        (
            &[
                "ab",
                path.as_str(),
                "--b",
                "X.md=text:x",
                "--agent",
                "nonsense",
            ],
            "unknown agent `nonsense`",
        ),
        (
            &["ab", plain.as_str(), "--b", "X.md=text:x"],
            "both variants are made from one agent",
        ),
        (&["ab", "--b", "X.md=text:x", "--prompt", "do"], "--check"),
        (
            &["ab", "nowhere", "--b", "X.md=text:x"],
            "nowhere does not exist",
        ),
        (
            &["ab", path.as_str(), "--b", "X.md=git:nothing"],
            "has no branch, tag or commit `nothing`",
        ),
        (
            &["ab", path.as_str(), "--b", "X.md=git:HEAD"],
            "`X.md` does not exist at `HEAD`",
        ),
        (
            &["experiment", path.as_str()],
            "has no `experiment` section",
        ),
        (
            &["experiment", plain.as_str(), "--agent", "x"],
            "an experiment needs at least two agents to compare",
        ),
    ];
    for (args, message) in cases {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(2);
        assert!(
            output.stderr.contains(message),
            "{args:?} {message}: {output}"
        );
    }
    assert_eq!(starts(&context), 0);
}

/// A suite with two agents.
fn suite_of_two(context: &TestContext) -> Utf8PathBuf {
    let agent =
        |name: &str| json!({"type": "command", "name": name, "config": {"command": ["true"]}});
    let folder = context.root().join("suite");
    let suite = json!({
        "agents": [agent("x"), agent("y")],
        "tasks": [{"testcase": "cases/*.json"}],
        "experiment": {},
    });
    let path = folder.join("two.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path
}

#[test]
fn experiment_of_calibration_agents_is_explained() {
    let context = context();
    suite(&context, &["one"], AGENT, &json!({}));
    let agents = json!([{"type": "null", "name": "x"}, {"type": "null", "name": "y"}]);
    let tasks = json!([{"testcase": "cases/*.json"}]);
    let floor = json!({"agents": agents, "tasks": tasks, "experiment": {}});
    let path = context.root().join("suite/floor.json");
    fs_err::write(&path, floor.to_string()).unwrap();
    let output = context.proctor(["experiment", path.as_str()]).run();
    output.assert_code(2);
    let expect = "an experiment needs at least two agents to compare";
    assert!(output.stderr.contains(expect), "{output}");
}

#[test]
fn excluded_trials_say_why() {
    let context = context();
    let npm = context.bin().join("npm");
    let text = "#!/bin/sh\necho 'npm error network: the registry cannot be reached' >&2\nexit 1\n";
    fs_err::write(&npm, text).unwrap();
    fs_err::set_permissions(npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = suite(&context, &["one"], "touch ok", &json!({}));
    let more = ["--agent", "claude-code", "--a", "version=2.1.30"];
    let output = ab(
        &context,
        &path,
        &[&more[..], &["--b", "version=2.1.31"]].concat(),
    );
    output.assert_code(3);
    assert!(
        output.stdout.contains("the registry cannot be reached"),
        "{output}"
    );
}
