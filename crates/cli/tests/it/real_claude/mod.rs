//! `proctor run` with the real Claude Code, which talks to a scripted model on loopback. What
//! these tests share: a trial, what it leaves, and what must not be left.

mod failures;
mod gateway;
mod judge;
mod litellm;
mod matrix;
mod options;
mod prompts;
mod rough;
mod server;
mod transports;
mod tutorial;
mod variants;

use std::time::{Duration, Instant};

use proctor_scripted_model::{Script, ScriptedModel};
use proctor_testkit::{Output, Program, TestContext};
use serde_json::{Value, json};

/// The version that the package registry calls latest.
const LATEST: &str = "latest";

/// A trial of the real Claude Code with a scripted model.
struct Trial {
    ctx: TestContext,
    model: ScriptedModel,
}

impl Trial {
    /// None, with a line that says so, when this version is not installed.
    fn of(version: &str, script: Script) -> Option<Trial> {
        let ctx = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
        ctx.install_real_claude(version)?;
        let model = ScriptedModel::start_blocking(script).unwrap();
        Some(Trial { ctx, model })
    }

    /// Changes the script that starts the CLI.
    fn rewrap(&self, change: impl FnOnce(String) -> String) {
        let program = self.ctx.bin().join("claude");
        let script = fs_err::read_to_string(&program).unwrap();
        fs_err::write(&program, change(script)).unwrap();
    }

    /// `proctor run` on a test case whose `agent.config` is this, with the prompt "do it" unless
    /// there is one. The agent may take a minute.
    fn program(&self, config: Value) -> Program {
        self.program_within(Duration::from_mins(1), config)
    }

    /// The same, when the agent may take so long.
    fn program_within(&self, limit: Duration, mut config: Value) -> Program {
        let members = config.as_object_mut().unwrap();
        if !members.contains_key("prompt") && !members.contains_key("prompt_file") {
            members.insert("prompt".to_owned(), "do it".into());
        }
        let case = json!({
            "name": "real",
            "description": "the real Claude Code on a small repo",
            "repo": self.ctx.repo().path(),
            "agent": {"type": "claude-code", "config": config},
            "timeout": u64::try_from(limit.as_millis()).unwrap(),
            "evaluators": [{"name": "git-diff"}],
        });
        // JSON is YAML too.
        let case = self.ctx.testcase(&case.to_string());
        self.ctx
            .proctor(["run", "-c", case.as_str()])
            .model(&self.model)
    }

    /// Runs it to its end, and checks that nothing is left of it.
    #[track_caller]
    fn run(&self, config: Value) -> Output {
        let output = self.program(config).run();
        self.assert_tidy();
        output
    }

    /// No process is alive and no temporary folder is there.
    #[track_caller]
    fn assert_tidy(&self) {
        self.ctx.assert_nothing_left("");
        let tmp = self.ctx.root().join("tmp");
        let left: Vec<_> = tmp.read_dir_utf8().unwrap().flatten().collect();
        assert!(left.is_empty(), "left in the temporary folder: {left:?}");
    }

    /// The record of the only trial.
    #[track_caller]
    fn record(&self) -> Value {
        self.ctx.record()
    }

    /// The last event of this type in what the CLI printed.
    #[track_caller]
    fn last_event(&self, kind: &str) -> Value {
        let raw = fs_err::read_to_string(self.ctx.artifact("raw/stdout")).unwrap();
        let found = raw.lines().rev().find_map(|line| {
            // On a terminal, escapes may stand before it.
            let event: Value = serde_json::from_str(&line[line.find('{')?..]).ok()?;
            (event["type"] == kind).then_some(event)
        });
        found.unwrap_or_else(|| panic!("no {kind} event in {raw}"))
    }

    /// The patch of the agent's work.
    #[track_caller]
    fn patch(&self) -> String {
        fs_err::read_to_string(self.ctx.artifact("git-diff.patch")).unwrap()
    }
}

/// The codes of a record's errors.
fn codes(record: &Value) -> Vec<&str> {
    let errors = record["errors"].as_array().unwrap();
    errors.iter().filter_map(|e| e["code"].as_str()).collect()
}

/// Runs `f`, and how long it took.
fn timed<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let value = f();
    (value, began.elapsed())
}

/// Panics unless `part` of `whole` is `expected`, and shows the whole.
#[track_caller]
fn expect(whole: &Value, part: &str, expected: impl Into<Value>) {
    let found = whole.pointer(part).unwrap_or(&Value::Null);
    assert_eq!(*found, expected.into(), "{part} of {whole:#}");
}
