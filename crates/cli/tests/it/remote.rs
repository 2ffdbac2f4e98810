//! Repos that git has to fetch: over ssh, where one commit is enough, and over plain files by
//! HTTP, where the server has no say and everything is fetched.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{command_case, context, with};

/// Stands in for ssh: runs on this machine what should run on the other.
const FAKE_SSH: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do
  case $1 in -o|-p) shift ;; esac
  shift
done
echo "$1" >> "$(dirname "$0")/ssh.hosts"
shift
exec sh -c "$*"
"#;

/// A case whose agent adds a file.
fn case(context: &TestContext, repo: &str, more: &Value) -> Value {
    let adds = json!([{"write_file": {"path": "new.txt", "text": "x\n"}}]);
    context.install_fake("agent", &adds);
    with(
        &with(&command_case("agent"), &json!({ "repo": repo })),
        more,
    )
}

fn run(context: &TestContext, case: &Value) -> proctor_testkit::Output {
    let file = context.testcase(&case.to_string());
    context.proctor(["run", "-c", file.as_str()]).run()
}

/// Puts the stand-in for ssh on the path.
pub fn install_ssh(context: &TestContext) {
    let path = context.bin().join("ssh");
    fs_err::write(&path, FAKE_SSH).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_repo_is_fetched_over_ssh_at_any_commit() {
    let context = context();
    install_ssh(&context);
    let repo = context.repo();
    let old = repo.head();
    repo.commit("later", &[("later.txt", "later\n")]);
    let url = format!("ssh://git@example.test{}", repo.path());
    run(&context, &case(&context, &url, &json!({ "commit": old }))).assert_code(0);
    assert_eq!(context.record()["task"]["commit"], old.as_str());
    let workspace = context.only_run_dir().join("src-modified");
    assert!(workspace.join("new.txt").exists());
    assert!(!workspace.join("later.txt").exists());
    let hosts = fs_err::read_to_string(context.bin().join("ssh.hosts")).unwrap();
    assert!(hosts.starts_with("git@example.test"), "{hosts}");
}

#[test]
fn a_branch_that_the_remote_does_not_have_is_bad_input() {
    let context = context();
    install_ssh(&context);
    let url = format!("ssh://git@example.test{}", context.repo().path());
    let output = run(
        &context,
        &case(&context, &url, &json!({ "branch": "nope" })),
    );
    output.assert_code(2);
    assert!(
        output.stderr.contains("no branch, tag or commit `nope`"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_remote_out_of_reach_is_infrastructure() {
    let context = context();
    let output = run(
        &context,
        &case(&context, "http://127.0.0.1:9/x.git", &json!({})),
    );
    output.assert_code(3);
    let record = context.record();
    assert_eq!(record["outcome"], "network");
    assert_eq!(record["verdicts"][0]["status"], "skipped");
}

#[test]
fn dumb_http_remote_still_gives_a_single_commit() {
    let context = context();
    let repo = context.repo();
    repo.commit("second", &[("second.txt", "2\n")]);
    repo.git(["update-server-info"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/.git", listener.local_addr().unwrap());
    let root = repo.path().as_std_path().to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, &root);
        }
    });
    run(&context, &case(&context, &url, &json!({}))).assert_code(0);
    assert_eq!(context.record()["task"]["commit"], repo.head().as_str());
    let workspace = context.only_run_dir().join("src-modified");
    let history = std::fs::read_to_string(workspace.join(".git/packed-refs")).unwrap_or_default();
    assert!(history.is_empty(), "{history}");
    assert!(workspace.join("second.txt").exists());
}

/// Answer one request with a file below `root`.
fn serve(mut stream: TcpStream, root: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let target = request.split_whitespace().nth(1).unwrap_or("/");
    let path = target
        .split('?')
        .next()
        .unwrap_or("/")
        .trim_start_matches('/');
    let (status, body) = match std::fs::read(root.join(path)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}
