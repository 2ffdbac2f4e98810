//! The real Claude Code against the scripted model, where it is installed. A shell script keeps it on loopback.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::sync::Arc;

use proctor_gateway::{
    Gateway, GatewayConfig, KeySpec, OnMiss, Pace, Provider, RecordingSpec, Upstream, VirtualKey,
};
use proctor_scripted_model::{Answer, RequestKind, Script, ScriptedModel};
use proctor_testkit::{Output, RealCli, TestContext, llm};
use serde_json::Value;

const VERSIONS: [&str; 2] = ["latest", "2.1.30"];

fn each_version(test: impl Fn(&TestContext, &RealCli)) {
    for version in VERSIONS {
        with_version(version, &test);
    }
}

fn with_version(version: &str, test: impl Fn(&TestContext, &RealCli)) {
    let ctx = TestContext::new(env!("CARGO_BIN_EXE_fake-agent"));
    if let Some(claude) = ctx.install_real_claude(version) {
        test(&ctx, &claude);
        ctx.assert_nothing_left("");
    }
}

fn ask(ctx: &TestContext, claude: &RealCli, model: &ScriptedModel) -> Output {
    let args = ["-p", "do it", "--output-format", "stream-json", "--verbose"];
    ctx.program(&claude.program, args)
        .arg("--dangerously-skip-permissions")
        .current_dir(ctx.repo().path())
        .model(model)
        .run()
}

fn result_event(output: &Output) -> Value {
    let events = output
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let result = events
        .into_iter()
        .find(|event: &Value| event["type"] == "result");
    result.unwrap_or_else(|| panic!("no result event: {output}"))
}

#[test]
fn a_scripted_write_changes_a_file_and_the_usage_adds_up() {
    each_version(|ctx, claude| {
        let path = ctx.repo().path().join("hello.txt");
        let script = llm::writes_file_then_says(path.as_str(), "hi\n", "written");
        let model = ScriptedModel::start_blocking(script).unwrap();
        let output = ask(ctx, claude, &model);
        output.assert_code(0);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hi\n");
        let result = result_event(&output);
        assert_eq!(result["result"], "written");
        let usage = &result["usage"];
        assert_eq!(usage["input_tokens"], 2 * llm::USAGE.input);
        assert_eq!(usage["output_tokens"], 2 * llm::USAGE.output);
        assert_eq!(usage["cache_read_input_tokens"], 2 * llm::USAGE.cache_read);
        assert_eq!(
            usage["cache_creation_input_tokens"],
            2 * llm::USAGE.cache_creation
        );
        let turns = model.turns();
        assert_eq!(turns.len(), 2);
        assert_eq!(turns[0].last_user_text().as_deref(), Some("do it"));
        assert_eq!(turns[0].api_key(), Some("sk-ant-fake"));
        assert!(turns[1].last_tool_result().unwrap().contains("hello.txt"));
    });
}

#[test]
fn a_sub_agent_gets_the_answer_made_for_it() {
    each_version(|ctx, claude| {
        let script = llm::delegates_then_says("count the files", "there are 7", "seven");
        let model = ScriptedModel::start_blocking(script).unwrap();
        let output = ask(ctx, claude, &model);
        let result = result_event(output.assert_code(0));
        assert_eq!(result["result"], "seven");
        // Only the figures by model cover the sub-agent.
        assert_eq!(result["usage"]["input_tokens"], 2 * llm::USAGE.input);
        let models = result["modelUsage"].as_object().unwrap().values();
        let read: u64 = models
            .filter_map(|model| model["inputTokens"].as_u64())
            .sum();
        assert_eq!(read, 3 * llm::USAGE.input);
        let order: Vec<_> = model.turns().iter().map(|turn| turn.answer).collect();
        assert_eq!(order, [Some(0), Some(2), Some(1)]);
        assert!(
            model.turns()[2]
                .last_tool_result()
                .unwrap()
                .contains("there are 7")
        );
    });
}

#[test]
fn a_refused_request_is_tried_again_and_an_invalid_one_is_not() {
    each_version(|ctx, claude| {
        let script = Script::new([Answer::error(529), Answer::text("at last")]);
        let model = ScriptedModel::start_blocking(script).unwrap();
        let output = ask(ctx, claude, &model);
        assert_eq!(result_event(output.assert_code(0))["result"], "at last");
        let model = ScriptedModel::start_blocking(llm::always_fails(400)).unwrap();
        let output = ask(ctx, claude, &model);
        assert_eq!(result_event(output.assert_code(1))["is_error"], true);
    });
}

#[test]
fn questions_on_the_side_do_not_eat_the_script() {
    // Without the permission flag this version asks a small model about the command first.
    with_version("2.1.30", |ctx, claude| {
        let script = llm::runs_command_then_says("touch x && git status", "finished");
        let model = ScriptedModel::start_blocking(script).unwrap();
        let args = ["-p", "do it", "--output-format", "stream-json", "--verbose"];
        let program = ctx.program(&claude.program, args).model(&model);
        let output = program.current_dir(ctx.repo().path()).run();
        assert_eq!(result_event(output.assert_code(0))["result"], "finished");
        assert_eq!(model.turns().len(), 2);
        let asked = model.requests();
        let on_the_side = asked.iter().filter(|r| r.kind == RequestKind::Side);
        assert!(on_the_side.count() >= 1, "it no longer asks");
    });
}

#[test]
fn cut_stream_is_retried() {
    each_version(|ctx, claude| {
        let script = Script::new([
            Answer::text("half a word").cut_after(3),
            Answer::text("whole"),
        ]);
        let model = ScriptedModel::start_blocking(script).unwrap();
        let output = ask(ctx, claude, &model);
        assert_eq!(result_event(output.assert_code(0))["result"], "whole");
        // With or without a stream: versions differ.
        assert_eq!(model.turns().len(), 2);
    });
}

/// Runs the CLI through a gateway with this key.
fn ask_through(ctx: &TestContext, claude: &RealCli, gateway: &Gateway, key: &VirtualKey) -> Output {
    let args = ["-p", "do it", "--output-format", "stream-json", "--verbose"];
    ctx.program(&claude.program, args)
        .arg("--dangerously-skip-permissions")
        .current_dir(ctx.repo().path())
        .env("ANTHROPIC_BASE_URL", gateway.url())
        .env("ANTHROPIC_API_KEY", key.expose())
        .run()
}

#[test]
fn a_session_through_the_gateway_is_metered_exactly_and_replays_without_a_model() {
    let tapes = tempfile::tempdir().unwrap();
    each_version(|ctx, claude| {
        let tape = tapes.path().join("session.ndjson");
        let _ = std::fs::remove_file(&tape);
        // By intent, so that the tool is the client's own.
        let mut script = Script::new([
            Answer::write_file("hello.txt", "hi\n").usage(llm::USAGE),
            Answer::text("written").usage(llm::USAGE),
        ]);
        script.then.usage = llm::USAGE;
        let upstream = (Provider::Anthropic, Upstream::Script(Arc::new(script)));
        let upstreams = vec![upstream];
        let config = GatewayConfig {
            upstreams,
            ..GatewayConfig::default()
        };
        let recording = Gateway::start(config).unwrap();
        let key = recording
            .mint(KeySpec {
                recording: Some(RecordingSpec::Record(tape.clone())),
                ..KeySpec::default()
            })
            .unwrap();
        let output = ask_through(ctx, claude, &recording, &key);
        output.assert_code(0);
        let written = ctx.repo().path().join("hello.txt");
        assert_eq!(std::fs::read_to_string(&written).unwrap(), "hi\n");
        let ledger = recording.ledger(&key).unwrap();
        let reported = &result_event(&output)["modelUsage"];
        let of = |name: &str| -> u64 {
            let models = reported.as_object().unwrap().values();
            models.map(|usage| usage[name].as_u64().unwrap()).sum()
        };
        assert_eq!(
            ledger.totals.usage.output,
            of("outputTokens"),
            "{ledger:#?}"
        );
        assert_eq!(ledger.totals.usage.cache_read, of("cacheReadInputTokens"));

        std::fs::remove_file(&written).unwrap();
        let replaying = Gateway::start(GatewayConfig::default()).unwrap();
        let recording = Some(RecordingSpec::Replay {
            path: tape,
            on_miss: OnMiss::Refuse,
            pace: Pace::AtOnce,
        });
        let key = replaying
            .mint(KeySpec {
                recording,
                ..KeySpec::default()
            })
            .unwrap();
        let replayed = ask_through(ctx, claude, &replaying, &key);
        let report = replaying.recording_report(&key).unwrap();
        assert!(report.misses.is_empty(), "{report:#?}");
        replayed.assert_code(0);
        assert_eq!(result_event(&replayed)["result"], "written");
        assert_eq!(std::fs::read_to_string(&written).unwrap(), "hi\n");
    });
}
