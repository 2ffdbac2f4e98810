//! Seed 004 as written: its three orchestrators with adapter scripts and images, on its first task.
//! Claude Code 2.1.30 and aider are real; the model plays a script.

use std::{io::Write as _, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{BUSYBOX, DEBIAN};
use serde_json::{Value, json};

use super::Rig;

const TASK: &str = "examples/bench/tasks/bench-time-tracker";
const CLAUDE: &str = "2.1.30";
/// Instead of the three of the configuration: the scripted model makes every trial the same.
const TRIALS: &str = "2";

/// The orchestrators, as the seed's configuration has them.
const ORCHESTRATORS: &str = r#"orchestrators:
  - name: "null"
    adapter: ./adapters/null.sh
    image: alpine:latest

  - name: claude-code
    adapter: ./adapters/claude-code/adapter.sh
    image: thunderdome/claude-code:latest
    env:
      ANTHROPIC_API_KEY: "${ANTHROPIC_API_KEY}"

  - name: aider
    adapter: ./adapters/aider/adapter.sh
    image: thunderdome/aider:latest
    env:
      ANTHROPIC_API_KEY: "${ANTHROPIC_API_KEY}"
"#;

const TASKS: &str = r#"tasks:
  - repo: ./bench-time-tracker
    tag: v1
    validation_tag: v1-validation
    category: greenfield/simple
    validation_image: proctor-test:debian
    test_cmd: cp hidden/*.py . && sed -i "s|^WORK = None|WORK = '$PWD'|" program.py && python3 -m unittest test_hidden.StartAndStop test_hidden.Export
    time_limit_minutes: 10
trials: 3
"#;

/// Writes the reference solution with the tools of any client.
fn solves(solution: &str) -> Value {
    json!({"answers": [
        {"message": {
            "content": [{"write_file": {"path": "tt.py", "content": solution}}],
            "usage": {"input": 1300, "output": 500},
        }},
        {"message": {"content": [{"text": "Done."}], "usage": {"input": 200, "output": 20}}},
    ]})
}

/// An image that is removed with the test.
struct Image<'a> {
    rig: &'a Rig,
    name: &'static str,
}

impl<'a> Image<'a> {
    /// Builds it from the tests' own base and these folders, which appear below `/opt`.
    fn build(
        rig: &'a Rig,
        name: &'static str,
        folder: &Utf8Path,
        program: (&str, &str),
    ) -> Image<'a> {
        let context = rig.context.root().join("image");
        fs_err::create_dir(&context).unwrap();
        let files = context.join("files");
        // Links where the file system has them: some hundred megabytes are not copied twice.
        let copy = format!("cp -al {folder} {files} 2>/dev/null || cp -a {folder} {files}");
        let copy = rig.context.program("sh".into(), ["-c", &copy]);
        copy.env("PATH", "/usr/bin:/bin").run().assert_code(0);
        let (command, script) = program;
        fs_err::write(context.join("program"), script).unwrap();
        let dockerfile = format!(
            "FROM {DEBIAN}\nCOPY files /opt/files\nCOPY program /usr/local/bin/{command}\nRUN chmod 755 /usr/local/bin/{command}\n"
        );
        fs_err::write(context.join("Dockerfile"), dockerfile).unwrap();
        rig.docker(&["build", "--quiet", "--tag", name, context.as_str()]);
        fs_err::remove_dir_all(context).unwrap();
        Image { rig, name }
    }

    /// Another name of an image that is there.
    fn tag(rig: &'a Rig, of: &str, name: &'static str) -> Image<'a> {
        rig.docker(&["tag", of, name]);
        Image { rig, name }
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        self.rig.docker(&["rmi", "--force", self.name]);
    }
}

/// The folder of aider's modules, when the image has the Python that they are compiled for.
fn aider(rig: &Rig) -> Option<Utf8PathBuf> {
    let cli = rig.context.install_pip("aider")?;
    let python = rig.docker(&[
        "run",
        "--rm",
        "--network",
        "none",
        DEBIAN,
        "python3",
        "--version",
    ]);
    if !python.starts_with(&format!("Python {}.", cli.python)) {
        let message = format!(
            "SKIPPED bench: aider is for Python {}, {python}",
            cli.python
        );
        let _ = writeln!(std::io::stderr(), "{message}");
        return None;
    }
    Some(cli.modules)
}

/// The task's repository with its tags, and the shipped adapters, where the configuration looks.
fn lay_out(rig: &Rig, root: &Utf8Path) {
    let task = root.join(TASK);
    let repo = rig.context.root().join("bench-time-tracker");
    let script = format!(
        "set -e; cp -r {task}/environment/repo {repo}; cp {task}/instruction.md {repo}/TASK.md; cp -r {root}/adapters {own}
         cd {repo}; git init -q; git add -A; git -c user.name=t -c user.email=t@localhost commit -qm v1; git tag v1
         cp -r {task}/tests hidden; git add -A; git -c user.name=t -c user.email=t@localhost commit -qm v; git tag v1-validation",
        own = rig.context.root(),
    );
    let made = rig.context.program("sh".into(), ["-c", &script]);
    made.env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .run()
        .assert_code(0);
}

#[test]
fn claude_code_and_aider_are_compared_through_their_adapter_scripts() {
    let Some(rig) = Rig::new() else { return };
    let (Some(modules), Some(aider)) = (rig.context.real_claude_modules(CLAUDE), aider(&rig))
    else {
        return;
    };
    let root = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize_utf8().unwrap();
    lay_out(&rig, &root);
    let claude = "#!/bin/sh\nexec node /opt/files/@anthropic-ai/claude-code/cli.js \"$@\"\n";
    let start = "#!/bin/sh\nPYTHONPATH=/opt/files exec python3 -m aider \"$@\"\n";
    let _images = [
        Image::tag(&rig, BUSYBOX, "alpine:latest"),
        Image::build(
            &rig,
            "thunderdome/claude-code:latest",
            &modules,
            ("claude", claude),
        ),
        Image::build(&rig, "thunderdome/aider:latest", &aider, ("aider", start)),
    ];
    let solution = fs_err::read_to_string(root.join(TASK).join("solution/tt.py")).unwrap();
    let answers = rig.context.root().join("answers.json");
    fs_err::write(&answers, solves(&solution).to_string()).unwrap();
    let suite = rig.context.root().join("thunderdome.yaml");
    fs_err::write(&suite, format!("{ORCHESTRATORS}\n{TASKS}")).unwrap();
    let program = rig.program(
        &suite,
        &[
            "--model-script",
            answers.as_str(),
            "--parallel",
            "2",
            "--trials",
            TRIALS,
        ],
    );
    let program = program.env("ANTHROPIC_API_KEY", "sk-ant-canary-99887766");
    let output = program.deadline(Duration::from_mins(15)).run();
    rig.assert_tidy();
    // The null agent fails, which does not decide.
    output.assert_code(0);
    for (agent, status, calls) in [
        ("null", "failed", 0),
        ("claude-code", "passed", 2),
        ("aider", "passed", 1),
    ] {
        for trial in ["trial-1", "trial-2"] {
            let file = rig
                .trial(agent)
                .with_file_name(trial)
                .join("artifacts/record.json");
            let record: Value = serde_json::from_slice(&fs_err::read(file).unwrap()).unwrap();
            assert_eq!(record["outcome"], "completed", "{output}\n{record:#}");
            assert_eq!(record["status"], status, "{record:#}");
            let made = record["gateway"]["calls"].as_u64().unwrap();
            assert!(made >= calls, "{record:#}");
        }
    }
    compared(&rig);
}

/// `proctor compare` of the two.
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
    let printed: Value = serde_json::from_str(&compared.stdout).unwrap();
    let compared = &printed["comparisons"][0];
    for (side, agent) in [("baseline", "claude-code"), ("candidate", "aider")] {
        let name = compared[side].as_str().unwrap();
        assert!(name.starts_with(agent), "{printed:#}");
        let trials = &compared["changes"][0][format!("{side}_trials")];
        assert_eq!(trials.to_string(), TRIALS, "{printed:#}");
    }
}
