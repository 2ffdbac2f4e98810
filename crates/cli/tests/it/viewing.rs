//! `proctor view`: pages of runs over HTTP, for this machine's browser only.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use proctor_testkit::{Running, TestContext, program, test_runner, wait_until};
use serde_json::{Value, json};

use crate::{
    experiments::{AGENT, suite as experiment_suite},
    reports::{Made, browser, make_run, two_runs},
    suites::suite,
    support::context,
};

const RUN: &str = "20261101-000000-0000000a";
/// The directory of the first trial, as a part of an address.
const FIRST: &str = "trials%2Fa%2Fone%2Ftrial-1";
const NASTY: &str = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\u{202e}";

/// A running server. It is stopped when it is dropped.
struct Server {
    running: Option<Running>,
    /// The printed address.
    url: String,
    address: String,
}

impl Server {
    fn start(context: &TestContext, args: &[&str]) -> Server {
        let running = context
            .proctor(["view"].iter().chain(args).copied())
            .spawn();
        wait_until(Duration::from_secs(20), "the address", || {
            running.stdout_so_far().contains('\n')
        });
        let url = running.stdout_so_far().trim().to_owned();
        let address = url.strip_prefix("http://").unwrap();
        let (address, _) = address.split_once('/').unwrap();
        Server {
            address: address.to_owned(),
            url,
            running: Some(running),
        }
    }

    fn connect(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// The status line and the body of an answer.
    fn request(&self, head: &str) -> (String, String) {
        let mut bytes = Vec::new();
        self.connect(head).read_to_end(&mut bytes).unwrap();
        let answer = String::from_utf8(bytes).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.lines().next().unwrap().to_owned();
        let is_chunked = head.contains("transfer-encoding: chunked");
        let body = if is_chunked {
            joined(body)
        } else {
            body.to_owned()
        };
        (status, body)
    }

    fn get(&self, path: &str) -> (String, String) {
        let host = &self.address;
        self.request(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    }

    #[track_caller]
    fn body(&self, path: &str) -> String {
        let (status, body) = self.get(path);
        assert_eq!(status, "HTTP/1.1 200 OK", "{path}: {body}");
        body
    }

    fn stop(mut self) {
        let running = self.running.take().unwrap();
        running.interrupt();
        running.wait().assert_code(0);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            running.kill();
        }
    }
}

/// The content of a body that was sent in chunks.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        body.push_str(chunk);
        chunks = rest.strip_prefix("\r\n").unwrap();
    }
    body
}

fn made<'a>(agent: &'a str, task: &'a str, score: f64) -> Made<'a> {
    Made {
        agent,
        task,
        trial: 1,
        score: Some(score),
        cost: 0.1,
        says: NASTY,
    }
}

/// A run of two agents on two tasks, whose first trial has a prompt.
fn run_of_two(context: &TestContext) -> camino::Utf8PathBuf {
    let trials = [
        made("a", "one", 0.0),
        made("a", "two", 1.0),
        made("b", "one", 1.0),
        made("b", "two", 1.0),
    ];
    let run = make_run(context, RUN, &trials);
    let artifacts = run.join("trials/a/one/trial-1/artifacts");
    fs_err::write(artifacts.join("prompt.md"), "Fix the parser.\n").unwrap();
    run
}

#[test]
fn runs_trials_and_files_are_served_to_this_machine_only() {
    let context = context();
    let run = run_of_two(&context);
    let secret = context.root().join("secret.txt");
    fs_err::write(&secret, "secret").unwrap();
    let artifacts = run.join("trials/a/one/trial-1/artifacts");
    std::os::unix::fs::symlink(&secret, artifacts.join("link")).unwrap();
    let server = Server::start(&context, &[]);
    let index = server.body("/");
    assert!(index.contains(&format!("href=\"runs/{RUN}/\"")), "{index}");
    let page = server.body(&format!("/runs/{RUN}/"));
    assert!(
        page.contains("connect-src 'self'") && !page.contains("<img"),
        "{page}"
    );
    let trial = server.body(&format!("/runs/{RUN}/trials/{FIRST}"));
    let trial: Value = serde_json::from_str(&trial).unwrap();
    assert_eq!(trial["prompt"], "Fix the parser.\n", "{trial:#}");
    let prompt = server.body(&format!("/runs/{RUN}/files/{FIRST}/prompt.md"));
    assert_eq!(prompt, "Fix the parser.\n");
    let found = server.body(&format!("/runs/{RUN}/search?q=ONERROR%3D"));
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 4, "{found:#}");

    for path in [
        "/runs/20261101-000000-0000000b/".to_owned(),
        format!("/runs/{RUN}/trials/trials%2Fa%2Fone%2Ftrial-2"),
        format!("/runs/{RUN}/files/{FIRST}/link"),
        format!("/runs/{RUN}/files/{FIRST}/..%2F..%2F..%2F..%2F..%2Fplan.json"),
        format!("/runs/{RUN}/files/{FIRST}/%2Fetc%2Fpasswd"),
        format!("/runs/{RUN}/files/trials/prompt.md"),
        "/runs/..%2F../".to_owned(),
    ] {
        let (status, body) = server.get(&path);
        assert!(
            !status.contains("200") && !body.contains("secret"),
            "{path}: {status}"
        );
    }
    let host = &server.address;
    for (head, expected) in [
        (
            "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(),
            "403",
        ),
        (
            format!(
                "GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
            ),
            "403",
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ),
            "405",
        ),
    ] {
        let (status, _) = server.request(&head);
        assert!(status.contains(expected), "{head}: {status}");
    }
    server.stop();
    context.assert_nothing_left("");
}

#[test]
fn server_for_other_machines_wants_its_token() {
    let context = context();
    run_of_two(&context);
    let server = Server::start(&context, &["--bind", "0.0.0.0"]);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let token = server.url.split("?token=").nth(1).unwrap();
    let get = |path: &str, more: &str| {
        server.request(&format!(
            "GET {path} HTTP/1.1\r\nHost: machine:{port}\r\n{more}Connection: close\r\n\r\n"
        ))
    };
    assert!(get("/", "").0.contains("403"));
    assert!(get("/?token=0123", "").0.contains("403"));
    assert!(get(&format!("/?token={token}"), "").0.contains("303"));
    let cookie = format!("Cookie: proctor-token-{port}={token}\r\n");
    assert!(get("/", &cookie).0.contains("200"));
}

#[test]
fn events_follow_a_run_to_its_end() {
    let context = context();
    let go = context.root().join("go");
    let wait = format!("while [ ! -e {go} ]; do sleep 0.05; done; touch done");
    let agents =
        json!([{"name": "slow", "type": "command", "config": {"command": ["sh", "-c", wait]}}]);
    let path = suite(&context, &agents, &json!({"trials": 2, "parallel": 2}));
    let running = context.proctor(["run", path.as_str()]).spawn();
    let latest = context.root().join(".proctor/latest");
    wait_until(Duration::from_secs(30), "the run", || {
        latest.join("plan.json").exists()
    });
    let run = latest.canonicalize_utf8().unwrap();
    let server = Server::start(&context, &[run.as_str()]);
    let name = run.file_name().unwrap();
    let head = format!(
        "GET /runs/{name}/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address
    );
    let mut lines = BufReader::new(server.connect(&head)).lines();
    let mut next = || -> Value {
        let mut data = lines.by_ref().map_while(Result::ok);
        let data = data.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        serde_json::from_str(&data.expect("an event")).unwrap()
    };
    let first = next();
    assert_eq!(
        (&first["is_running"], &first["ended"]),
        (&json!(true), &json!(0)),
        "{first}"
    );
    fs_err::write(&go, "").unwrap();
    let last = loop {
        let event = next();
        if event["is_running"] == false {
            break event;
        }
    };
    assert_eq!(last["ended"], last["trials"], "{last}");
    running.wait();
}

/// Runs a scenario of `pages.mjs` on the pages at these addresses; without a browser or Node the test is skipped.
fn drive(context: &TestContext, scenario: &str, urls: &[&str]) {
    let (Some(_), Some(node)) = (browser(scenario), program("node")) else {
        return;
    };
    let Some(axe) = test_runner("axe") else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages.mjs");
    let profile = context.root().join("profile");
    let axe = format!("{axe}/node_modules/axe-core/axe.min.js");
    let words = [script, scenario, profile.as_str(), &axe];
    let program = context.program(&node, words.iter().chain(urls).copied());
    let output = program.deadline(Duration::from_mins(4)).run();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

#[test]
fn pages_work_and_are_accessible_in_a_browser_chromium() {
    let context = context();
    let run = run_of_two(&context);
    let artifacts = run.join("trials/a/one/trial-1/artifacts");
    let said = format!("Some **bold** text. {NASTY}");
    // 50 MB that try to control a terminal and a browser.
    let line = "\u{1b}[31mred\u{202e} <script>document.title='broken'</script>\n";
    let whole = format!(
        "{}\nthe end of a long text",
        line.repeat(50_000_000 / line.len())
    );
    let events = [
        json!({"t": 1, "event": "said", "text": said}),
        json!({"t": 2, "event": "tool", "id": "t1", "tool": "Grep", "target": "make"}),
    ];
    let events = events.map(|event| format!("{event}\n")).concat();
    fs_err::write(artifacts.join("events.ndjson"), events).unwrap();
    let log = json!({"messages": [], "tool_calls": [
        {"name": "Grep", "id": "t1", "arguments": "{}", "result": whole, "is_error": true},
    ]});
    fs_err::write(artifacts.join("youbencha-log.json"), log.to_string()).unwrap();
    let server = Server::start(&context, &[RUN]);
    let url = format!("http://{}/runs/{RUN}/", server.address);
    drive(&context, "finished", &[&url]);
}

#[test]
fn pages_of_comparisons_and_experiments_are_accessible_chromium() {
    let context = context();
    let (before, after) = two_runs(&context);
    let compared = context.root().join("compared.html");
    let args = [
        "compare",
        before.as_str(),
        after.as_str(),
        "--output",
        compared.as_str(),
    ];
    context.proctor(args).run().assert_code(0);
    let path = experiment_suite(&context, &["one"], AGENT, &json!({}));
    let args = ["ab", path.as_str(), "--a", "RULES.md=text:bad", "--b"];
    let args = args.into_iter().chain(["RULES.md=text:good", "--json"]);
    let answer: Value = serde_json::from_str(&context.proctor(args).run().stdout).unwrap();
    let pages = [compared.as_str(), answer["page"].as_str().unwrap()];
    let urls = pages.map(|page| format!("file://{page}"));
    drive(&context, "written", &[&urls[0], &urls[1]]);
}

#[test]
fn run_is_followed_and_controlled_from_its_page_chromium() {
    let context = context();
    let agents =
        json!([{"name": "slow", "type": "command", "config": {"command": ["sleep", "300"]}}]);
    let path = suite(&context, &agents, &json!({"trials": 3, "parallel": 6}));
    let mut running = context.proctor(["run", path.as_str()]).spawn();
    let latest = context.root().join(".proctor/latest");
    wait_until(Duration::from_secs(30), "the run", || {
        latest.join("control.json").exists()
    });
    let run = latest.canonicalize_utf8().unwrap();
    let server = Server::start(&context, &[run.as_str()]);
    drive(&context, "live", &[&server.url]);
    let is_stopped = !latest.join("control.json").exists();
    if !is_stopped {
        // There is no browser.
        running.kill();
        return;
    }
    assert_eq!(running.wait().code, Some(130));
}

#[test]
fn requests_to_a_run_need_the_token_and_a_run_that_accepts_them() {
    let context = context();
    let run = run_of_two(&context);
    let server = Server::start(&context, &[]);
    let port = server.address.rsplit(':').next().unwrap();
    let token = server.url.split("?token=").nth(1).unwrap();
    let ask = |cookie: &str, body: &str| {
        let (host, length) = (&server.address, body.len());
        server.request(&format!(
            "POST /runs/{RUN}/control HTTP/1.1\r\nHost: {host}\r\n{cookie}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )).0
    };
    let cookie = format!("Cookie: proctor-token-{port}={token}\r\n");
    let pause = r#"{"pause": true}"#;
    for (cookie, body, status) in [
        ("", pause, "403"),
        ("Cookie: proctor-token=0\r\n", pause, "403"),
        (&cookie, "{}", "400"),
        (&cookie, pause, "409"),
    ] {
        let answer = ask(cookie, body);
        assert!(answer.contains(status), "{cookie} {body}: {answer}");
    }
    assert!(!run.join("control.json").exists());
}

#[test]
fn cancelled_trial_runs_again_when_it_is_requested() {
    let context = context();
    let go = context.root().join("go");
    let wait = format!("while [ ! -e {go} ]; do sleep 0.05; done; touch done");
    let agents =
        json!([{"name": "slow", "type": "command", "config": {"command": ["sh", "-c", wait]}}]);
    let path = suite(&context, &agents, &json!({"parallel": 2}));
    let running = context.proctor(["run", path.as_str()]).spawn();
    let latest = context.root().join(".proctor/latest");
    let folder = "trials/slow/one/trial-1";
    let record = || -> Option<Value> {
        let bytes = fs_err::read(latest.join(folder).join("artifacts/record.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    let has_ended = |record: &Value| !record["completed_at"].is_null();
    let soon = Duration::from_mins(1);
    wait_until(soon, "the trial", || {
        latest.join("control.json").exists() && record().is_some()
    });
    let run = latest.canonicalize_utf8().unwrap();
    let server = Server::start(&context, &[run.as_str()]);
    let name = run.file_name().unwrap();
    let page = server.body(&format!("/runs/{name}/"));
    assert!(
        page.contains("\"running\"") && !page.contains("\"interrupted\""),
        "{page}"
    );
    let request = |body: Value| {
        let token = server.url.split("?token=").nth(1).unwrap();
        let (host, body) = (&server.address, body.to_string());
        let port = host.rsplit(':').next().unwrap();
        let length = body.len();
        let (status, text) = server.request(&format!(
            "POST /runs/{name}/control HTTP/1.1\r\nHost: {host}\r\nCookie: proctor-token-{port}={token}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        assert!(status.contains("200"), "{status} {text}");
    };
    request(json!({"cancel": folder}));
    wait_until(soon, "the end of the trial", || {
        record().is_some_and(|it| has_ended(&it))
    });
    assert_eq!(record().unwrap()["outcome"], "interrupted");
    request(json!({"retry": [folder]}));
    wait_until(soon, "the trial", || {
        record().is_some_and(|it| !has_ended(&it))
    });
    fs_err::write(&go, "").unwrap();
    let output = running.wait();
    assert_ne!(output.code, Some(130), "{output}");
    let record = record().unwrap();
    assert_eq!(record["outcome"], "completed", "{record:#}");
}
