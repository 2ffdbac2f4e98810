//! Outcomes of `proctor run`: status, error codes, exit code. Numbers in comments are those of the
//! project's list of cases that harnesses get wrong.

use std::time::{Duration, Instant};

use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{
    MODEL, VERSION, claude_case, codes, command_case, context, init, install_claude, last_record,
    messages, print, proctor_run, result, result_with, run, says, says_as, session, shell, with,
    write,
};

/// Runs a fake `claude` that plays these steps.
#[track_caller]
pub(crate) fn play(steps: &[Value]) -> (TestContext, Output) {
    let context = context();
    install_claude(&context, steps);
    let output = run(&context, &claude_case());
    (context, output)
}

/// Runs these steps and checks Proctor's exit code, the outcome, and the error code in the log.
#[track_caller]
pub(crate) fn check(steps: &[Value], exit: i32, outcome: &str, code: Option<&str>) -> TestContext {
    let (context, output) = play(steps);
    output.assert_code(exit);
    let (record, log) = (context.record(), context.log());
    assert_eq!(record["outcome"], outcome, "{record:#}");
    assert_eq!(log["execution"]["outcome"], outcome, "{log:#}");
    assert_eq!(codes(&log).first().copied(), code, "{log:#}");
    context
}

fn retry(status: &Value, error: &str) -> Value {
    json!({"line": {
        "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10,
        "retry_delay_ms": 500, "error_status": status, "error": error, "session_id": "s-1",
    }})
}

/// Case 1: the exit code tells that all passed.
#[test]
fn a_good_run_passes() {
    let context = check(
        &session(&[write("new.txt", "a\nb\n")]),
        0,
        "completed",
        None,
    );
    let (record, log, results) = (context.record(), context.log(), context.results());
    assert_eq!(record["status"], "passed");
    assert_eq!(record["diff"]["files_changed"], 1);
    assert_eq!(record["diff"]["lines_added"], 2);
    assert_eq!(log["execution"]["status"], "success");
    assert_eq!(log["execution"]["exit_code"], 0);
    assert_eq!(results["summary"]["overall_status"], "passed");
    let workspace = context.only_run_dir().join("src-modified/new.txt");
    assert_eq!(fs_err::read_to_string(workspace).unwrap(), "a\nb\n");
}

/// Case 1: an agent that exits 3 fails the run, with and without a result before.
#[test]
fn an_agent_that_exits_3_fails_the_run() {
    let context = check(
        &[init(), json!({"exit": 3})],
        1,
        "agent_error",
        Some("CLAUDE_EXIT"),
    );
    assert_eq!(context.log()["execution"]["exit_code"], 3);
    assert_eq!(context.log()["execution"]["status"], "failed");
    assert_eq!(
        context.results()["summary"]["overall_status"],
        "failed",
        "git-diff passed, the agent did not"
    );
    check(
        &[init(), says("m-1", "done"), result(), json!({"exit": 3})],
        1,
        "agent_error",
        Some("CLAUDE_EXIT"),
    );
}

/// Case 19: an agent killed by a signal is not a success.
#[test]
fn an_agent_killed_by_a_signal_fails_the_run() {
    let context = check(
        &[
            init(),
            json!({"print": {"text": "segfault ahead\n", "stream": "stderr"}}),
            json!({"kill_self": "SEGV"}),
        ],
        1,
        "agent_error",
        Some("CLAUDE_EXIT"),
    );
    let log = context.log();
    assert_eq!(log["execution"]["exit_code"], 128 + 11);
    assert!(messages(&log).contains("signal 11"), "{log:#}");
    assert!(messages(&log).contains("segfault ahead"), "{log:#}");
    assert_eq!(context.record()["process"]["signal"], 11);
    check(
        &[init(), json!({"kill_self": "KILL"})],
        1,
        "agent_error",
        Some("CLAUDE_KILLED"),
    );
}

/// Case 1: a timeout fails the run, and the log says so in the words of seed 002.
#[test]
fn an_agent_that_times_out_fails_the_run() {
    let context = context();
    install_claude(
        &context,
        &[init(), says("m-1", "working"), json!({"sleep_ms": 60_000})],
    );
    let case = with(&claude_case(), &json!({"timeout": 700}));
    run(&context, &case).assert_code(1);
    let log = context.log();
    assert_eq!(log["execution"]["status"], "timeout");
    assert_eq!(log["execution"]["exit_code"], -1);
    assert_eq!(codes(&log), ["CLAUDE_TIMEOUT"]);
    assert!(messages(&log).contains("timeout of 700 ms"), "{log:#}");
    assert_eq!(log["messages"][0]["content"], "working");
    assert_eq!(context.record()["process"]["ended_by"], "wall_limit");
}

/// Case 1: exit code 0 is not a success without a result event, or with one that reports an error.
#[test]
fn exit_0_without_result_is_not_a_success() {
    check(
        &[init(), says("m-1", "bye")],
        1,
        "agent_error",
        Some("CLAUDE_NO_RESULT"),
    );
    check(&[], 1, "agent_error", Some("CLAUDE_NO_RESULT"));
    let context = check(
        &[
            init(),
            result_with(&json!({
                "subtype": "error_during_execution", "errors": ["it broke"], "result": null,
            })),
        ],
        1,
        "agent_error",
        Some("CLAUDE_EXECUTION_ERROR"),
    );
    assert!(messages(&context.log()).contains("it broke"));
    check(
        &[
            init(),
            result_with(&json!({"is_error": true, "result": "I could not"})),
        ],
        1,
        "agent_error",
        Some("CLAUDE_EXECUTION_ERROR"),
    );
}

/// An API that refuses the request itself (400) is the agent's failure, not infrastructure.
#[test]
fn a_refused_request_is_the_agents_failure() {
    let failed = json!({
        "is_error": true, "api_error_status": 400, "result": "API Error: 400 bad request",
    });
    check(
        &[init(), result_with(&failed), json!({"exit": 1})],
        1,
        "agent_error",
        Some("CLAUDE_API_ERROR"),
    );
}

/// A turn limit is giving up.
#[test]
fn reaching_the_turn_limit_is_giving_up() {
    let failed = json!({"subtype": "error_max_turns", "is_error": true, "result": null});
    check(
        &[init(), result_with(&failed), json!({"exit": 1})],
        1,
        "gave_up",
        Some("CLAUDE_MAX_TURNS"),
    );
}

/// Case 12: a result followed by silence counts as finished, and soon.
#[test]
fn a_result_and_then_silence_is_finished_soon() {
    let began = Instant::now();
    let mut steps = session(&[write("new.txt", "x\n")]);
    steps.push(json!({"sleep_ms": 120_000}));
    let context = check(&steps, 0, "completed", None);
    assert!(began.elapsed() < Duration::from_secs(20), "{began:?}");
    let record = context.record();
    assert_eq!(record["process"]["ended_by"], "session");
    assert!(
        record["notes"][0]
            .as_str()
            .unwrap()
            .contains("was ended after")
    );
    assert_eq!(record["usage"]["cost_usd"], 0.0153);
    assert_eq!(context.log()["execution"]["exit_code"], 0);
    context.assert_nothing_left("");
}

/// 401: nothing is gained by trying again, so the agent is ended at the first refusal.
#[test]
fn refused_credentials_end_the_agent_at_once() {
    let began = Instant::now();
    let context = check(
        &[
            init(),
            retry(&json!(401), "authentication_failed"),
            json!({"sleep_ms": 120_000}),
        ],
        3,
        "auth",
        Some("CLAUDE_AUTH_FAILED"),
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{began:?}");
    assert!(messages(&context.log()).contains("ANTHROPIC_API_KEY"));
    context.assert_nothing_left("");
}

/// Infrastructure has classes of its own, exit code 3, and is never judged.
#[test]
fn infrastructure_is_classed_and_not_judged() {
    let failed = |status: Value, text: &str| {
        let fields = json!({"is_error": true, "api_error_status": status, "result": text});
        vec![init(), result_with(&fields), json!({"exit": 1})]
    };
    let cases = [
        (failed(json!(429), "x"), "rate_limit", "CLAUDE_RATE_LIMIT"),
        (failed(json!(529), "x"), "overloaded", "CLAUDE_OVERLOADED"),
        (failed(json!(500), "x"), "network", "CLAUDE_NETWORK"),
        (failed(json!(403), "x"), "auth", "CLAUDE_AUTH_FAILED"),
        (
            failed(Value::Null, "Not logged in · Please run /login"),
            "auth",
            "CLAUDE_AUTH_FAILED",
        ),
        (
            failed(Value::Null, "Credit balance is too low"),
            "quota",
            "CLAUDE_QUOTA",
        ),
    ];
    for (steps, outcome, code) in cases {
        let context = check(&steps, 3, outcome, Some(code));
        let record = context.record();
        assert_eq!(record["status"], "error", "{outcome}");
        assert_eq!(record["verdicts"][0]["status"], "skipped", "{outcome}");
        assert_eq!(
            context.results()["summary"]["overall_status"],
            "partial",
            "{outcome}"
        );
    }
}

/// Malformed lines are skipped with a warning and counted; unknown events are counted.
#[test]
fn malformed_lines_and_unknown_events_are_counted() {
    let context = check(
        &session(&[
            print("npm WARN deprecated\n{\"type\": \"assist\n"),
            json!({"line": {"type": "brand_new_event", "payload": [1, 2]}}),
        ]),
        0,
        "completed",
        Some("CLAUDE_MALFORMED_LINE"),
    );
    let log = context.log();
    assert_eq!(log["counts"]["malformed_lines"], 2);
    assert_eq!(log["counts"]["unknown_events"], 1);
    assert!(messages(&log).contains("npm WARN deprecated"), "{log:#}");
}

/// An agent that talks about 401 and rate limits has neither.
#[test]
fn words_in_the_output_do_not_decide_the_outcome() {
    let text = "I fixed the 401 Unauthorized, rate_limit and \"Not logged in\" messages";
    check(
        &[
            init(),
            says("m-1", text),
            result_with(&json!({"result": text})),
        ],
        0,
        "completed",
        None,
    );
}

/// An agent cut off by its limit while the API kept it waiting says nothing of the agent.
#[test]
fn a_time_limit_during_retries_is_infrastructure() {
    for (status, outcome) in [
        (json!(429), "rate_limit"),
        (json!(529), "overloaded"),
        (Value::Null, "network"),
    ] {
        let context = context();
        install_claude(
            &context,
            &[
                init(),
                retry(&status, "unknown"),
                json!({"sleep_ms": 60_000}),
            ],
        );
        let case = with(&claude_case(), &json!({"timeout": 700}));
        run(&context, &case).assert_code(3);
        assert_eq!(context.record()["outcome"], outcome);
    }
}

/// Case 6: a command that is nowhere to be found is an error; any end of one that ran is a verdict.
#[test]
fn a_command_that_cannot_be_run_is_an_error_and_one_that_is_killed_a_failure() {
    let judge = |command: &str| {
        let context = context();
        install_claude(&context, &session(&[]));
        let evaluator = json!({"name": "command", "config": {"command": command}});
        let case = with(&claude_case(), &json!({"evaluators": [evaluator]}));
        let output = run(&context, &case);
        let verdict = context.record()["verdicts"][0].clone();
        (output.code.unwrap(), verdict["status"].clone())
    };
    assert_eq!(judge("exit 0"), (0, json!("passed")));
    assert_eq!(judge("exit 1"), (1, json!("failed")));
    assert_eq!(judge("no-such-program-anywhere"), (3, json!("error")));
    assert_eq!(judge("kill -9 $$"), (1, json!("failed")));
}

/// An evaluator has a limit of its own; running into it is a failure and takes its children along.
#[test]
fn an_evaluator_that_hangs_is_ended() {
    let context = context();
    install_claude(&context, &session(&[]));
    let config = json!({"command": "sleep 300 & sleep 300", "timeout_ms": 300});
    let evaluator = json!({"name": "command", "config": config});
    let case = with(&claude_case(), &json!({"evaluators": [evaluator]}));
    run(&context, &case).assert_code(1);
    let verdict = &context.record()["verdicts"][0];
    assert_eq!(verdict["status"], "failed");
    assert!(verdict["message"].as_str().unwrap().contains("time limit"));
    context.assert_nothing_left("");
}

/// Evaluators work on a clean copy: what they do to it changes neither the diff nor the next one.
#[test]
fn evaluators_cannot_disturb_each_other() {
    let context = context();
    install_claude(&context, &session(&[write("new.txt", "x\n")]));
    let command = |line: &str| json!({"name": "command", "config": {"command": line}});
    let case = with(
        &claude_case(),
        &json!({"evaluators": [
            command("test -f new.txt && rm new.txt"),
            command("test -f new.txt && test ! -e .git"),
            "git-diff",
        ]}),
    );
    run(&context, &case).assert_code(0);
    assert_eq!(context.record()["diff"]["files_changed"], 1);
    let folder = context.only_run_dir();
    assert!(folder.join("src-modified/new.txt").exists());
    assert!(
        folder
            .join("artifacts/evaluators/command-1/output.log")
            .exists()
    );
}

/// All assertions of git-diff hold at their bound and fail beyond it.
#[test]
fn git_diff_assertions_hold_at_their_bounds() {
    let judge = |assertions: Value| {
        let context = context();
        install_claude(
            &context,
            &session(&[
                write("a", "1\n2\n"),
                write("b", "1\n2\n"),
                shell("rm README.md"),
            ]),
        );
        let evaluator = json!({"name": "git-diff", "config": {"assertions": assertions}});
        let case = with(&claude_case(), &json!({"evaluators": [evaluator]}));
        let output = run(&context, &case);
        let verdict = context.record()["verdicts"][0].clone();
        (output.code.unwrap(), verdict)
    };
    let (code, verdict) = judge(json!({
        "max_files_changed": 3, "max_lines_added": 4, "max_lines_removed": 1,
        "max_total_changes": 5, "min_change_entropy": 1.5, "max_change_entropy": 1.53,
    }));
    assert_eq!(code, 0, "{verdict:#}");
    let entropy = verdict["metrics"]["change_entropy"].as_f64().unwrap();
    // 2/5, 2/5 and 1/5 of the lines.
    assert!((entropy - 1.5219).abs() < 0.001, "{entropy}");
    let (code, verdict) = judge(json!({
        "max_files_changed": 2, "max_lines_added": 3, "max_lines_removed": 0,
        "max_total_changes": 4, "min_change_entropy": 1.53, "max_change_entropy": 1.5,
    }));
    assert_eq!(code, 1);
    let violations = verdict["metrics"]["violations"].as_array().unwrap();
    assert_eq!(violations.len(), 6, "{verdict:#}");
}

/// Case 7: a typo in the name of an evaluator or of an assertion stops everything.
#[test]
fn typos_in_settings_are_errors() {
    let context = context();
    install_claude(&context, &session(&[]));
    let output = run(
        &context,
        &with(&claude_case(), &json!({"evaluators": ["git-dif"]})),
    );
    output.assert_code(2);
    assert!(output.stderr.contains("git-diff"), "{output}");
    let config = json!({"assertions": {"max_files_chnged": 1}});
    let evaluator = json!({"name": "git-diff", "config": config});
    let output = run(
        &context,
        &with(&claude_case(), &json!({"evaluators": [evaluator]})),
    );
    output.assert_code(2);
    assert!(
        output.stderr.contains("did you mean `max_files_changed`"),
        "{output}"
    );
    assert!(context.run_dirs().is_empty());
}

/// Case 24: model and version are those that answered; `<synthetic>` is not a model.
#[test]
fn model_and_version_are_those_that_answered() {
    let context = context();
    install_claude(
        &context,
        &[
            init(),
            says("m-1", "a"),
            says_as("<synthetic>", "m-2", "No response requested."),
            result(),
        ],
    );
    let case = with(
        &claude_case(),
        &json!({"agent": {"model": "claude-opus-4-8"}}),
    );
    run(&context, &case).assert_code(0);
    let (record, log) = (context.record(), context.log());
    assert_eq!(log["model_info"]["name"], MODEL);
    assert_eq!(log["agent_info"]["version"], VERSION);
    assert_eq!(record["agent"]["model"], MODEL);
    assert_eq!(record["agent"]["model_requested"], "claude-opus-4-8");
    assert_eq!(record["agent"]["version"], VERSION);
    // With nothing but a synthetic message the model that was asked for stands.
    install_claude(
        &context,
        &[says_as("<synthetic>", "m-1", "x"), json!({"exit": 1})],
    );
    let output = proctor_run(&context, &with(&case, &json!({"workspace_dir": "second"}))).run();
    output.assert_code(1);
    let dirs = context.run_dirs();
    let second = dirs.iter().find(|dir| dir.as_str().contains("second"));
    let log = fs_err::read_to_string(second.unwrap().join("artifacts/youbencha-log.json")).unwrap();
    let log: Value = serde_json::from_str(&log).unwrap();
    assert_eq!(log["model_info"]["name"], "claude-opus-4-8");
    assert_eq!(
        log["agent_info"]["version"], VERSION,
        "reported by --version"
    );
}

/// The built-in agents: the floor changes nothing, the ceiling applies the reference.
#[test]
fn null_does_nothing_and_oracle_applies_the_reference() {
    let context = context();
    context.repo().git(["checkout", "-q", "-b", "solved"]);
    context.repo().commit("solution", &[("answer.txt", "42\n")]);
    context.repo().git(["checkout", "-q", "main"]);
    let check = json!({"name": "command", "config": {"command": "test -f answer.txt"}});
    let case = |kind: &str, dir: &str| {
        json!({
            "name": "case", "description": "d", "repo": "../repo", "workspace_dir": dir,
            "expected_source": "branch", "expected": "solved",
            "agent": {"type": kind}, "evaluators": [check],
        })
    };
    run(&context, &case("null", "floor")).assert_code(1);
    run(&context, &case("oracle", "ceiling")).assert_code(0);
}

/// The `command` agent's exit codes: 0 done, 2 gave up, 124 timed out, others failed.
#[test]
fn exit_code_of_a_command_agent_decides_its_outcome() {
    for (code, exit, outcome) in [
        (0, 0, "completed"),
        (2, 1, "gave_up"),
        (3, 1, "agent_error"),
        (124, 1, "timeout"),
    ] {
        let context = context();
        context.install_fake("agent", &json!([{"exit": code}]));
        run(&context, &command_case("agent")).assert_code(exit);
        assert_eq!(context.record()["outcome"], outcome);
    }
}

/// The agent was not what the test case asked for: the trial is excluded, and ended at once.
/// A server that never connects is not always reported as failed.
#[test]
fn an_mcp_server_that_stays_pending_needs_tools_that_reach_the_model() {
    for (tools, outcome) in [
        (json!([]), "sandbox"),
        (json!(["mcp__other__query"]), "sandbox"),
        (json!(["mcp__db__query"]), "completed"),
    ] {
        let mut start = init();
        start["line"]["mcp_servers"] = json!([{"name": "db", "status": "pending"}]);
        start["line"]["tools"] = tools;
        let context = context();
        let file = context.root().join("cases/mcp.json");
        fs_err::write(
            file,
            json!({"mcpServers": {"db": {"command": "x"}}}).to_string(),
        )
        .unwrap();
        let more = json!({"agent": {"config": {"mcp_config": "mcp.json"}}});
        install_claude(&context, &[start, says("m-1", "done"), result()]);
        let output = run(&context, &with(&claude_case(), &more));
        let record = context.record();
        assert_eq!(record["outcome"], outcome, "{output}");
        let is_excluded = outcome == "sandbox";
        assert_eq!(
            output.stdout.contains("`db` (pending)"),
            is_excluded,
            "{output}"
        );
    }
}

#[test]
fn an_mcp_server_that_did_not_connect_excludes_the_trial() {
    let servers = json!([
        {"name": "db", "status": "failed"},
        {"name": "web", "status": "connected"},
    ]);
    let mut start = init();
    start["line"]["mcp_servers"] = servers.clone();
    let context = context();
    let file = context.root().join("cases/mcp.json");
    let config = json!({"mcpServers": {"db": {"command": "x"}, "web": {"command": "y"}}});
    fs_err::write(file, config.to_string()).unwrap();
    let case = with(
        &claude_case(),
        &json!({"agent": {"config": {"mcp_config": "mcp.json"}}}),
    );

    install_claude(&context, &[start.clone(), json!({"sleep_ms": 60_000})]);
    let output = run(&context, &case);
    output.assert_code(3);
    let record = context.record();
    assert_eq!(record["outcome"], "sandbox");
    assert_eq!(record["agent"]["mcp_servers"], servers);
    assert_eq!(codes(&record), ["MCP_SERVER_FAILED"]);
    assert!(output.stdout.contains("`db` (failed)"), "{output}");

    install_claude(&context, &[start, says("m-1", "done"), result()]);
    let fields = json!({
        "workspace_dir": "second", "agent": {"config": {"require_mcp": false}},
    });
    run(&context, &with(&case, &fields)).assert_code(0);
    let record = crate::support::last_artifact(&context, "record.json");
    let record: Value = serde_json::from_slice(&fs_err::read(record).unwrap()).unwrap();
    assert_eq!(record["agent"]["mcp_servers"], servers);
    let notes = record["notes"].to_string();
    assert!(notes.contains("`db` was not usable: failed"), "{notes}");

    install_claude(&context, &[print("done\n")]);
    let fields = json!({"workspace_dir": "third", "agent": {"config": {"transport": "text"}}});
    run(&context, &with(&case, &fields)).assert_code(0);
    let notes = last_record(&context)["notes"].to_string();
    assert!(
        notes.contains("did not report the states of its MCP servers: db, web"),
        "{notes}"
    );
}
