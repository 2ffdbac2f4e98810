//! CR-4.2, and the last steps of Thunderdome's plan: Claude Code and aider on a task of the example
//! benchmark, three trials each, in containers, compared. Both CLIs are real and of a named version,
//! installed once beside the image; the model plays a script.

use std::{io::Write as _, time::Duration};

use camino::Utf8Path;
use proctor_testkit::{DEBIAN, PipCli};
use serde_json::{Value, json};

use super::Rig;

const TASK: &str = "examples/bench/tasks/bench-time-tracker";

/// Writes the reference solution, whichever way a client writes files.
fn solves(solution: &str) -> Value {
    json!({"answers": [
        {"message": {
            "content": [{"write_file": {"path": "tt.py", "content": solution}}],
            "usage": {"input": 1300, "output": 500},
        }},
        {"message": {"content": [{"text": "Done."}], "usage": {"input": 200, "output": 20}}},
    ]})
}

/// Whether the image has the Python that the modules of this CLI are compiled for. The real pip would
/// take those for the Python of the image.
fn runs_in_image(rig: &Rig, cli: &PipCli) -> bool {
    let ask = ["run", "--rm", "--network", "none", DEBIAN];
    let ask = [ask.as_slice(), &["python3", "--version"]].concat();
    let image = rig.docker(&ask);
    let fits = image.starts_with(&format!("Python {}.", cli.python));
    if !fits {
        let message = format!("SKIPPED bench: aider is for Python {}, {image}", cli.python);
        let _ = writeln!(std::io::stderr(), "{message}");
    }
    fits
}

#[test]
fn claude_code_and_aider_are_compared_on_a_task_of_the_benchmark() {
    let Some(rig) = Rig::new() else { return };
    let (Some(claude), Some(aider)) = (
        rig.context.install_npm("latest"),
        rig.context.install_pip("aider"),
    ) else {
        return;
    };
    if !runs_in_image(&rig, &aider) {
        return;
    }
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let task = root.join(TASK).canonicalize_utf8().unwrap();
    let solution = fs_err::read_to_string(task.join("solution/tt.py")).unwrap();
    let answers = rig.context.root().join("answers.json");
    fs_err::write(&answers, solves(&solution).to_string()).unwrap();
    let agents = json!([
        {"type": "claude-code", "version": claude, "model": "claude-sonnet-4-5"},
        {"type": "aider", "version": aider.version, "model": "gpt-4o", "config": {"auto_commits": false}},
    ]);
    let suite = json!({
        "tasks": [{"folder": task}], "trials": 3, "parallel": 2, "network": "gateway",
        "sandbox": {"type": "docker", "images": {"python:3-slim": DEBIAN}},
        "gateway": {"script": "answers.json"},
    });
    let path = rig.suite(&agents, &suite);
    let program = rig.program(&path, &[]).deadline(Duration::from_mins(15));
    let output = program.run();
    rig.assert_tidy();
    for (agent, version) in [("claude-code", &claude), ("aider", &aider.version)] {
        for trial in ["trial-1", "trial-2", "trial-3"] {
            let file = rig.trial(agent).with_file_name(trial);
            let file = file.join("artifacts/record.json");
            let record: Value = serde_json::from_slice(&fs_err::read(file).unwrap()).unwrap();
            assert_eq!(record["outcome"], "completed", "{output}\n{record:#}");
            assert_eq!(record["status"], "passed", "{record:#}");
            assert_eq!(record["agent"]["version"], **version, "{record:#}");
            assert_eq!(record["sandbox"]["network"], "gateway");
            assert!(
                record["gateway"]["calls"].as_u64().unwrap() > 0,
                "{record:#}"
            );
        }
    }
    output.assert_code(0);
    let log = fs_err::read_to_string(rig.context.root().join("pip.log")).unwrap();
    assert_eq!(
        log,
        format!("aider-chat=={}\n", aider.version),
        "installed once"
    );
    compared(&rig);
}

/// `proctor compare` of the two, three trials each.
fn compared(rig: &Rig) {
    let run = rig.context.root().join("results/latest");
    let compare = [
        "compare",
        "claude-code",
        "aider",
        "--run",
        run.as_str(),
        "--format",
        "json",
    ];
    let compared = rig.context.proctor(compare).run();
    compared.assert_code(0);
    let told: Value = serde_json::from_str(&compared.stdout).unwrap();
    let compared = &told["comparisons"][0];
    for (side, agent) in [("baseline", "claude-code"), ("candidate", "aider")] {
        let name = compared[side].as_str().unwrap();
        assert!(name.starts_with(agent), "{told:#}");
        let trials = &compared["changes"][0][format!("{side}_trials")];
        assert_eq!(*trials, 3, "{told:#}");
    }
}
