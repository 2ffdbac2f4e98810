//! `proctor run` with trials in containers, against a real engine: what is recorded, what is
//! judged, and that nothing is left.

mod adapters;
mod bench;
mod bounds;
mod definitions;
mod elsewhere;
mod engines;
mod harbor;
mod iterations;
mod judged;
mod many;
mod mining;
mod models;
mod networks;
mod odd;
mod owners;
mod restart;
mod shipped;
mod steps;
mod swebench;
mod task_tools;
mod terminal_bench;
mod variants;

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{DEBIAN, Output, Program, TestContext, docker_host};
use serde_json::{Value, json};

/// A suite of one repo's task, and the engine that it runs on.
struct Rig {
    context: TestContext,
    host: String,
    /// How long an agent may take on the repo's task.
    timeout: Duration,
}

impl Rig {
    /// None, with a line that says so, without an engine.
    fn new() -> Option<Rig> {
        let host = docker_host()?;
        let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
        let timeout = Duration::from_mins(1);
        Some(Rig {
            context,
            host,
            timeout,
        })
    }

    /// Writes a suite; `more` stands in the place of its usual fields or beside them.
    fn suite(&self, agents: &Value, more: &Value) -> Utf8PathBuf {
        let case = json!({
            "name": "greet", "description": "a greeting", "repo": self.context.repo().path(),
            "agent": {"type": "claude-code", "config": {"prompt": "greet"}}, "reference": "solution.patch", "timeout": u64::try_from(self.timeout.as_millis()).unwrap(),
            "evaluators": ["git-diff", {"name": "command", "config": {"command": JUDGE}}],
        });
        self.context.testcase(&case.to_string());
        let solution = self.context.root().join("cases/solution.patch");
        fs_err::write(solution, SOLUTION).unwrap();
        let mut suite = json!({
            "agents": agents, "tasks": [{"testcase": "cases/testcase.yaml"}],
            "sandbox": {"type": "docker", "image": DEBIAN},
        });
        for (key, value) in more.as_object().unwrap() {
            suite[key] = value.clone();
        }
        let path = self.context.root().join("suite.yaml");
        fs_err::write(&path, suite.to_string()).unwrap();
        path
    }

    fn program(&self, path: &Utf8Path, args: &[&str]) -> Program {
        let all = ["run", path.as_str(), "--sandbox", "docker"];
        let program = self
            .context
            .proctor(all.into_iter().chain(args.iter().copied()));
        program.env("DOCKER_HOST", &self.host)
    }

    /// Runs it to its end, and checks that nothing is left of it.
    #[track_caller]
    fn run(&self, path: &Utf8Path, args: &[&str]) -> Output {
        let output = self.program(path, args).run();
        self.assert_tidy();
        output
    }

    /// The folder of an agent's first trial.
    fn trial(&self, agent: &str) -> Utf8PathBuf {
        // Suites in Thunderdome's format have their own place.
        let runs = [".proctor/latest", "results/latest"].map(|run| self.context.root().join(run));
        let run = runs.iter().find(|run| run.exists()).unwrap();
        let agent = run.join("trials").join(agent);
        let task = agent.read_dir_utf8().unwrap().next().unwrap().unwrap();
        task.path().join("trial-1")
    }

    fn record(&self, agent: &str) -> Value {
        let path = self.trial(agent).join("artifacts/record.json");
        serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
    }

    fn printed(&self, agent: &str) -> String {
        fs_err::read_to_string(self.trial(agent).join("artifacts/raw/stdout")).unwrap()
    }

    /// The containers of this context's runs.
    fn containers(&self) -> Vec<String> {
        self.context.containers(&self.host)
    }

    #[track_caller]
    fn docker(&self, args: &[&str]) -> String {
        self.context.docker(&self.host, args)
    }

    /// No container, no process and no temporary folder is there.
    #[track_caller]
    fn assert_tidy(&self) {
        assert_eq!(self.containers(), Vec::<String>::new());
        self.context.assert_nothing_left("");
        let tmp = self.context.root().join("tmp");
        let left: Vec<_> = tmp.read_dir_utf8().unwrap().flatten().collect();
        assert!(left.is_empty(), "left in the temporary folder: {left:?}");
    }
}

const SOLUTION: &str = "diff --git a/greeting.txt b/greeting.txt\nnew file mode 100644\n--- /dev/null\n+++ b/greeting.txt\n@@ -0,0 +1 @@\n+hello\n";
/// Says where it runs; the agent's leftovers beside the workspace would be seen in its container.
const JUDGE: &str = "echo judge on $(cat /proc/sys/kernel/hostname) as $(id -u); test ! -e /tmp/agent-was-here && grep -qx hello greeting.txt";

/// An agent that is a script for the shell.
fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "type": "command", "config": {"command": ["sh", "-c", script]}})
}

fn codes(record: &Value) -> Vec<&str> {
    let errors = record["errors"].as_array().unwrap();
    errors.iter().filter_map(|e| e["code"].as_str()).collect()
}

#[test]
fn agents_work_on_a_repo_in_a_container_of_their_own() {
    let Some(rig) = Rig::new() else { return };
    let script = "hostname; id -u; pwd; touch /tmp/agent-was-here; touch /etc/x; echo hello > greeting.txt; git status --short";
    let agents = json!([
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
        shell("writer", script),
    ]);
    let suite = rig.suite(&agents, &json!({}));
    rig.run(&suite, &[]).assert_code(0);
    let id = rig.docker(&["image", "inspect", "--format", "{{.Id}}", DEBIAN]);
    for (agent, status) in [
        ("floor", "failed"),
        ("ceiling", "passed"),
        ("writer", "passed"),
    ] {
        let record = rig.record(agent);
        assert_eq!(record["status"], status, "{record:#}");
        let sandbox = &record["sandbox"];
        assert_eq!(sandbox["kind"], "docker", "{record:#}");
        assert_eq!(sandbox["image"], DEBIAN);
        assert_eq!(sandbox["image_id"], id.trim());
        assert_eq!(sandbox["network"], "gateway");
        let user = sandbox["user"].as_str().unwrap();
        assert!(!user.starts_with('0') && user != "root", "{user}");
    }
    for agent in ["ceiling", "writer"] {
        let patch = fs_err::read_to_string(rig.trial(agent).join("diff.patch")).unwrap();
        assert!(
            patch.contains("+++ b/greeting.txt\n@@ -0,0 +1 @@\n+hello"),
            "{patch}"
        );
        assert_eq!(rig.record(agent)["diff"]["files_changed"], 1);
    }
    let printed = rig.printed("writer");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[1..], ["1000", "/workspace", "?? greeting.txt"]);
    let log = rig.trial("writer").join("artifacts");
    let judged = find(&log, "output.log").into_iter().find_map(|path| {
        let text = fs_err::read_to_string(path).unwrap();
        text.contains("judge on").then_some(text)
    });
    let judged = judged.unwrap();
    assert!(
        !judged.contains(lines[0]),
        "judged where the agent was: {judged}"
    );
    assert!(!judged.contains("as 0"), "{judged}");
}

/// The files of this name below a folder, which may be about to change; all when it is empty.
fn find(folder: &Utf8Path, name: &str) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(find(entry.path(), name));
        } else if entry.file_name() == name || name.is_empty() {
            found.push(entry.into_path());
        }
    }
    found
}
