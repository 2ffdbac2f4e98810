//! Helper programs without a supervisor.

use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use proctor_process::Error;
use proctor_process::quick::{QuickCommand, Sink, Source, output, pipeline};

use crate::shell::Marker;
use crate::support::{PATIENCE, PROMPT};

fn sh(script: &str) -> QuickCommand {
    QuickCommand::new("sh").args(["-c", script])
}

#[tokio::test]
async fn bytes_beyond_the_cap_are_read_and_dropped() {
    let mut command = sh("head -c 1000000 /dev/zero");
    command.cap = 1000;
    let result = output(command, PATIENCE).await.unwrap();
    assert!(result.success() && result.truncated);
    assert_eq!(result.stdout.len(), 1000);
}

#[tokio::test]
async fn a_background_process_does_not_delay_the_result() {
    let marker = Marker::new();
    let started = Instant::now();
    let result = output(
        sh(&format!("echo x; sleep {} & exit 0", marker.0)),
        PATIENCE,
    )
    .await
    .unwrap();
    assert_eq!(result.stdout, b"x\n");
    assert!(started.elapsed() < PROMPT);
    // Helpers are trusted to know what they leave; this test is not.
    for line in marker.alive() {
        let pid: i32 = line.split(' ').next().unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    marker.wait_gone().await;
}

#[tokio::test]
async fn output_that_still_comes_is_waited_for_and_that_has_an_end() {
    let soon = "(for i in 1 2 3 4 5 6; do sleep 0.15; echo $i; done) & exit 0";
    let result = output(sh(soon), PATIENCE).await.unwrap();
    assert_eq!(result.stdout, b"1\n2\n3\n4\n5\n6\n");
    let for_ever = "(while sleep 0.15; do echo x || exit; done) 2>&1 & exit 0";
    let result = output(sh(for_ever), PATIENCE).await.unwrap();
    assert!(result.success());
    assert!(result.stdout.starts_with(b"x\nx\n"));
}

#[tokio::test]
async fn no_environment_is_inherited() {
    let command = QuickCommand::new("/usr/bin/env").cwd("/usr");
    let command = command.envs([("ONE", "1")]).env("TWO", "2");
    let result = output(command, PATIENCE).await.unwrap();
    assert_eq!(result.stdout, b"ONE=1\nTWO=2\n");
}

#[tokio::test]
async fn files_can_stand_at_both_ends() {
    let mut source = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut source, b"abc").unwrap();
    source.rewind().unwrap();
    let mut target = tempfile::tempfile().unwrap();
    let command = sh("tr a-c A-C")
        .stdin(Source::File(source))
        .stdout(Sink::File(target.try_clone().unwrap()));
    let result = output(command, PATIENCE).await.unwrap();
    assert!(result.success() && result.stdout.is_empty());
    let mut text = String::new();
    target.rewind().unwrap();
    target.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ABC");
}

#[tokio::test]
async fn a_late_pipeline_is_killed_at_both_ends() {
    let marker = Marker::new();
    let sleep = format!("sleep {}", marker.0);
    let error = pipeline(sh(&sleep), sh(&sleep), Duration::from_millis(200))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    marker.wait_gone().await;
}

#[tokio::test]
async fn causes_of_a_failed_start_are_distinguished() {
    let error = output(QuickCommand::new("no-such-program"), PATIENCE)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::ProgramNotFound { .. }), "{error}");
    let error = output(QuickCommand::new("/etc/passwd"), PATIENCE)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
    let error = output(sh("exit 0").cwd("/no/such/folder"), PATIENCE)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::CwdMissing { .. }), "{error}");
}
