//! The first contact of a new user: reasons, hints, refusals that name the fix, and output for programs.

use std::time::Duration;

use camino::Utf8Path;
use insta::assert_snapshot;
use proctor_testkit::{Output, TestContext, wait_until};
use serde_json::{Value, json};

use crate::{
    suites::{suite, two_agents},
    support::{
        claude_case, command_case, context, install_claude, print, proctor_run, shown, with,
        write_case,
    },
};

/// The output of `run`, `status`, the table and the Markdown for a suite, with the exit code of `run`.
fn accounts(context: &TestContext, agents: &Value, code: i32) -> [String; 4] {
    let path = suite(context, agents, &json!({}));
    let run = context.proctor(["run", path.as_str()]).run();
    run.assert_code(code);
    let latest = context.root().join(".proctor/latest");
    let ask = |args: &[&str]| {
        let args = args.iter().copied().chain([latest.as_str()]);
        let output = context.proctor(args).run();
        output.assert_code(0);
        output.stdout
    };
    [
        run.stdout,
        ask(&["status"]),
        ask(&["report"]),
        ask(&["report", "--format", "markdown"]).replace('\\', ""),
    ]
}

#[test]
fn suite_without_the_cli_says_how_to_install_it() {
    let agents = json!([{"name": "mine", "type": "claude-code"}]);
    for account in accounts(&context(), &agents, 3) {
        let reason = "excluded (not_installed): `claude` is not installed, or not on PATH; install it with: npm install -g";
        assert!(account.contains(reason), "{account}");
    }
}

#[test]
fn suite_without_a_login_says_how_to_log_in() {
    let context = context();
    crate::support::install_claude_that(&context, "{\"loggedIn\": false}", &[]);
    let agents = json!([{"name": "mine", "type": "claude-code"}]);
    for account in accounts(&context, &agents, 3) {
        assert!(
            account.contains("mine on one: 1 excluded (auth)")
                || account.contains("mine on two: 1 excluded (auth)"),
            "{account}"
        );
        assert!(
            account.contains(
                "`claude` has no API key and no login; set the API key in ANTHROPIC_API_KEY"
            ),
            "{account}"
        );
    }
}

#[test]
fn failed_trials_say_why() {
    let context = context();
    context.install_fake("agent", &json!([print("tired\n"), {"exit": 3}]));
    let agents = json!([{"name": "mine", "type": "command", "config": {"command": ["agent"]}}]);
    for account in accounts(&context, &agents, 1) {
        let reason = "mine on 2 tasks: 2 failed (agent_error): the agent exited with code 3";
        assert!(account.contains(reason), "{account}");
    }
}

#[test]
fn reason_of_a_judged_trial_is_its_verdict() {
    let context = context();
    let case = with(
        &claude_case(),
        &json!({"agent": {"type": "null"}, "evaluators": [{"name": "command", "config": {"command": "test -e done.txt"}}]}),
    );
    let path = write_case(&context, &case);
    let output = context
        .proctor(["run", path.as_str(), "--trials", "2"])
        .run();
    output.assert_code(1);
    let reason = "null on case: 2 failed: command: ";
    assert!(output.stdout.contains(reason), "{output}");
}

/// One line at each interval, and none of them on standard output.
#[test]
fn progress_without_a_terminal_is_one_line_at_each_interval() {
    let context = context();
    context.install_fake("agent", &json!([{"sleep_ms": 60_000}]));
    let running = proctor_run(&context, &command_case("agent"))
        .env("PROCTOR_PROGRESS_INTERVAL", "0")
        .spawn();
    wait_until(Duration::from_mins(1), "a line of progress", || {
        running
            .stderr_so_far()
            .contains("] command on case: running the agent\n")
    });
    running.interrupt();
    running.wait().assert_code(130);

    let path = suite(&context, &two_agents(&context), &json!({}));
    context.install_fake("agent", &json!([{"sleep_ms": 60_000}]));
    let running = context
        .proctor(["run", path.as_str(), "--parallel", "4", "--json"])
        .env("PROCTOR_PROGRESS_INTERVAL", "0")
        .spawn();
    wait_until(Duration::from_mins(1), "a line of progress", || {
        let lines = running.stderr_so_far();
        lines.contains("2 of 4 trials ended; running writer on ") && lines.contains(" and 1 more\n")
    });
    assert_eq!(running.stdout_so_far(), "");
    running.interrupt();
    running.wait().assert_code(130);
}

#[track_caller]
fn validated(context: &TestContext, case: &Value) -> Output {
    let path = write_case(context, case);
    context.proctor(["validate", path.as_str()]).run()
}

/// Each of these fails only when the trial starts.
#[test]
fn validate_finds_input_that_run_would_refuse() {
    let context = context();
    fs_err::create_dir_all(context.root().join("folder")).unwrap();
    let null = json!({"agent": {"type": "null"}});
    let both = json!({"agent": {"config": {"prompt_file": "x.md"}}});
    let file = json!({"agent": {"config": {"prompt": null, "prompt_file": "missing.md"}}});
    let oracle = json!({"agent": {"type": "oracle"}});
    let hook = json!([{"name": "script", "config": {"command": "./missing.sh", "args": ["x"]}}]);
    let cases = [
        (
            json!({"pre_execution": hook.clone()}),
            "program not found: ",
        ),
        (json!({"post_evaluation": hook}), "program not found: "),
        (
            json!({"agent": {"type": "oracle", "config": {"prompt_file": "x.md"}}}),
            "`prompt` and `prompt_file` cannot be combined",
        ),
        (
            with(&null, &both),
            "`prompt` and `prompt_file` cannot be combined",
        ),
        (
            file.clone(),
            "invalid prompt_file `missing.md`: file not found next to the test case or in the workspace",
        ),
        (
            with(&file, &json!({"repo": "../folder"})),
            "invalid prompt_file `missing.md`",
        ),
        (
            json!({"branch": "nosuch"}),
            "has no branch, tag or commit `nosuch`",
        ),
        (
            json!({"expected_source": "branch", "expected": "nosuch"}),
            "has no branch, tag or commit `nosuch`",
        ),
        (
            json!({"repo": "../folder", "branch": "main"}),
            "is not a git repository, so it has no `main`\nhint: make it a repository",
        ),
        (
            json!({"repo": "../folder", "commit": "abcdef1"}),
            "is not a git repository, so it has no `abcdef1`",
        ),
        (
            json!({"agent": {"config": {"prompt": "/clear all"}}}),
            "would run the prompt as the command `/clear`",
        ),
        (
            json!({"gateway": {}, "agent": {"config": {"env": {"ANTHROPIC_BASE_URL": "x"}}}}),
            "`env.ANTHROPIC_BASE_URL` would make Claude Code bypass the gateway",
        ),
        (oracle, "the task has no reference solution for the oracle"),
    ];
    for (fields, expected) in cases {
        let case = with(&claude_case(), &fields);
        let output = validated(&context, &case);
        output.assert_code(2);
        assert!(output.stderr.contains(expected), "{fields}: {output}");
        assert!(!output.stdout.contains(": ok"), "{fields}: {output}");
        // A trial refuses the same.
        if fields["agent"]["type"].is_string() {
            let path = write_case(&context, &case);
            context.proctor(["run", path.as_str()]).run().assert_code(2);
        }
    }
}

/// A file in the repository, and one that a hook or a server makes, can be there when the agent starts.
#[test]
fn validate_accepts_prompt_files_that_the_workspace_has_or_may_have() {
    let context = context();
    context
        .repo()
        .commit("prompt", &[("tasks/one.md", "Do it.\n")]);
    let file = |name: &str| json!({"agent": {"config": {"prompt": null, "prompt_file": name}}});
    let hook = json!({"pre_execution": [{"name": "script", "config": {"command": "true"}}]});
    for fields in [
        file("tasks/one.md"),
        file("./tasks/one.md"),
        with(&file("later.md"), &hook),
        with(
            &file("later.md"),
            &json!({"repo": "https://localhost/x.git"}),
        ),
    ] {
        let output = validated(&context, &with(&claude_case(), &fields));
        output.assert_code(0);
        assert!(output.stdout.contains(": ok"), "{fields}: {output}");
    }
}

/// The file may be for another machine: a missing CLI is a note.
#[test]
fn validate_notes_a_missing_cli() {
    let context = context();
    let output = validated(&context, &claude_case());
    output.assert_code(0);
    let note = "note: `claude` is not installed, or not on PATH; ";
    assert!(output.stderr.starts_with(note), "{output}");
    crate::support::install_claude(&context, &[]);
    assert_eq!(validated(&context, &claude_case()).stderr, "");
}

#[test]
fn validate_finds_containers_without_an_image() {
    let context = context();
    let agents = json!([{"name": "floor", "type": "null"}]);
    let path = suite(&context, &agents, &json!({"sandbox": "docker"}));
    let output = context.proctor(["validate", path.as_str()]).run();
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("neither the task nor the agent names an image\nhint: "),
        "{output}"
    );
    let sandbox = json!({"sandbox": {"type": "docker", "image": "busybox"}});
    let path = suite(&context, &agents, &sandbox);
    context
        .proctor(["validate", path.as_str()])
        .run()
        .assert_code(0);
}

/// The template measures something: an agent that does nothing fails.
#[test]
fn template_of_init_fails_for_the_null_agent() {
    for files in [&[][..], &[("README.md", "# A project\n")]] {
        let context = context();
        let folder = context.root().join("mine");
        fs_err::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs_err::write(folder.join(name), text).unwrap();
        }
        let here = |args: &[&str]| {
            context
                .proctor(args.iter().copied())
                .current_dir(&folder)
                .run()
        };
        here(&["init"]).assert_code(0);
        here(&["run", "testcase.yaml", "--agent", "null"]).assert_code(1);
    }
}

/// Trials with the same problem are one message, and no directory of the run remains.
#[test]
fn input_that_all_trials_refuse_is_reported_once() {
    let context = context();
    let case = with(&command_case("/bin/true"), &json!({"branch": "nope"}));
    let path = write_case(&context, &case);
    let run = context
        .proctor(["run", path.as_str(), "--trials", "3"])
        .run();
    run.assert_code(2);
    assert_eq!(run.stdout, "");
    assert_eq!(run.stderr.matches("`nope`").count(), 1, "{run}");
    let replay = ["run", path.as_str(), "--replay-models", "recordings"];
    let replay = context.proctor(replay).run();
    replay.assert_code(2);
    let experiment = context.proctor(["experiment", path.as_str()]).run();
    experiment.assert_code(2);
    assert_eq!(
        experiment.stderr.matches("error: ").count(),
        1,
        "{experiment}"
    );
    assert!(experiment.stderr.contains("proctor ab"), "{experiment}");
    let message = "no recordings: recordings is not a directory\nhint: record the calls first";
    assert!(replay.stderr.contains(message), "{replay}");
}

#[test]
fn misspelled_source_of_a_task_has_a_suggestion() {
    let context = context();
    let suite = "agents: [{type: \"null\"}]\ntasks: [{testcases: cases/*.yaml}]\n";
    fs_err::write(context.root().join("suite.yaml"), suite).unwrap();
    let output = context.proctor(["validate", "suite.yaml"]).run();
    output.assert_code(2);
    let hint = "hint: did you mean `testcase`?";
    assert!(output.stderr.contains(hint), "{output}");
}

#[test]
fn unquoted_null_is_explained() {
    let context = context();
    let case =
        "name: x\ndescription: x\nrepo: ../repo\nagent: {type: null}\nevaluators: [git-diff]\n";
    let path = context.testcase(case);
    let output = context.proctor(["validate", path.as_str()]).run();
    output.assert_code(2);
    assert_snapshot!(shown(&context, &output.stderr), @r#"
    error: [ROOT]/cases/testcase.yaml:4:15: the key has no value
     4 | agent: {type: null}
       |               ^^^^
    hint: put the word in quotes (`"null"`) if it is a name, or else leave the key out
    "#);
    let suite =
        "agents:\n  - {name: floor, type: null}\ntasks: [{testcase: cases/testcase.yaml}]\n";
    fs_err::write(context.root().join("suite.yaml"), suite).unwrap();
    let output = context.proctor(["validate", "suite.yaml"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("in quotes (`\"null\"`)"), "{output}");
}

#[test]
fn keys_for_the_cost_are_explained() {
    let context = context();
    for key in ["max_cost", "max_cost_usd", "budget_usd"] {
        let output = validated(&context, &with(&claude_case(), &json!({key: 5})));
        output.assert_code(2);
        let hint = "hint: limit the cost with `gateway: {budget_usd: N}` for each trial";
        assert!(output.stderr.contains(hint), "{output}");
    }
    let path = suite(&context, &two_agents(&context), &json!({"max_cost": 5}));
    let output = context.proctor(["validate", path.as_str()]).run();
    output.assert_code(2);
    assert!(
        output.stderr.contains("`run_budget_usd` (`--max-cost`)"),
        "{output}"
    );
}

#[test]
fn fault_of_a_model_script_has_its_position() {
    let context = context();
    let path = write_case(&context, &claude_case());
    let script = context.root().join("script.yaml");
    let refusal = |text: &str| {
        fs_err::write(&script, text).unwrap();
        let args = ["run", path.as_str(), "--model-script", "script.yaml"];
        let output = context.proctor(args).run();
        output.assert_code(2);
        shown(&context, &output.stderr)
    };
    assert_snapshot!(refusal("answers:\n  - message: {content: [{txet: done}]}\n"), @"
    error: [ROOT]/script.yaml:2:26: unknown value `txet`
     2 |   - message: {content: [{txet: done}]}
       |                          ^^^^
    hint: did you mean `text`?
    ");
    assert_snapshot!(refusal("- text: done\n"), @"
    error: [ROOT]/script.yaml:1:1: expected a map, found a list
     1 | - text: done
       | ^^^^^^^^^^^^
    ");
    let missing = ["run", path.as_str(), "--model-script", "nosuch.yaml"];
    let missing = context.proctor(missing).run();
    assert_snapshot!(shown(&context, &missing.assert_code(2).stderr), @"
    error: [ROOT]/nosuch.yaml: file not found
    hint: check the path
    ");
    assert_snapshot!(refusal("answers:\n  - error: {status: 429}\n  - error: {status: 200}\n"), @"
    error: [ROOT]/script.yaml:3:5: status 200 is not an error status (400 to 599)
     3 |   - error: {status: 200}
       |     ^^^^^^^^^^^^^^^^^^^^
    ");
}

/// Runs a command whose standard output has no reader.
fn without_reader(context: &TestContext, args: &[&str]) -> Output {
    let line = "exec 3> >(:); wait $!; exec \"$@\" >&3";
    let mut all = vec!["-c", line, "bash", context.binary().as_str()];
    all.extend(args);
    context.program(Utf8Path::new("/bin/bash"), all).run()
}

#[test]
fn closed_pipe_is_not_an_error() {
    let context = context();
    // `doctor` needs an agent.
    install_claude(&context, &[]);
    let path = suite(&context, &two_agents(&context), &json!({}));
    context.proctor(["run", path.as_str()]).run();
    let latest = context.root().join(".proctor/latest");
    let latest = latest.as_str();
    let trial = Utf8Path::new(latest).join("trials/writer/one/trial-1");
    let trial = trial.as_str();
    let sessions = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/tests/data/sessions");
    let session = sessions.join("01-claude-ok-simple.jsonl");
    let case = write_case(
        &context,
        &with(&claude_case(), &json!({"agent": {"type": "null"}})),
    );
    for args in [
        &["--help"][..],
        &["--version"],
        &["list"],
        &["list", "--json"],
        &["list", "runs", latest],
        &["doctor", "--json"],
        &["schema"],
        &["completions", "bash"],
        &["prices"],
        &["prices", "--json"],
        &["status", latest],
        &["status", "--json", latest],
        &["watch", "--no-tui", latest],
        &["replay", "--no-tui", trial],
        &["report", latest],
        &["report", "--format", "html", latest],
        &["report", "--format", "json", latest],
        &["log", "normalize", session.as_str()],
        &["log", "normalize", "--format", "atif", session.as_str()],
        &["log", "export", "--format", "otlp-json", trial],
        &["validate", path.as_str()],
        &["run", case.as_str()],
        &["run", "--json", case.as_str()],
        &["clean", "--dry-run"],
    ] {
        let output = without_reader(&context, args);
        output.assert_code(0);
        assert!(!output.stderr.contains("error"), "{args:?}: {output}");
    }
}

#[test]
fn format_of_an_output_file_comes_from_its_extension() {
    let context = context();
    let path = suite(&context, &two_agents(&context), &json!({}));
    context.proctor(["run", path.as_str()]).run();
    let latest = context.root().join(".proctor/latest");
    let latest = latest.as_str();
    let refused = context.proctor(["report", latest, "-o", "x.pdf"]).run();
    refused.assert_code(2);
    assert_snapshot!(shown(&context, &refused.stderr), @"
    error: cannot infer the format of [ROOT]/x.pdf from its extension
    hint: set --format, or use one of these extensions: txt, md, html, htm, xml, json, csv
    ");
    let compare = ["compare", latest, latest, "-o"];
    for name in ["x.pdf", "x.csv"] {
        let refused = context.proctor(compare.into_iter().chain([name])).run();
        refused.assert_code(2);
        assert!(
            refused.stderr.contains("extensions: txt, md, json, html\n"),
            "{refused}"
        );
        assert!(!context.root().join(name).exists());
    }
    for (name, start) in [("x.md", "#"), ("x.json", "{")] {
        context.proctor(compare.into_iter().chain([name])).run();
        let text = fs_err::read_to_string(context.root().join(name)).unwrap();
        assert!(text.starts_with(start), "{text}");
    }
    context
        .proctor(["report", latest, "-o", "x.pdf", "--format", "json"])
        .run()
        .assert_code(0);
}

/// Runs of the project are in one of the places that are searched, and in no second one.
#[test]
fn each_run_is_listed_once_and_latest_is_a_name() {
    let context = context();
    let case = with(&claude_case(), &json!({"agent": {"type": "null"}}));
    let path = write_case(&context, &case);
    context.proctor(["run", path.as_str()]).run().assert_code(0);
    let listed = context.proctor(["list", "runs"]).run();
    assert_eq!(listed.stdout.lines().count(), 2, "{listed}");
    let cleaned = context
        .proctor(["clean", "--older-than", "0d", "--dry-run"])
        .run();
    assert_eq!(
        cleaned.stdout.matches("would remove").count(),
        1,
        "{cleaned}"
    );
    context.proctor(["status", "latest"]).run().assert_code(0);
    context.proctor(["report", "latest"]).run().assert_code(0);
}

/// A program that reads `--json` gets an object for every error.
#[test]
fn json_output_is_an_object_also_for_errors() {
    let context = context();
    let broken = write_case(&context, &with(&claude_case(), &json!({"nmae": "x"})));
    let object = |args: &[&str]| -> Value {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(2);
        assert!(output.stderr.contains("error: "), "{output}");
        let object: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(object["status"], "error");
        assert_eq!(object["exit_code"], 2);
        object
    };
    let faulty = object(&["run", "--json", broken.as_str()]);
    let fault = &faulty["error"]["faults"][0];
    assert_eq!(fault["message"], "unknown key `nmae`");
    assert_eq!(fault["hint"], "did you mean `name`?");
    assert_eq!(fault["file"], broken.as_str());
    assert_eq!(fault["line"], 1);
    let missing = object(&["status", "--json", "nosuch"]);
    assert_eq!(missing["error"]["message"], "run nosuch not found");
    assert_eq!(
        missing["error"]["hint"],
        "`proctor list runs` lists the available runs"
    );
    let usage = object(&["run", "--json", "--trials", "-1", "x.yaml"]);
    assert_eq!(
        usage["error"]["message"],
        "invalid value '-1' for '--trials <N>': -1 is not in 1..=1000"
    );
    object(&["rnu", "--json"]);
    object(&["eval", "--json", "-c", "nosuch.yaml"]);
    object(&["task", "check", "--json", "nosuch.yaml"]);
    object(&["rescore", "--json", "nosuch"]);
    object(&["prices", "--json", "nosuch-model"]);
    object(&["list", "--json", "-c", "nosuch.yaml"]);
}
