//! Hooks of test cases: scripts before and after, webhooks, a file of results.

use std::io::{Read, Write};
use std::net::TcpListener;

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use super::support::{
    codes, command_case, context, last_artifact, last_record, messages, run, saved, saved_json,
    schema, shell, with, write,
};

fn case(context: &TestContext, hooks: &Value) -> Value {
    context.install_fake("worker", &json!([write("work.txt", "done\n")]));
    with(&command_case("worker"), hooks)
}

fn script(config: &Value) -> Value {
    json!({"name": "script", "config": config})
}

fn results(context: &TestContext) -> Value {
    let bytes = fs_err::read(last_artifact(context, "results.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn changes_of_a_pre_execution_script_are_not_the_agents() {
    let context = context();
    let env = saved(&context, "env");
    let line = format!("echo prepared > prepared.txt; env > {env}; echo ready");
    let hooks =
        json!({"pre_execution": [script(&json!({"command": line, "env": {"MINE": "own"}}))]});
    run(&context, &case(&context, &hooks)).assert_code(0);
    let record = last_record(&context);
    assert_eq!(record["diff"]["files_changed"], 1, "{record:#}");
    let hook = &record["hooks"][0];
    assert_eq!(
        (&hook["phase"], &hook["status"]),
        (&json!("pre_execution"), &json!("passed"))
    );
    assert_eq!(hook["exit_code"], 0);
    let output = last_artifact(&context, hook["output"].as_str().unwrap());
    assert_eq!(fs_err::read_to_string(output).unwrap(), "ready\n");
    let reported = fs_err::read_to_string(env).unwrap();
    for name in [
        "WORKSPACE_DIR",
        "REPO_DIR",
        "ARTIFACTS_DIR",
        "TEST_CASE_NAME=case",
        "REPO_URL",
        "BRANCH",
        "MINE=own",
    ] {
        assert!(
            reported.lines().any(|line| line.starts_with(name)),
            "{name}: {reported}"
        );
    }
    assert_eq!(results(&context)["hooks"], record["hooks"]);
    schema(&context, "record").assert_valid(&record);
    schema(&context, "results").assert_valid(&results(&context));
}

/// A plain folder has no packed commit: the objects of its first tree are needed for the patch.
#[test]
fn pre_execution_script_prepares_a_plain_folder() {
    let context = context();
    let folder = context.root().join("plain");
    fs_err::create_dir(&folder).unwrap();
    fs_err::write(folder.join("secret.txt"), "the solution\n").unwrap();
    let objects = saved(&context, "objects");
    let list = format!("git cat-file --batch-all-objects --batch > {objects}; echo x > work.txt");
    context.install_fake("worker", &json!([shell(&list)]));
    let line = "rm secret.txt; echo prepared > prepared.txt";
    let case = with(
        &command_case("worker"),
        &json!({"repo": "../plain", "pre_execution": [script(&json!({"command": line}))]}),
    );
    run(&context, &case).assert_code(0);
    assert_eq!(last_record(&context)["diff"]["files_changed"], 1);
    let patch = fs_err::read_to_string(last_artifact(&context, "install.patch")).unwrap();
    assert!(
        patch.contains("+prepared") && patch.contains("-the solution"),
        "{patch}"
    );
    let seen = fs_err::read(objects).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.contains("prepared") && !seen.contains("the solution"),
        "{seen}"
    );
}

#[test]
fn failed_pre_execution_script_excludes_the_trial() {
    let context = context();
    for (config, expect) in [
        (
            json!({"command": "echo no luck; exit 4"}),
            "exited with code 4: no luck",
        ),
        (
            json!({"command": "sleep 60", "timeout_ms": 300}),
            "exceeded its time limit",
        ),
        (
            json!({"command": "nowhere-to-be-found", "args": []}),
            "nowhere-to-be-found",
        ),
    ] {
        let hooks =
            json!({"pre_execution": [script(&config), script(&json!({"command": "exit 1"}))]});
        run(&context, &case(&context, &hooks)).assert_code(3);
        let record = last_record(&context);
        assert_eq!(record["outcome"], "sandbox");
        assert_eq!(record["status"], "error");
        assert!(record["process"].is_null(), "the agent was started");
        assert_eq!(codes(&record), ["PRE_EXECUTION_FAILED"]);
        assert!(messages(&record).contains(expect), "{}", messages(&record));
        assert_eq!(
            record["hooks"].as_array().unwrap().len(),
            1,
            "the next one was run"
        );
    }
    context.assert_nothing_left("");
}

#[test]
fn values_are_never_part_of_a_shells_text() {
    let context = context();
    let out = saved(&context, "args");
    let pwned = saved(&context, "pwned");
    let name = format!("x; touch {pwned} $(touch {pwned})");
    let hooks = json!({"name": name, "pre_execution": [
        script(&json!({"command": "sh", "args": ["-c", format!("printf '%s' \"$1\" > {out}"), "sh", "${TEST_CASE_NAME}"]})),
        script(&json!({"command": format!("printf '%s' ${{TEST_CASE_NAME}} > /dev/null")})),
    ]});
    run(&context, &case(&context, &hooks)).assert_code(0);
    assert_eq!(fs_err::read_to_string(out).unwrap(), name);
    assert!(!pwned.exists());
}

#[test]
fn post_evaluation_script_cannot_change_verdicts() {
    let context = context();
    let (seen, env) = (saved(&context, "seen"), saved(&context, "env"));
    let line =
        format!("cp \"$RESULTS_PATH\" {seen}; echo $OVERALL_STATUS > {env}; echo $TOKEN; exit 9");
    let hooks = json!({"post_evaluation": [script(&json!({"command": line, "env": {"TOKEN": "my-secret-token"}}))]});
    run(&context, &case(&context, &hooks)).assert_code(0);
    assert_eq!(fs_err::read_to_string(env).unwrap(), "passed\n");
    assert_eq!(
        saved_json(&context, "seen")["summary"]["overall_status"],
        "passed"
    );
    let record = last_record(&context);
    assert_eq!(record["status"], "passed");
    assert_eq!(record["hooks"][0]["status"], "failed");
    assert_eq!(codes(&record), ["HOOK_FAILED"]);
    let output = last_artifact(&context, record["hooks"][0]["output"].as_str().unwrap());
    assert_eq!(fs_err::read_to_string(output).unwrap(), "[redacted]\n");
    let text = record.to_string();
    assert!(!text.contains("my-secret-token"), "{text}");
}

#[test]
fn database_hook_appends_and_keeps_files_that_are_not_arrays() {
    let context = context();
    let database =
        |config: Value| json!({"post_evaluation": [{"name": "database", "config": config}]});
    let hooks = database(
        json!({"type": "json-file", "output_path": "out/all.json", "include_full_bundle": false}),
    );
    let file = context.root().join("cases/out/all.json");
    let read = || -> Value { serde_json::from_slice(&fs_err::read(&file).unwrap()).unwrap() };
    run(&context, &case(&context, &hooks)).assert_code(0);
    run(&context, &case(&context, &hooks)).assert_code(0);
    assert_eq!(read().as_array().unwrap().len(), 2);
    assert_eq!(read()[1]["summary"]["overall_status"], "passed");
    assert!(read()[1]["evaluators"].is_null());
    let fresh =
        database(json!({"type": "json-file", "output_path": "out/all.json", "append": false}));
    run(&context, &case(&context, &fresh)).assert_code(0);
    assert_eq!(read().as_array().unwrap().len(), 1);
    assert!(read()[0]["evaluators"].is_array());
    fs_err::write(&file, "{}").unwrap();
    run(&context, &case(&context, &hooks)).assert_code(0);
    assert_eq!(read(), json!({}));
    assert_eq!(codes(&last_record(&context)), ["HOOK_FAILED"]);
}

/// A server that answers each request with the next status, and gives back what it was sent.
fn server(statuses: &'static [u16]) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for status in statuses {
            let (mut stream, _) = listener.accept().unwrap();
            requests.push(read_request(&mut stream));
            write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
        requests
    });
    (url, serving)
}

fn read_request(stream: &mut std::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse::<usize>().ok())?
            });
            if length.is_some_and(|length| body.len() >= length) {
                return text;
            }
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "cut off: {text}");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

#[test]
fn a_webhook_gets_the_signed_results_and_is_tried_again() {
    let context = context();
    let (url, serving) = server(&[503, 200]);
    let config = json!({
        "url": url, "headers": {"x-team": "team-header-value"}, "secret": "webhook-secret",
        "include_artifacts": true,
    });
    let hooks = json!({"post_evaluation": [{"name": "webhook", "config": config}]});
    run(&context, &case(&context, &hooks)).assert_code(0);
    let requests = serving.join().unwrap();
    let (head, body) = requests[1].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
    assert!(head.contains("x-team: team-header-value"), "{head}");
    let sent: Value = serde_json::from_str(body).unwrap();
    assert_eq!(sent["summary"]["overall_status"], "passed");
    let patch = sent["artifact_contents"]["git-diff.patch"]
        .as_str()
        .unwrap();
    assert!(patch.contains("+done"), "{patch}");
    let signature = head
        .lines()
        .find_map(|line| line.strip_prefix("x-proctor-signature-256: sha256="));
    assert_eq!(
        signature.unwrap(),
        openssl_hmac(&context, "webhook-secret", body)
    );
    let record = last_record(&context);
    let hook = &record["hooks"][0];
    assert_eq!(
        (&hook["status"], &hook["attempts"]),
        (&json!("passed"), &json!(2))
    );
    let text = record.to_string();
    assert!(!text.contains("webhook-secret") && !text.contains("team-header-value"));
}

/// The same by another program.
fn openssl_hmac(context: &TestContext, key: &str, body: &str) -> String {
    let file = saved(context, "body");
    fs_err::write(&file, body).unwrap();
    let code = "import hmac,sys;print(hmac.new(sys.argv[1].encode(),open(sys.argv[2],'rb').read(),'sha256').hexdigest())";
    let program = context.program("/usr/bin/python3".into(), ["-c", code, key, file.as_str()]);
    program.run().stdout.trim().to_owned()
}

#[test]
fn a_webhook_that_is_refused_is_not_tried_again() {
    let context = context();
    let (url, serving) = server(&[404]);
    let hooks = json!({"post_evaluation": [{"name": "webhook", "config": {"url": url}}]});
    run(&context, &case(&context, &hooks)).assert_code(0);
    serving.join().unwrap();
    let record = last_record(&context);
    assert_eq!(record["status"], "passed");
    assert_eq!(record["hooks"][0]["attempts"], 1);
    assert!(messages(&record).contains("the server answered with status 404"));
}
