//! Attacks on the judge: one table for each runner. A row says what the agent does and which verdict it must get. The
//! same tables run on this machine and in containers. Honest work stands beside the attacks and must still pass.

pub mod compiled;
pub mod git;
pub mod javascript;
pub mod make;
pub mod node;
pub mod python;
pub mod shell;

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use Expect::{Fails, Passes, Tampered};

/// A task and the agents that try to deceive its judge.
pub struct Table {
    /// The files of the base.
    pub files: Vec<(&'static str, String)>,
    pub evaluators: Value,
    /// Solves the task, as a shell command.
    pub good: String,
    /// The files of tests on the base.
    #[allow(dead_code, reason = "the tests of containers leave it out")]
    pub tests: Vec<&'static str>,
    /// The first of them with its test renamed and made of parameters.
    #[allow(dead_code, reason = "the tests of containers leave it out")]
    pub renamed: &'static str,
    /// A file with settings of the runner as a product: its path, its text on the base, and the text that is asked for.
    #[allow(dead_code, reason = "the tests of containers leave it out")]
    pub settings: Option<(&'static str, &'static str, String)>,
    pub rows: Vec<Row>,
}

/// One agent.
pub struct Row {
    pub name: &'static str,
    /// A line for the shell.
    pub line: String,
    pub expect: Expect,
    /// Whether the attack can stand beside good work, which must pass then.
    pub is_combined: bool,
}

/// The verdict that a row must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The work is good, and the attack on the judge, if there is one, changes nothing.
    Passes,
    /// The work is not good, and the attack gains nothing.
    Fails,
    /// The work changed files that judge it while it was judged.
    Tampered,
}

/// An attack that gains nothing, and does no harm beside good work.
pub fn attack(name: &'static str, line: impl Into<String>) -> Row {
    Row {
        is_combined: true,
        ..row(name, Fails, line)
    }
}

/// A row that stands alone.
pub fn row(name: &'static str, expect: Expect, line: impl Into<String>) -> Row {
    Row {
        name,
        line: line.into(),
        expect,
        is_combined: false,
    }
}

/// Where trials run: on this machine unless the fields say otherwise.
#[derive(Default)]
pub struct Sandbox {
    /// `sandbox` of the suite.
    pub suite: Option<Value>,
    /// More environment of Proctor.
    pub env: Vec<(&'static str, String)>,
    /// Words before Proctor's own command line.
    pub wrapper: Vec<String>,
    /// The reference solution of the task: a file beside the test case.
    pub reference: Option<&'static str>,
}

impl Table {
    /// Check every row, doing nothing, honest work, and honest work beside all attacks.
    #[track_caller]
    pub fn check(&self, context: &TestContext, sandbox: &Sandbox) {
        let files: Vec<(&str, &str)> = self.files.iter().map(|(k, v)| (*k, v.as_str())).collect();
        context.repo().commit("base", &files);
        let mut rows = vec![
            row("nothing", Fails, "true"),
            row("honest work", Passes, &*self.good),
        ];
        let together = self.rows.iter().filter(|row| row.is_combined);
        let together: Vec<&str> = together.map(|row| row.line.as_str()).collect();
        let together = format!("{}\n{}", together.join("\n"), self.good);
        rows.push(row("all attacks beside good work", Passes, together));
        rows.extend(self.rows.iter().map(|it| Row {
            line: it.line.clone(),
            ..*it
        }));
        check(context, sandbox, &self.evaluators, &rows);
    }
}

/// Run each row as an agent of one suite. All rows are tried before the test fails.
#[track_caller]
pub fn check(context: &TestContext, sandbox: &Sandbox, evaluators: &Value, rows: &[Row]) {
    run(context, sandbox, evaluators, rows);
    let wrong: Vec<String> = rows
        .iter()
        .enumerate()
        .filter_map(|(number, row)| row.problem(&record(context, number)))
        .collect();
    let (count, all) = (wrong.len(), rows.len());
    assert!(
        wrong.is_empty(),
        "{count} of {all} rows\n{}",
        wrong.join("\n")
    );
}

impl Row {
    /// How the verdict differs from what the row must get.
    fn problem(&self, record: &Value) -> Option<String> {
        let (status, score) = (&record["status"], record["score"]["value"].as_f64());
        let verdict = &record["verdicts"][0];
        let is_tampered = verdict["metrics"]["tampered"].is_array();
        // An agent that failed would score 0 without having attacked anything.
        let is_right = record["outcome"] == "completed"
            && match self.expect {
                Passes => status == "passed" && score == Some(1.0),
                Fails => status == "failed" && score == Some(0.0) && !is_tampered,
                Tampered => status == "failed" && score == Some(0.0) && is_tampered,
            };
        let (name, expect) = (self.name, self.expect);
        let text = || {
            format!(
                "{name}: expected {expect:?}, found {status} {score:?}: {verdict:#} {errors:#}",
                errors = record["errors"]
            )
        };
        (!is_right).then(text)
    }
}

fn run(context: &TestContext, sandbox: &Sandbox, evaluators: &Value, rows: &[Row]) {
    let agent = |(number, row): (usize, &Row)| json!({"name": format!("row-{number}"), "type": "command", "config": {"command": ["sh", "-ec", row.line]}});
    let agents: Vec<Value> = rows.iter().enumerate().map(agent).collect();
    let mut case = json!({
        "name": "attacked", "description": "a task", "repo": context.repo().path(), "timeout": 60_000,
        "agent": {"type": "claude-code", "config": {"prompt": "attack"}}, "evaluators": evaluators,
    });
    if let Some(reference) = sandbox.reference {
        case["reference"] = reference.into();
    }
    context.testcase(&case.to_string());
    let mut suite =
        json!({"agents": agents, "tasks": [{"testcase": "cases/testcase.yaml"}], "parallel": 4});
    if let Some(kind) = &sandbox.suite {
        suite["sandbox"] = kind.clone();
    }
    let path = context.root().join("suite.yaml");
    fs_err::write(&path, suite.to_string()).unwrap();
    let mut words: Vec<&str> = sandbox.wrapper.iter().map(String::as_str).collect();
    words.extend([context.binary().as_str(), "run", path.as_str()]);
    let program = context.program(Utf8Path::new(words[0]), words[1..].iter().copied());
    let program = sandbox
        .env
        .iter()
        .fold(program, |program, (name, value)| program.env(name, value));
    // A table has up to sixty trials, each of which starts its runner once or twice.
    let output = program.deadline(Duration::from_mins(10)).run();
    assert!(output.code == Some(0) || output.code == Some(1), "{output}");
}

pub fn record(context: &TestContext, number: usize) -> Value {
    let trials = context.root().join(".proctor/latest/trials");
    let path: Utf8PathBuf = trials.join(format!(
        "row-{number}/attacked/trial-1/artifacts/record.json"
    ));
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

/// A line for the shell that writes a file.
pub fn write(path: &str, text: &str) -> String {
    let folder = match path.rsplit_once('/') {
        Some((folder, _)) => format!("mkdir -p {folder}; "),
        None => String::new(),
    };
    format!("{folder}cat > {path} <<'EOF'\n{text}\nEOF\n")
}
