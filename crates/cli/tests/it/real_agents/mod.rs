//! `proctor run` with the real CLIs of other makers than Anthropic, through the gateway, which
//! plays a script on the wire that each of them speaks. Shared helpers: the CLIs, a suite of them,
//! and its results.

mod agents;
mod network;
mod parallel;
mod prompts;
mod switch;
mod tools;
mod variants;

use std::time::Duration;

use camino::Utf8PathBuf;
use proctor_testkit::{Output, Program, TestContext};
use serde_json::{Value, json};

/// A CLI under test.
struct Cli {
    /// The agent's type.
    kind: &'static str,
    /// The program.
    program: &'static str,
    /// A model of the wire that it is to speak.
    model: &'static str,
}

/// OpenAI responses.
const CODEX: Cli = Cli {
    kind: "codex",
    program: "codex",
    model: "gpt-5.5",
};
/// Gemini.
const GEMINI: Cli = Cli {
    kind: "gemini-cli",
    program: "gemini",
    model: "gemini-2.5-pro",
};
/// OpenAI responses, by another client.
const OPENCODE: Cli = Cli {
    kind: "opencode",
    program: "opencode",
    model: "openai/gpt-5.1",
};
/// Anthropic messages.
const COPILOT: Cli = Cli {
    kind: "copilot-cli",
    program: "copilot",
    model: "claude-sonnet-4-5",
};
/// OpenAI chat completions, without tools.
const AIDER: Cli = Cli {
    kind: "aider",
    program: "aider",
    model: "gpt-4o",
};

/// CLIs start slowly where many start at once.
const PATIENCE: Duration = Duration::from_mins(8);

/// A suite of real CLIs.
struct Suite {
    ctx: TestContext,
    agents: Vec<Value>,
    tasks: Vec<Value>,
}

impl Suite {
    /// None, with a line that says so, when one of them is not installed.
    fn of(clis: &[&Cli]) -> Option<Suite> {
        let ctx = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
        fs_err::create_dir(ctx.root().join("suite")).unwrap();
        let are_there = clis.iter().all(|cli| ctx.install_real(cli.program));
        let agents = clis
            .iter()
            .map(|cli| json!({"type": cli.kind, "model": cli.model}));
        are_there.then(|| Suite {
            agents: agents.collect(),
            tasks: Vec::new(),
            ctx,
        })
    }

    /// Adds a task whose prompt has its name in it, and which an agent may take so long for.
    fn task(self, name: &str, limit: Duration) -> Suite {
        self.task_asking(name, &format!("This is {name}: write hello.txt."), limit)
    }

    /// Adds a task that asks this.
    fn task_asking(mut self, name: &str, prompt: &str, limit: Duration) -> Suite {
        let prompt = prompt.replace("${", "$${");
        let case = json!({
            "name": name,
            "description": "a real CLI on a small repo",
            "repo": self.ctx.repo().path(),
            "agent": {"type": "null", "config": {"prompt": prompt}},
            "timeout": u64::try_from(limit.as_millis()).unwrap(),
            "evaluators": [{"name": "command", "config": {"command": "grep -qx hi hello.txt"}}],
        });
        let file = format!("{name}.json");
        let path = self.ctx.root().join("suite").join(&file);
        fs_err::write(path, case.to_string()).unwrap();
        self.tasks.push(json!({"testcase": file}));
        self
    }

    /// `proctor run` of the suite, all trials at once, with these further keys.
    fn program(&self, more: &Value) -> Program {
        let mut suite = json!({"agents": self.agents, "tasks": self.tasks, "parallel": 16});
        let members = suite.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let path = self.ctx.root().join("suite/proctor.json");
        fs_err::write(&path, suite.to_string()).unwrap();
        self.ctx.proctor(["run", path.as_str()]).deadline(PATIENCE)
    }

    /// The same with a model that gives these answers.
    fn scripted(&self, answers: &Value) -> Program {
        let script = json!({"answers": answers}).to_string();
        fs_err::write(self.ctx.root().join("suite/answers.json"), script).unwrap();
        self.program(&json!({"gateway": {"script": "answers.json"}}))
    }

    /// The record of a trial.
    #[track_caller]
    fn record(&self, cli: &Cli, task: &str, trial: u32) -> Value {
        let bytes = fs_err::read(self.artifacts(cli, task, trial).join("record.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// The standard output of a trial's agent.
    #[track_caller]
    fn raw_output(&self, cli: &Cli, task: &str, trial: u32) -> String {
        let path = self.artifacts(cli, task, trial).join("raw/stdout");
        fs_err::read_to_string(path).unwrap()
    }

    fn artifacts(&self, cli: &Cli, task: &str, trial: u32) -> Utf8PathBuf {
        let trials = self.ctx.root().join(".proctor/latest/trials");
        trials.join(format!("{}/{task}/trial-{trial}/artifacts", cli.kind))
    }

    /// No process is alive and no temporary folder is there.
    #[track_caller]
    fn assert_tidy(&self) {
        self.ctx.assert_nothing_left("");
        let tmp = self.ctx.root().join("tmp");
        let left: Vec<_> = tmp.read_dir_utf8().unwrap().flatten().collect();
        assert!(left.is_empty(), "left in the temporary folder: {left:?}");
    }

    /// Runs a program of this suite to its end.
    #[track_caller]
    fn finish(&self, program: Program) -> Output {
        let output = program.run();
        self.assert_tidy();
        output
    }
}

/// Writes the file that is asked for, then says so.
fn edits() -> Value {
    json!([
        {"message": {
            "content": [{"write_file": {"path": "hello.txt", "content": "hi\n"}}],
            "usage": {"input": 1300, "output": 50, "cache_read": 1200},
        }},
        {"message": {
            "content": [{"text": "Done."}],
            "usage": {"input": 200, "output": 20},
        }},
    ])
}

/// Panics unless a record has completed work, and the same usage from two sources.
#[track_caller]
fn assert_edited(record: &Value) {
    expect(record, "/outcome", "completed");
    expect(record, "/status", "passed");
    expect(record, "/diff/files_changed", 1);
    expect(record, "/gateway/calls", 2);
    expect(record, "/gateway/differences", Value::Null);
    let side = record["gateway"]["side_calls"].as_array();
    for count in [read, written] {
        let side: u64 = side.into_iter().flatten().map(count).sum();
        let own = count(&record["agent_usage"]);
        assert_eq!(own + side, count(&record["gateway"]), "{record:#}");
    }
    assert_eq!(read(&record["gateway"]), 2700);
    assert_eq!(written(&record["gateway"]), 70);
}

/// All tokens that the model had to read. Not every CLI tells which of them were cached.
fn read(figures: &Value) -> u64 {
    let parts = ["input_tokens", "cache_read_tokens", "cache_creation_tokens"];
    parts.iter().filter_map(|part| figures[part].as_u64()).sum()
}

fn written(figures: &Value) -> u64 {
    figures["output_tokens"].as_u64().unwrap_or_default()
}

/// Panics unless `part` of `whole` is `expected`, and shows the whole.
#[track_caller]
fn expect(whole: &Value, part: &str, expected: impl Into<Value>) {
    let found = whole.pointer(part).unwrap_or(&Value::Null);
    assert_eq!(*found, expected.into(), "{part} of {whole:#}");
}
