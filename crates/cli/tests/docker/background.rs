//! Background processes: kept from one job of a container to the next, or not.

use std::time::Duration;

use proctor_process::{Background, EndReason, Event, Job, JobInput, Limits, Report, Status};
use proctor_sandbox::docker::{Container, Hardening};

use crate::remote::remote;
use crate::support::{Rig, Run, finish, sh, wall};

/// A container whose jobs may be of root, as those of tasks are.
async fn able(rig: &Rig) -> Container {
    let mut spec = rig.spec();
    spec.hardening = Hardening::Default;
    rig.engine.create(spec).await.unwrap()
}

fn job(script: &str, background: Background) -> Job {
    Job {
        user: Some("0:0".to_owned()),
        background,
        ..sh(script)
    }
}

async fn run(container: &Container, job: Job, limits: Limits) -> Run {
    let mut process = container.start(job, limits).await.unwrap();
    process.send(b"hello\n");
    finish(&mut process).await.unwrap()
}

fn names(report: &Report) -> Vec<&str> {
    let processes = report.background.iter();
    processes.map(|process| process.name.as_str()).collect()
}

/// Counts up in a file, and overwrites the report of the first process.
const COUNTER: &str = "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > /new; mv /new /count; echo {} > /proctor/report.json; done' & ";
/// Prints 1 if the count goes on.
const IS_COUNTING: &str =
    "a=$(cat /count); sleep 0.3; test $(cat /count) -gt $a && echo 1 || echo 0";

async fn kept(rig: &Rig) {
    let container = able(rig).await;
    let script = format!(
        "read line; printf \"$line\\037\" >&2; {COUNTER} while ! test -s /count; do sleep 0.01; done; printf x; exit 3"
    );
    let mut first = job(&script, Background::Keep);
    first.input = JobInput::Container;
    let ended = run(&container, first, Limits::default()).await;
    assert_eq!(ended.report.exit.status, Some(Status::Code(3)));
    assert_eq!((ended.text(), &ended.stderr[..]), ("x", &b"hello\x1f"[..]));
    assert_eq!(names(&ended.report)[0], "sh");
    assert_eq!(ended.report.leaked, []);
    for (background, expect) in [
        (Background::Freeze, "0\n"),
        (Background::Keep, "1\n"),
        (Background::Freeze, "0\n"),
        (Background::End, "1\n"),
        // The container was started again.
        (Background::End, "0\n"),
    ] {
        let ended = run(&container, job(IS_COUNTING, background), Limits::default()).await;
        assert_eq!(ended.text(), expect, "{background:?}");
    }
    container.remove().await.unwrap();
}

#[tokio::test]
async fn background_processes_go_on_during_the_next_job_and_are_stopped_between() {
    let Some(rig) = Rig::new().await else { return };
    kept(&rig).await;
}

#[tokio::test]
async fn background_processes_go_on_at_a_remote_engine() {
    let Some((rig, _proxy)) = remote().await else {
        return;
    };
    kept(&rig).await;
}

#[tokio::test]
async fn container_without_background_processes_ends_with_its_job() {
    let Some(rig) = Rig::new().await else { return };
    let container = able(&rig).await;
    let ended = run(
        &container,
        job("echo a", Background::Keep),
        Limits::default(),
    )
    .await;
    assert_eq!((ended.text(), names(&ended.report).len()), ("a\n", 0));
    // A program that does not exist is reported as always.
    let mut missing = job("", Background::Freeze);
    missing.argv = vec!["no-such-program".to_owned()];
    let mut process = container.start(missing, Limits::default()).await.unwrap();
    let error = finish(&mut process).await.unwrap_err().to_string();
    assert!(error.contains("no-such-program"), "{error}");
    container.remove().await.unwrap();
}

#[tokio::test]
async fn nothing_is_kept_after_a_timeout_or_for_another_agent() {
    let Some(rig) = Rig::new().await else { return };
    let container = able(&rig).await;
    let script = format!("{COUNTER} sleep 1000");
    let limits = wall(Duration::from_millis(500));
    let ended = run(&container, job(&script, Background::Keep), limits).await;
    assert_eq!(ended.report.exit.ended_by, Some(EndReason::TimedOut));
    assert_eq!(names(&ended.report).len(), 0);
    let script = format!("rm /count; {COUNTER} sleep 0.2");
    let ended = run(
        &container,
        job(&script, Background::Keep),
        Limits::default(),
    )
    .await;
    assert_eq!(names(&ended.report)[0], "sh");
    container.end_background().await.unwrap();
    let ended = run(
        &container,
        job(IS_COUNTING, Background::Keep),
        Limits::default(),
    )
    .await;
    assert_eq!(ended.text(), "0\n");
    container.remove().await.unwrap();
}

#[tokio::test]
async fn agent_that_is_ended_after_its_result_takes_its_own_processes_along() {
    let Some(rig) = Rig::new().await else { return };
    let container = able(&rig).await;
    // The first one is an orphan. The others are descendants of the agent, and one of them ignores signals.
    let script = "(setsid sleep 1111 &); sleep 2222 & sh -c 'trap \"\" TERM; echo up; sleep 3333; sleep 3334'";
    let mut process = container
        .start(job(script, Background::Keep), Limits::default())
        .await
        .unwrap();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    process.end(EndReason::Finished);
    let ended = finish(&mut process).await.unwrap();
    assert_eq!(ended.report.exit.ended_by, Some(EndReason::Finished));
    assert_eq!(names(&ended.report), ["sleep"]);
    let list = job("ps -o args | grep -o '[s]leep [0-9]*'", Background::End);
    let ended = run(&container, list, Limits::default()).await;
    assert_eq!(ended.text(), "sleep 1111\n");
    container.remove().await.unwrap();
}
