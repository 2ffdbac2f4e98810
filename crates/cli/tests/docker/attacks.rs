//! The attacks of the tables in containers, with the runners that the test image has.

use proctor_testkit::{DEBIAN, TestContext, docker_host};
use serde_json::json;

use crate::table::{Sandbox, Table, git, node, python, shell};

fn check(table: &Table) {
    let Some(host) = docker_host() else { return };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let sandbox = Sandbox {
        suite: Some(json!({"type": "docker", "image": DEBIAN})),
        env: vec![("DOCKER_HOST", host.clone())],
        ..Sandbox::default()
    };
    table.check(&context, &sandbox);
    assert_eq!(context.containers(&host), Vec::<String>::new());
    context.assert_nothing_left("");
}

/// Proctor and its agents run in a container of Debian 12, on this machine's files: git is 2.39 there, which knows no
/// `GIT_ATTR_SOURCE`.
#[test]
fn attributes_with_the_git_of_debian_12() {
    let Some(host) = docker_host() else { return };
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let run = ["-H", &host, "run", "--rm", "--init", "--user"];
    let mut words: Vec<String> = run.map(str::to_owned).into();
    words.push(rustix::process::getuid().as_raw().to_string());
    let (root, binary) = (context.root(), context.binary());
    for (option, value) in [
        ("--volume", format!("{root}:{root}")),
        ("--volume", format!("{binary}:{binary}:ro")),
        ("--env", format!("HOME={root}/home")),
        ("--env", format!("TMPDIR={root}/tmp")),
        ("--workdir", root.to_string()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words.push(DEBIAN.to_owned());
    let base: Vec<&str> = words.iter().map(String::as_str).collect();
    let version = [&base[2..], &["git", "--version"]].concat();
    let version = context.docker(&host, &version);
    assert!(version.starts_with("git version 2.39"), "{version}");
    words.insert(0, "docker".to_owned());
    let sandbox = Sandbox {
        wrapper: words,
        ..Sandbox::default()
    };
    git::attributes().check(&context, &sandbox);
}

#[test]
fn scripts() {
    check(&shell::script());
}

#[test]
fn attributes_of_git() {
    check(&git::attributes());
}

#[test]
fn pytest() {
    check(&python::pytest(None));
}

#[test]
fn node_test() {
    check(&node::node(false));
}
