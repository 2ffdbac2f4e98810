//! `proctor view`: pages of runs over HTTP, for this machine's browser only.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use camino::Utf8Path;
use proctor_testkit::{Running, TestContext, wait_until};
use serde_json::{Value, json};

use crate::{
    reports::{Made, browser, make_run, open},
    suites::suite,
    support::context,
};

const RUN: &str = "20261101-000000-0000000a";
const NASTY: &str = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\u{202e}";

/// A running server. It is stopped when it is dropped.
struct Server {
    running: Option<Running>,
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
        let url = running.stdout_so_far();
        let address = url.trim().strip_prefix("http://").unwrap();
        let (address, _) = address.split_once('/').unwrap();
        Server {
            address: address.to_owned(),
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
        (status, body.to_owned())
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
    let trial = server.body(&format!("/runs/{RUN}/trials/0.json"));
    let trial: Value = serde_json::from_str(&trial).unwrap();
    assert_eq!(trial["prompt"], "Fix the parser.\n", "{trial:#}");
    let prompt = server.body(&format!("/runs/{RUN}/files/0/prompt.md"));
    assert_eq!(prompt, "Fix the parser.\n");
    let found = server.body(&format!("/runs/{RUN}/search?q=ONERROR%3D"));
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 4, "{found:#}");

    for path in [
        "/runs/20261101-000000-0000000b/".to_owned(),
        format!("/runs/{RUN}/trials/4.json"),
        format!("/runs/{RUN}/files/0/link"),
        format!("/runs/{RUN}/files/0/..%2F..%2F..%2F..%2F..%2Fplan.json"),
        format!("/runs/{RUN}/files/0/%2Fetc%2Fpasswd"),
        format!("/runs/{RUN}/files/4/prompt.md"),
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
    let printed = server.running.as_ref().unwrap().stdout_so_far();
    let token = printed.trim().split("?token=").nth(1).unwrap().to_owned();
    let get = |path: &str, more: &str| {
        server.request(&format!(
            "GET {path} HTTP/1.1\r\nHost: machine:{port}\r\n{more}Connection: close\r\n\r\n"
        ))
    };
    assert!(get("/", "").0.contains("403"));
    assert!(get("/?token=0123", "").0.contains("403"));
    assert!(get(&format!("/?token={token}"), "").0.contains("303"));
    let cookie = format!("Cookie: proctor-token={token}\r\n");
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

#[test]
fn two_trials_are_shown_side_by_side_chromium() {
    let context = context();
    let Some(browser) = browser("two_trials_are_shown_side_by_side_chromium") else {
        return;
    };
    run_of_two(&context);
    let server = Server::start(&context, &[RUN]);
    let page = |hash: &str| {
        let url = format!("http://{}/runs/{RUN}/#{hash}", server.address);
        open(&context, Utf8Path::new(browser), &url)
    };
    let one = page("trial=0");
    for part in [
        "<h3>Prompt</h3>",
        "Fix the parser.",
        "<h3>Session</h3>",
        "compare with",
    ] {
        assert!(one.contains(part), "{part}");
    }
    let two = page("trial=0&beside=2");
    assert_eq!(two.matches("<section class=\"trial\">").count(), 2);
    let found = page("filter=onerror");
    assert!(found.contains("<h3>In sessions</h3>"));
    for page in [one, two, found] {
        assert!(
            page.contains("<title>Proctor report</title>"),
            "a script of an agent ran"
        );
        assert!(!page.contains("<img"), "markup of an agent");
    }
}
