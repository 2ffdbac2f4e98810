//! A suite whose trials are jobs of the cluster, and what it leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Cluster, Program, TestContext};
use serde_json::{Value, json};

/// More than any of these runs takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_mins(4);

/// A suite on the cluster.
pub struct Rig {
    pub cluster: Cluster,
    pub context: TestContext,
    pub suite: Utf8PathBuf,
}

impl Rig {
    /// A suite of this agent on one task; `None` if there is no cluster.
    pub fn new(agent: &Value, more: &Value) -> Option<Rig> {
        let cluster = Cluster::find()?;
        let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
        Some(Rig::of(cluster, context, agent, more))
    }

    pub fn of(cluster: Cluster, context: TestContext, agent: &Value, more: &Value) -> Rig {
        let case = json!({
            "name": "task",
            "description": "a trial on a node",
            "repo": context.repo().path(),
            "agent": {"type": "claude-code", "config": {"prompt": "do it"}},
            "evaluators": [{"name": "git-diff"}],
        });
        fs_err::write(context.root().join("case.json"), case.to_string()).unwrap();
        let mut suite = json!({
            "agents": [agent],
            "tasks": [{"testcase": "case.json"}],
            "executor": {"type": "slurm", "memory": "200m", "cpus": 1},
        });
        let members = suite.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let path = context.root().join("proctor.json");
        fs_err::write(&path, suite.to_string()).unwrap();
        Rig {
            cluster,
            context,
            suite: path,
        }
    }

    /// `proctor run` of the suite.
    pub fn run(&self, args: &[&str]) -> Program {
        let all = ["run", self.suite.as_str()]
            .into_iter()
            .chain(args.iter().copied());
        self.cluster
            .on(self.context.proctor(all))
            .deadline(DEADLINE)
    }

    /// The newest run.
    pub fn latest(&self) -> Utf8PathBuf {
        let link = self.context.root().join(".proctor/latest");
        link.canonicalize_utf8().unwrap()
    }

    /// The name of its jobs.
    pub fn jobs(&self) -> String {
        format!("proctor-{}", self.latest().file_name().unwrap())
    }

    /// The finished records, by their trial.
    pub fn finished(&self) -> BTreeMap<u64, Value> {
        let mut records = BTreeMap::new();
        let link = self.context.root().join(".proctor/latest/trials");
        for agent in link.read_dir_utf8().into_iter().flatten().flatten() {
            let tasks = agent.path().join("task").read_dir_utf8();
            for trial in tasks.into_iter().flatten().flatten() {
                let record = record(trial.path());
                if !trial.file_name().contains("attempt") && record["completed_at"].is_string() {
                    records.insert(record["trial"].as_u64().unwrap(), record);
                }
            }
        }
        records
    }
}

/// The record in a trial's folder; null when there is none.
pub fn record(folder: &Utf8Path) -> Value {
    let bytes = fs_err::read(folder.join("artifacts/record.json")).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// An agent that takes so many seconds.
pub fn sleeper(seconds: u32) -> Value {
    let line = format!("sleep {seconds}; echo done > done.txt");
    json!({"name": "agent", "type": "command", "config": {"command": ["sh", "-c", line]}})
}

/// An agent that works until there is a file of this name in the context, and what makes it.
pub fn waiter(context: &TestContext) -> (Value, impl FnOnce() + use<>) {
    let file = context.root().join("go");
    let line = format!("until [ -e {file} ]; do sleep 0.1; done; echo done > done.txt");
    let agent =
        json!({"name": "agent", "type": "command", "config": {"command": ["sh", "-c", line]}});
    (agent, move || fs_err::write(file, "").unwrap())
}
