//! Trials as programs of their own, and what is refused on clusters; no cluster is needed. Those with one are in
//! `tests/slurm`.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use camino::Utf8PathBuf;
use proctor_testkit::{Program, TestContext, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::suites::{json_of, suite};
use crate::support::{context, print, schema, shell, write};

const SLURM: &str = "slurm";

/// An agent that writes a file after so many seconds.
fn agents(context: &TestContext, seconds: u64) -> Value {
    let wait = shell(&format!("sleep {seconds}"));
    let steps = json!([wait, write("new.txt", "x\n"), print("done\n")]);
    context.install_fake("agent", &steps);
    json!([{"name": "writer", "type": "command", "config": {"command": ["agent"]}}])
}

/// The spec that a run left whose cluster takes nothing.
fn spec(context: &TestContext, seconds: u64) -> Utf8PathBuf {
    spec_with(context, seconds, &json!({"executor": SLURM}), &[])
}

/// The same with what else the suite and the command line say.
fn spec_with(context: &TestContext, seconds: u64, more: &Value, args: &[&str]) -> Utf8PathBuf {
    for program in ["sbatch", "scontrol"] {
        let path = context.bin().join(program);
        let stub = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$0.asked\"\necho closed >&2\nexit 1\n";
        fs_err::write(&path, stub).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = suite(context, &agents(context, seconds), more);
    let all = ["run", path.as_str()].into_iter();
    let output = context.proctor(all.chain(args.iter().copied())).run();
    output.assert_code(3);
    assert!(
        output.stderr.contains("sbatch failed: closed"),
        "{output:?}"
    );
    context.root().join(".proctor/latest/cluster/trials/0.json")
}

fn trial(context: &TestContext, spec: &Utf8PathBuf) -> Program {
    context.proctor(["trial", "--spec", spec.as_str()])
}

#[test]
fn only_one_of_two_processes_runs_a_trial() {
    let context = context();
    let spec = spec(&context, 5);
    schema(&context, "trial").assert_valid(&json_of(&spec));
    let running = [
        trial(&context, &spec).spawn(),
        trial(&context, &spec).spawn(),
    ];
    let outputs = running.map(proctor_testkit::Running::wait);
    let mut codes = outputs.each_ref().map(|output| output.code);
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(4)], "{outputs:?}");
    let again = trial(&context, &spec).run();
    again.assert_code(0);
    assert!(again.stdout.contains("already has a record"), "{again:?}");
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "completed");
    assert_eq!(folder.parent().unwrap().read_dir().unwrap().count(), 1);
    // Only the process that ran the trial writes its events.
    let events = fs_err::read_to_string(folder.join("artifacts/events.ndjson")).unwrap();
    let events = events.lines().map(serde_json::from_str);
    let events: Vec<Value> = events.collect::<Result<_, _>>().unwrap();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str()).collect();
    assert_eq!(names.first(), Some(&Some("started")), "{names:?}");
    assert_eq!(names.last(), Some(&Some("ended")), "{names:?}");
}

#[test]
fn expired_lease_of_a_dead_process_is_taken_over() {
    let context = context();
    let spec = spec(&context, 3);
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let claim = format!("{}.1", json_of(&spec)["claims"].as_str().unwrap());
    let running = trial(&context, &spec).spawn();
    wait_until(Duration::from_secs(30), "it begins", || {
        folder.join("artifacts/record.json").exists()
    });
    running.signal(Signal::KILL);
    running.wait();
    // As if it had been a process of another machine: of those nothing is known but that they are silent.
    let text = fs_err::read_to_string(&claim).unwrap();
    let mut holder: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    holder["birth"]["space"] = "another kernel".into();
    fs_err::write(&claim, format!("{holder}\n")).unwrap();
    trial(&context, &spec).run().assert_code(4);
    let long_ago = SystemTime::now() - Duration::from_mins(2);
    let file = std::fs::File::options().append(true).open(claim).unwrap();
    file.set_modified(long_ago).unwrap();
    trial(&context, &spec).run().assert_code(0);
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "completed");
    let aside = Utf8PathBuf::from(format!("{folder}.attempt-1"));
    let before = json_of(&aside.join("artifacts/record.json"));
    assert_eq!(before["status"], "interrupted", "the first attempt is kept");
}

/// Its node was cut off from the engine, which started the task again elsewhere: both have the folder before them.
#[test]
fn replaced_process_does_not_touch_its_successors_trial() {
    let context = context();
    let keep = ["--keep-workspace", "all"];
    let spec = spec_with(&context, 9, &json!({"executor": SLURM}), &keep);
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let started = |restarts: &str| {
        let job = trial(&context, &spec).env("SLURM_ARRAY_JOB_ID", "7");
        let job = job.env("SLURM_ARRAY_TASK_ID", "0");
        job.env("SLURM_RESTART_COUNT", restarts).spawn()
    };
    let first = started("0");
    wait_until(Duration::from_secs(30), "its agent works", || {
        folder.join("artifacts/raw/stdout").exists()
    });
    let second = started("1");
    let first = first.wait();
    first.assert_code(4);
    assert!(first.stdout.contains("the lease expired"), "{first:?}");
    second.wait().assert_code(0);
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "completed", "{record:#}");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert!(folder.join("src-modified/new.txt").exists());
    let aside = Utf8PathBuf::from(format!("{folder}.attempt-1"));
    let names = |folder: &Utf8PathBuf| -> Vec<String> {
        let entries = folder.read_dir_utf8().unwrap().flatten();
        entries.map(|entry| entry.file_name().to_owned()).collect()
    };
    for folder in [&folder, &aside] {
        let left = names(folder);
        assert!(
            !left.iter().any(|name| name.starts_with(".trial")),
            "{left:?}"
        );
    }
    let before = json_of(&aside.join("artifacts/record.json"));
    assert_eq!(before["status"], "interrupted");
}

#[test]
fn work_that_was_not_judged_in_time_can_be_rescored() {
    let context = context();
    let more = json!({"executor": {"type": SLURM, "time": "12s"}});
    let spec = spec_with(&context, 0, &more, &[]);
    let suite = context.root().join("suite");
    let (case, fast) = (suite.join("cases/one.json"), context.root().join("fast"));
    let mut slow = json_of(&case);
    let command = format!("test -e {fast} || sleep 60");
    slow["evaluators"] = json!([{"name": "command", "config": {"command": command}}]);
    fs_err::write(&case, slow.to_string()).unwrap();
    fs_err::remove_dir_all(context.root().join(".proctor")).unwrap();
    let path = suite.join("proctor.json");
    let run = context.proctor(["run", path.as_str()]).run();
    run.assert_code(3);
    let done = trial(&context, &spec).run();
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "completed", "{record:#}");
    assert_eq!(record["status"], "error", "{record:#}");
    assert_eq!(record["score"], Value::Null, "nothing is said of the agent");
    done.assert_code(3);
    let again = trial(&context, &spec).run();
    assert!(again.stdout.contains("already has a record"), "{again:?}");
    fs_err::write(fast, "").unwrap();
    let latest = context.root().join(".proctor/latest");
    let rescored = context.proctor(["rescore", latest.as_str()]).run();
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["status"], "passed", "{rescored:?} {record:#}");
}

#[test]
fn job_requests_resources_of_the_suite() {
    let context = context();
    let slurm = json!({
        "type": SLURM, "partition": "short", "account": "lab", "time": "7201s", "memory": "4g", "cpus": 2,
        "args": ["--constraint=x86"],
    });
    spec_with(&context, 0, &json!({"executor": slurm, "parallel": 8}), &[]);
    let asked = fs_err::read_to_string(context.bin().join("sbatch.asked")).unwrap();
    let asked: Vec<&str> = asked.lines().collect();
    for expected in [
        "--parsable",
        "--requeue",
        "--array=0-1%8",
        "--partition=short",
        "--account=lab",
        "--time=121",
        "--mem=4096M",
        "--cpus-per-task=2",
        "--constraint=x86",
    ] {
        assert!(asked.contains(&expected), "{expected}: {asked:?}");
    }
}

/// The result of the agent is unknown.
#[test]
fn agent_that_did_not_start_in_its_jobs_time_is_excluded() {
    let context = context();
    let more = json!({"executor": {"type": SLURM, "time": "8s"}});
    let spec = spec_with(&context, 0, &more, &[]);
    let suite = context.root().join("suite");
    let case = suite.join("cases/one.json");
    let mut slow = json_of(&case);
    slow["pre_execution"] = json!([{"name": "script", "config": {"command": "sleep 60"}}]);
    fs_err::write(&case, slow.to_string()).unwrap();
    fs_err::remove_dir_all(context.root().join(".proctor")).unwrap();
    let path = suite.join("proctor.json");
    context.proctor(["run", path.as_str()]).run().assert_code(3);
    trial(&context, &spec).run().assert_code(3);
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["outcome"], "sandbox", "{record:#}");
    assert_eq!(record["score"], Value::Null, "{record:#}");
    assert!(
        record["errors"]
            .to_string()
            .contains("the time limit of its job"),
        "{record:#}"
    );
}

#[test]
fn a_budget_of_the_command_line_reaches_the_nodes() {
    let context = context();
    let more = json!({"executor": SLURM});
    let spec = spec_with(&context, 0, &more, &["--max-cost", "2"]);
    let gateway = &json_of(&spec)["gateway"];
    assert_eq!(gateway, &json!({"place": "trial", "slice_usd": 1.0}));
    // A resumed run may get more time.
    let suite = context.root().join("suite/proctor.json");
    let more = ["run", suite.as_str(), "--resume", "--max-cost", "4"];
    context.proctor(more).run().assert_code(3);
    assert_eq!(json_of(&spec)["gateway"]["slice_usd"], 2.0);
    let key = ("ANTHROPIC_API_KEY", "sk-test");
    trial(&context, &spec)
        .env(key.0, key.1)
        .run()
        .assert_code(0);
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let record = json_of(&folder.join("artifacts/record.json"));
    assert_eq!(record["gateway"]["place"], "trial", "{record:#}");
}

#[test]
fn a_trial_whose_task_has_changed_is_refused() {
    let context = context();
    let spec = spec(&context, 0);
    let task = json_of(&spec)["task"].as_str().unwrap().to_owned();
    let case = context.root().join(format!("suite/cases/{task}.json"));
    let text = fs_err::read_to_string(&case).unwrap();
    fs_err::write(&case, format!("{text}\n")).unwrap();
    let output = trial(&context, &spec).run();
    output.assert_code(2);
    let expect = format!("the task `{task}` has changed since the start of the run");
    assert!(output.stderr.contains(&expect), "{output:?}");
}

#[test]
fn settings_unsupported_on_clusters_are_refused() {
    let context = context();
    let refused = |more: Value, args: &[&str], expect: &str| {
        let path = suite(&context, &agents(&context, 0), &more);
        let all = ["run", path.as_str()]
            .into_iter()
            .chain(args.iter().copied());
        let output = context.proctor(all).run();
        output.assert_code(2);
        assert!(output.stderr.contains(expect), "{expect}: {output:?}");
    };
    let providers = json!({"executor": SLURM, "providers": {"anthropic": {"parallel": 2}}});
    refused(
        providers,
        &[],
        "`providers` limits are not supported across nodes",
    );
    let head = json!({"executor": {"type": SLURM, "gateway": "head"}});
    refused(
        head,
        &[],
        "`gateway: head` has no effect: the gateway is off",
    );
    let local = json!({"executor": {"type": "docker", "hosts": ["tcp://a:1"]}, "sandbox": "local"});
    refused(local, &[], "`executor: docker` requires containers");
    let script = ["--record-models", "recordings"];
    refused(
        json!({"executor": SLURM}),
        &script,
        "--record-models is not supported",
    );
    let idle = ["--on-interrupt", "cancel"];
    refused(json!({}), &idle, "--on-interrupt has no effect");
}

#[test]
fn doctor_shows_slurm_and_container_engines() {
    let context = context();
    let output = context.proctor(["doctor", "--json"]).run();
    // No agent is installed.
    let findings: Value = serde_json::from_str(&output.assert_code(3).stdout).unwrap();
    let programs: Vec<&str> = findings
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["program"].as_str())
        .collect();
    assert!(
        programs.ends_with(&["sbatch", "docker", "podman", "apptainer"]),
        "{programs:?}"
    );
}

/// A node reads the definition from the spec, and must not add or lose a part of it.
#[test]
fn trial_on_a_node_has_the_digests_of_a_local_one() {
    let context = context();
    let spec = spec(&context, 0);
    trial(&context, &spec).run().assert_code(0);
    let folder = Utf8PathBuf::from(json_of(&spec)["folder"].as_str().unwrap());
    let on_node = json_of(&folder.join("artifacts/record.json"));
    let path = suite(&context, &agents(&context, 0), &json!({}));
    context.proctor(["run", path.as_str()]).run().assert_code(0);
    let trials = context.root().join(".proctor/latest/trials");
    let task = on_node["task"]["name"].as_str().unwrap();
    let local = trials.join("writer").join(task);
    let local = json_of(&local.join("trial-1/artifacts/record.json"));
    for part in ["agent", "task"] {
        let definition = &on_node[part]["definition"];
        assert!(definition["digest"].is_string(), "{on_node:#}");
        assert_eq!(*definition, local[part]["definition"], "{part}");
    }
    assert_eq!(on_node["task"]["evaluators"], local["task"]["evaluators"]);
}
