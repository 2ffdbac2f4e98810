//! Tasks that are folders in Harbor's format: built, done and verified in containers.

use camino::Utf8PathBuf;
use serde_json::json;

use super::{Rig, shell};

const DOCKERFILE: &str = "FROM proctor-test:debian\nENV WORD=hello\nWORKDIR /app\nCOPY files/ ./\nRUN echo made > made.txt\n";
/// Passes when the word that the Dockerfile names is in the file.
const TEST: &str = "test ! -e /tests/planted && test -f made.txt && test -f readme || exit 9\nif grep -qx \"$WORD\" greeting.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n";
const SOLVE: &str = "cp \"$(dirname \"$0\")/word\" greeting.txt\n";

/// Writes the task's folder for this mode of the verifier.
pub(super) fn task(rig: &Rig, mode: &str) -> Utf8PathBuf {
    let folder = rig.context.root().join("tasks/greet");
    // A separate verifier gets artifacts only.
    let artifacts = match mode {
        "separate" => "artifacts = [\"/app\"]",
        _ => "",
    };
    let toml = format!(
        r#"
{artifacts}
[task]
name = "org/greet"
[agent]
timeout_sec = 60
[verifier]
environment_mode = "{mode}"
user = "nobody"
"#
    );
    for (name, text) in [
        ("task.toml", toml.as_str()),
        ("instruction.md", "Greet.\n"),
        ("environment/Dockerfile", DOCKERFILE),
        ("environment/files/readme", "read me\n"),
        ("tests/test.sh", TEST),
        ("solution/solve.sh", SOLVE),
        ("solution/word", "hello\n"),
    ] {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    folder
}

/// Runs agents on the task, and checks their rewards.
fn verified(mode: &str) {
    let Some(rig) = Rig::new() else { return };
    task(&rig, mode);
    // A background process that writes rewards, and an earlier reward.
    let late = "(setsid sh -c 'mkdir -p /logs/verifier; while sleep 0.05; do echo 1 > /logs/verifier/reward.txt; done' >/dev/null 2>&1 &) ; mkdir -p /logs/verifier /tests; touch /tests/planted; echo 1 > /logs/verifier/reward.txt; echo no > greeting.txt";
    let agents = json!([
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
        shell("cheat", late),
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    let output = rig.run(&path, &[]);
    for (agent, reward) in [("floor", 0.0), ("ceiling", 1.0), ("cheat", 0.0)] {
        let record = rig.record(agent);
        assert_eq!(record["outcome"], "completed", "{record:#}");
        assert_eq!(record["sandbox"]["kind"], "docker", "{record:#}");
        let metrics = &record["verdicts"][0]["metrics"];
        assert_eq!(record["score"]["value"], reward, "{agent}: {record:#}");
        assert_eq!(metrics["mode"], mode);
        let is_forger = agent == "cheat" && mode == "shared";
        assert_eq!(metrics["tampered"].is_array(), is_forger, "{record:#}");
    }
    output.assert_code(1);
    assert_eq!(rig.record("ceiling")["diff"]["files_changed"], 1);
    judged_again(&rig, mode);
}

/// A trial judged in the agent's own container cannot be judged again, which is reported; with a
/// new container it can.
fn judged_again(rig: &Rig, mode: &str) {
    let run = rig.context.root().join(".proctor/latest");
    let rescore = rig.context.proctor(["rescore", run.as_str()]);
    let output = rescore.env("DOCKER_HOST", &rig.host).run();
    rig.assert_tidy();
    let record = rig.record("ceiling");
    if mode == "shared" {
        output.assert_code(3);
        let reported = "the trial was judged in the agent's container, which no longer exists";
        assert!(output.stdout.contains(reported), "{output}");
        assert!(record["history"].is_null(), "{record:#}");
    } else {
        output.assert_code(1);
        assert_eq!(
            record["verdicts"][0]["metrics"]["reward"], 1.0,
            "{record:#}"
        );
        assert_eq!(record["history"][0]["status"], "passed", "{record:#}");
    }
}

#[test]
fn a_task_is_verified_where_the_agent_worked() {
    verified("shared");
}

/// As in Harbor, a service that the agent started is there for the tests, if the agent ended by itself.
#[test]
fn service_of_an_agent_goes_on_for_a_shared_verifier() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "shared");
    let toml = "[task]\nname = \"org/greet\"\n[agent]\ntimeout_sec = 4\n";
    fs_err::write(folder.join("task.toml"), toml).unwrap();
    let serve = "nohup python3 -m http.server 8123 > /app/server.log 2>&1 &\nuntil curl -sf localhost:8123 > /dev/null; do sleep 0.05; done\n";
    fs_err::write(folder.join("solution/solve.sh"), serve).unwrap();
    let test = "curl -sf localhost:8123/readme | grep -qx 'read me' && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n";
    fs_err::write(folder.join("tests/test.sh"), test).unwrap();
    let agents = json!([
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
        shell("daemon", &serve.replace("nohup", "setsid")),
        shell("late", &format!("{serve}sleep 1000")),
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]);
    let service = json!(["python3"]);
    for (agent, outcome, reward, background) in [
        ("floor", "completed", 0.0, None),
        ("ceiling", "completed", 1.0, Some(&service)),
        ("daemon", "completed", 1.0, Some(&service)),
        ("late", "timeout", 0.0, None),
    ] {
        let record = rig.record(agent);
        assert_eq!(record["outcome"], outcome, "{record:#}");
        let verdict = &record["verdicts"][0];
        assert_eq!(verdict["metrics"]["reward"], reward, "{agent}: {record:#}");
        assert!(verdict["metrics"]["tampered"].is_null(), "{verdict:#}");
        assert_eq!(record["process"].get("background"), background);
    }
    rig.assert_tidy();
}

/// The verifier of the shared container trusts no program or start-up file that an agent, being root, has changed.
#[test]
fn changes_in_a_shared_container_give_no_reward() {
    let Some(rig) = Rig::new() else { return };
    task(&rig, "shared");
    // With the planted file the tests end before they write a reward.
    let plant =
        "mkdir -p /tests /logs/verifier; touch /tests/planted; echo 1 > /logs/verifier/reward.txt";
    let reward = "echo 1 > /logs/verifier/reward.txt";
    let rows = [
        (
            "no-rm",
            format!("{plant}; printf '#!/bin/sh\\n' > /usr/bin/rm"),
            true,
        ),
        (
            "linked",
            format!("{plant}; mv /logs /elsewhere; ln -s /elsewhere /logs"),
            false,
        ),
        (
            "folder",
            "mkdir -p /logs/verifier/reward.json/deep; chmod 0 /logs/verifier".to_owned(),
            false,
        ),
        (
            "start-up",
            format!(
                "for f in /etc/profile /etc/bash.bashrc /root/.bashrc /root/.profile; do echo '{reward}; exit' >> $f; done; echo BASH_ENV=/root/.bashrc >> /etc/environment; echo ENV=/root/.profile >> /etc/environment"
            ),
            false,
        ),
        (
            "own-sh",
            format!(
                "printf '#!/bin/bash\\n{reward}\\n' > /usr/local/bin/sh; chmod 755 /usr/local/bin/sh"
            ),
            true,
        ),
        (
            "own-dash",
            format!(
                "printf '#!/bin/bash\\n{reward}\\n' > /new; chmod 755 /new; mv /new /usr/bin/dash"
            ),
            true,
        ),
        (
            "own-grep",
            format!(
                "printf '#!/bin/sh\\n{reward}\\n' > /usr/local/bin/grep; chmod 755 /usr/local/bin/grep; cp /usr/local/bin/grep /usr/local/bin/test"
            ),
            true,
        ),
        (
            "tests-elsewhere",
            "mkdir -p /mine; ln -s /mine /tests; mkdir -p /logs; ln -s /mine /logs/verifier; echo 1 > /mine/reward.txt".to_owned(),
            false,
        ),
        (
            "preload",
            "echo /lib/evil.so > /etc/ld.so.preload".to_owned(),
            true,
        ),
    ];
    let agents: Vec<_> = rows
        .iter()
        .map(|(name, line, _)| shell(name, line))
        .collect();
    let path = rig.suite(
        &json!(agents),
        &json!({"tasks": [{"folder": "tasks/greet"}]}),
    );
    rig.run(&path, &[]);
    for (name, _, is_tampered) in rows {
        let record = rig.record(name);
        assert_eq!(record["outcome"], "completed", "{name}: {record:#}");
        let verdict = &record["verdicts"][0];
        assert_eq!(verdict["status"], "failed", "{name}: {verdict:#}");
        assert_eq!(record["score"]["value"], 0.0, "{name}: {record:#}");
        let tampered = &verdict["metrics"]["tampered"];
        assert_eq!(tampered.is_array(), is_tampered, "{name}: {verdict:#}");
    }
}

/// Neither root without its usual capabilities nor the user of the first process can look into that process.
#[test]
fn the_first_process_of_a_container_cannot_be_read_or_traced() {
    let Some(rig) = Rig::new() else { return };
    task(&rig, "shared");
    let probe = r#"id -u
for f in environ mem maps; do head -c 1 /proc/1/$f >/dev/null 2>&1 && echo read $f; done
readlink /proc/1/fd/0 >/dev/null 2>&1 && echo read fd
n=101; test "$(uname -m)" = x86_64 || n=117
perl -e 'print syscall($ARGV[0], 16, 1, 0, 0) == 0 ? "attached\n" : "refused\n"' $n
cat /proc/self/oom_score_adj"#;
    let path = rig.suite(
        &json!([shell("probe", probe)]),
        &json!({"tasks": [{"folder": "tasks/greet"}]}),
    );
    rig.run(&path, &[]);
    assert_eq!(rig.printed("probe"), "0\nrefused\n500\n");
    let path = rig.suite(&json!([shell("probe", probe)]), &json!({}));
    rig.run(&path, &[]);
    let printed = rig.printed("probe");
    let (user, rest) = printed.split_once('\n').unwrap();
    assert_ne!(user, "");
    assert_eq!(rest, "refused\n500\n");
}

#[test]
fn a_task_is_verified_in_a_fresh_container_with_the_artifacts() {
    verified("separate");
}

#[test]
fn an_agent_is_the_user_of_the_image_and_has_a_home() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "separate");
    let dockerfile = format!(
        "{DOCKERFILE}RUN useradd --create-home --uid 4321 worker && chown -R worker /app\nUSER worker\n"
    );
    fs_err::write(folder.join("environment/Dockerfile"), dockerfile).unwrap();
    let script =
        "id -un; echo $HOME; touch ~/mine && echo at home; echo hello > greeting.txt; rm readme";
    let agents = json!([shell("worker", script), {"name": "ceiling", "type": "oracle"}]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]).assert_code(3);
    let printed = rig.printed("worker");
    assert_eq!(printed, "worker\n/home/worker\nat home\n");
    assert_eq!(rig.record("worker")["sandbox"]["user"], "worker");
    let verdict = &rig.record("worker")["verdicts"][0];
    let reported = verdict["message"].as_str().unwrap();
    assert!(
        reported.contains("exit code 9"),
        "the file is still there: {reported}"
    );
    assert_eq!(rig.record("ceiling")["status"], "passed");
}

#[test]
fn entry_point_is_healthy_before_the_agent_starts_with_its_deadline() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "shared");
    // The image it starts from is in no registry: the suite says which one is meant.
    let dockerfile = "FROM far.example/base:9\nWORKDIR /app\nCOPY files/ ./\nRUN useradd --uid 4321 worker && chown -R worker /app && printf '(sleep 2; id -un > /tmp/up) & exec \"$@\"' > /entry.sh\nUSER worker\nENTRYPOINT [\"sh\", \"/entry.sh\"]\n";
    fs_err::write(folder.join("environment/Dockerfile"), dockerfile).unwrap();
    let toml = "[metadata]\ntell_deadline = true\n[agent]\ntimeout_sec = 60\nuser = \"root\"\n[environment.healthcheck]\ncommand = \"test -s /tmp/up\"\ninterval_sec = 0.2\nretries = 100\n";
    fs_err::write(folder.join("task.toml"), toml).unwrap();
    let test = "test \"$(id -un) $(cat /tmp/up)\" = 'worker worker' && echo 1 > /logs/verifier/reward.txt\n";
    fs_err::write(folder.join("tests/test.sh"), test).unwrap();
    let script = "echo \"$(id -un) $(cat /tmp/up) $PROCTOR_DEADLINE\"; cat";
    let agents = json!([shell("agent", script)]);
    let sandbox =
        json!({"type": "docker", "images": {"far.example/base:9": "proctor-test:debian"}});
    let more = json!({"tasks": [{"folder": "tasks/greet"}], "sandbox": sandbox});
    let path = rig.suite(&agents, &more);
    rig.run(&path, &[]).assert_code(0);
    let printed = rig.printed("agent");
    let (first, prompt) = printed.split_once('\n').unwrap();
    let deadline = first.strip_prefix("root worker ").unwrap();
    let reported = format!("Greet.\n\nYour time ends at {deadline} (UTC): finish before that.\n");
    assert_eq!(prompt, reported);
}

/// An image without a health check is ready when its entry point runs the command.
#[test]
fn agent_waits_for_the_entry_point() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "shared");
    let dockerfile = "FROM proctor-test:debian\nWORKDIR /app\nRUN printf 'sleep 1; echo up > /up; exec \"$@\"' > /entry.sh\nENTRYPOINT [\"sh\", \"/entry.sh\"]\n";
    fs_err::write(folder.join("environment/Dockerfile"), dockerfile).unwrap();
    fs_err::write(folder.join("task.toml"), "").unwrap();
    let test = "cat /up > /logs/verifier/seen; echo 1 > /logs/verifier/reward.txt\n";
    fs_err::write(folder.join("tests/test.sh"), test).unwrap();
    let agents = json!([shell("agent", "cat /up")]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]).assert_code(0);
    assert_eq!(rig.printed("agent"), "up\n");
}

/// As in Harbor: the home of the user, the whole solution in `/solution`, and folders for logs.
#[test]
fn container_of_a_task_is_laid_out_like_harbors() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "shared");
    let dockerfile = format!("{DOCKERFILE}RUN useradd --create-home worker\nUSER worker\n");
    fs_err::write(folder.join("environment/Dockerfile"), dockerfile).unwrap();
    // A Dockerfile of the tests alone does not make the verifier separate.
    fs_err::write(folder.join("tests/Dockerfile"), "FROM no-such-image:1\n").unwrap();
    fs_err::write(folder.join("task.toml"), "").unwrap();
    let solve = "cp /solution/word ~/word && echo log > /logs/agent/log && echo kept > /logs/artifacts/kept && exit 3\n";
    fs_err::write(folder.join("solution/solve.sh"), solve).unwrap();
    let test = "test \"$(id -un):$HOME\" = worker:/home/worker && grep -qx hello ~/word && grep -qx log /logs/agent/log && echo '{\"reward\": 1, \"speed\": 0.5}' > /logs/verifier/reward.json\n";
    fs_err::write(folder.join("tests/test.sh"), test).unwrap();
    let agents = json!([{"name": "ceiling", "type": "oracle"}]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]).assert_code(0);
    let record = rig.record("ceiling");
    // The reward counts although the solution ended with an error.
    assert_eq!(record["outcome"], "agent_error", "{record:#}");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["score"]["value"], 1.0, "{record:#}");
    let verdict = &record["verdicts"][0];
    assert_eq!(verdict["message"], "reward 1 (reward 1, speed 0.5)");
    assert_eq!(verdict["metrics"]["rewards"]["speed"], 0.5);
    let kept = artifacts(&rig, "ceiling").join("collected/logs/artifacts/kept");
    assert_eq!(fs_err::read_to_string(kept).unwrap(), "kept\n");
}

/// The folder with the record of an agent's trial.
fn artifacts(rig: &Rig, agent: &str) -> Utf8PathBuf {
    let trial = format!(".proctor/latest/trials/{agent}/org-greet/trial-1/artifacts");
    let named = rig.context.root().join(trial);
    if named.exists() {
        return named;
    }
    let trial = format!(".proctor/latest/trials/{agent}/greet/trial-1/artifacts");
    rig.context.root().join(trial)
}

/// A separate verifier sees artifacts at their paths, and no other files of the agent.
#[test]
fn artifacts_reach_a_separate_verifier_without_the_workspace() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "separate");
    let toml = "artifacts = [{source = \"out\", exclude = [\"*.tmp\"]}, {source = \"/etc/motto\", destination = \"motto.txt\"}, \"/no/such\"]\n[verifier]\nenvironment_mode = \"separate\"\n[verifier.environment]\ndocker_image = \"proctor-test:debian\"\n";
    fs_err::write(folder.join("task.toml"), toml).unwrap();
    let test = "test -f /app/out/a && test ! -e /app/out/b.tmp && test ! -e /app/secret && test ! -e /app/readme && grep -qx m /etc/motto && echo 1 > /logs/verifier/reward.txt\n";
    fs_err::write(folder.join("tests/test.sh"), test).unwrap();
    let script =
        "mkdir out; echo a > out/a; echo b > out/b.tmp; echo s > secret; echo m > /etc/motto";
    let agents = json!([shell("worker", script)]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]).assert_code(0);
    let collected = artifacts(&rig, "worker").join("collected");
    let manifest = fs_err::read_to_string(collected.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let expect = json!([
        {"source": "/logs/artifacts", "destination": "logs/artifacts", "type": "directory", "status": "empty"},
        {"source": "/app/out", "destination": "app/out", "type": "directory", "status": "ok"},
        {"source": "/etc/motto", "destination": "motto.txt", "type": "file", "status": "ok"},
        {"source": "/no/such", "destination": "no/such", "type": "directory", "status": "failed"},
    ]);
    assert_eq!(manifest, expect);
    assert!(collected.join("motto.txt").is_file());
}

#[test]
fn a_build_that_takes_too_long_is_not_the_agents_failure() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "shared");
    let slow = "FROM proctor-test:debian\nRUN sleep 300\n";
    fs_err::write(folder.join("environment/Dockerfile"), slow).unwrap();
    let toml = "[environment]\nbuild_timeout_sec = 2\n";
    fs_err::write(folder.join("task.toml"), toml).unwrap();
    let agents = json!([{"name": "ceiling", "type": "oracle"}]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &["--retry-infra", "0"]).assert_code(3);
    let record = rig.record("ceiling");
    assert_eq!(record["outcome"], "sandbox", "{record:#}");
    assert_eq!(record["score"], json!(null), "{record:#}");
    let reported = record["errors"][0]["message"].as_str().unwrap();
    assert!(
        reported.contains("2 s") || reported.contains("2s"),
        "{reported}"
    );
}

#[test]
fn collected_files_reach_a_separate_verifier() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "separate");
    let toml = "[verifier]\nenvironment_mode = \"separate\"\n[[verifier.collect]]\ncommand = \"mkdir -p /logs/artifacts && cp /var/tmp/outside /logs/artifacts/\"\n";
    fs_err::write(folder.join("task.toml"), toml).unwrap();
    let test = "cat /logs/artifacts/outside; grep -qx kept /logs/artifacts/outside && echo 1 > /logs/verifier/reward.txt\n";
    fs_err::write(folder.join("tests/test.sh"), test).unwrap();
    let agents =
        json!([shell("keeper", "echo kept > /var/tmp/outside"), {"name": "floor", "type": "null"}]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]);
    let record = rig.record("keeper");
    assert_eq!(record["status"], "passed", "{record:#}");
    // As in Harbor, the verifier runs although the command failed; it wrote no reward.
    let record = rig.record("floor");
    let reported = record["verdicts"][0]["message"].as_str().unwrap();
    assert!(reported.contains("no reward"), "{record:#}");
    assert_eq!(record["verdicts"][0]["status"], "error", "{record:#}");
}

/// An image that cannot be had says nothing about the task.
#[test]
fn check_of_a_task_whose_image_is_missing_is_an_infrastructure_failure() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "shared");
    let dockerfile = "FROM no-such-image:1\nRUN echo made > made.txt\n";
    fs_err::write(folder.join("environment/Dockerfile"), dockerfile).unwrap();
    let args = ["task", "check", folder.as_str(), "--times", "1"];
    let output = rig
        .context
        .proctor(args)
        .env("DOCKER_HOST", &rig.host)
        .run();
    output.assert_code(3);
    let reported = "not checked (infrastructure failure)";
    assert!(output.stdout.contains(reported), "{output}");
    assert!(output.stdout.contains("no-such-image:1"), "{output}");
    assert!(!output.stdout.contains("broken"), "{output}");
}
