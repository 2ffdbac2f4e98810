//! How jobs end, and what is known then.

use std::time::{Duration, Instant};

use proctor_process::{EndReason, Event, JobFailure, Limits, Readiness, Service, Status};
use proctor_sandbox::docker::{Container, ContainerSpec, EngineError, Hardening};
use proctor_testkit::{PrivateEngine, processes_with};

use crate::support::{Rig, finish, sh, wall};

#[tokio::test]
async fn exit_codes_and_signals_are_distinguished() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    for (script, expect) in [
        ("exit 0", Status::Code(0)),
        ("exit 3", Status::Code(3)),
        ("exit 127", Status::Code(127)),
        ("exit 137", Status::Code(137)),
        ("kill -9 $$", Status::Signal(9)),
        ("kill -15 $$", Status::Signal(15)),
    ] {
        let mut process = container
            .start(sh(script), Limits::default())
            .await
            .unwrap();
        let run = finish(&mut process).await.unwrap();
        assert_eq!(run.report.exit.status, Some(expect), "{script}");
        assert_eq!(run.report.exit.ended_by, None, "{script}");
        assert!(run.report.usage.is_some() && run.facts.peak_memory_bytes.is_some());
    }
    container.remove().await.unwrap();
}

#[tokio::test]
async fn failed_start_is_not_an_exit_code() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    let fails = async |change: fn(&mut proctor_process::Job)| {
        let mut job = sh("true");
        change(&mut job);
        let mut process = container.start(job, Limits::default()).await.unwrap();
        match finish(&mut process).await {
            Err(EngineError::NotStarted(failure)) => failure,
            other => panic!("it started: {other:?}"),
        }
    };
    let program = "no-such-program".to_owned();
    let failure = fails(|job| job.argv = vec!["no-such-program".into()]).await;
    assert_eq!(failure, JobFailure::ProgramNotFound { program });
    let cwd = "/nowhere".to_owned();
    let failure = fails(|job| job.cwd = "/nowhere".into()).await;
    assert_eq!(failure, JobFailure::CwdMissing { cwd });
    let user = "missing-user".to_owned();
    let failure = fails(|job| job.user = Some("missing-user".into())).await;
    assert_eq!(failure, JobFailure::UserUnknown { user });
    container.remove().await.unwrap();
}

#[tokio::test]
async fn the_deadline_ends_the_whole_tree_within_a_second() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    let marker = format!("marker-{}", rig.run);
    // One that ignores TERM, one in a session of its own, one orphan.
    let script = format!(
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; : {marker}; sleep 1000; sleep 1000' & \
         (sh -c ': {marker}; sleep 1000' &) ; echo up; sleep 1000; sleep 1000"
    );
    let limit = Duration::from_secs(2);
    let mut process = container.start(sh(&script), wall(limit)).await.unwrap();
    let began = Instant::now();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    assert!(processes_with(&marker).len() >= 2);
    let run = finish(&mut process).await.unwrap();
    let late = began.elapsed().saturating_sub(limit);
    assert_eq!(processes_with(&marker), Vec::<String>::new());
    assert_eq!(run.report.exit.ended_by, Some(EndReason::TimedOut));
    assert_eq!(run.report.exit.status, Some(Status::Signal(9)));
    // The grace is half a second; the machine is shared.
    assert!(late < Duration::from_millis(2500), "{late:?}");
    container.remove().await.unwrap();
}

#[tokio::test]
async fn job_gets_sigterm_before_sigkill() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    let script = "trap 'echo bye; exit 7' TERM; echo up; sleep 1000 & wait";
    let mut process = container
        .start(sh(script), Limits::default())
        .await
        .unwrap();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    process.end(EndReason::Cancelled);
    process.end(EndReason::Asked);
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "bye\n");
    assert_eq!(run.report.exit.status, Some(Status::Code(7)));
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Cancelled));
    container.remove().await.unwrap();
}

#[tokio::test]
async fn silence_and_too_much_output_end_a_job() {
    let Some(rig) = Rig::new().await else { return };
    let idle = Limits {
        idle: Some(Duration::from_millis(700)),
        ..Limits::default()
    };
    let run = rig.run(rig.spec(), "echo hi; sleep 1000", idle).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Idle));
    assert_eq!(run.text(), "hi\n");
    let output = Limits {
        output: Some(1000),
        ..Limits::default()
    };
    let run = rig.run(rig.spec(), "yes", output).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::OutputLimit));
    assert_eq!(run.stdout.len(), 1000);
}

#[tokio::test]
async fn processes_left_behind_are_named_and_killed() {
    let Some(rig) = Rig::new().await else { return };
    let run = rig
        .run(rig.spec(), "sleep 1000 & exit 0", Limits::default())
        .await;
    assert_eq!(run.report.exit.status, Some(Status::Code(0)));
    let names: Vec<&str> = run
        .report
        .leaked
        .iter()
        .map(|leak| leak.name.as_str())
        .collect();
    assert_eq!(names, ["sleep"]);
}

#[tokio::test]
async fn first_process_cannot_be_killed_from_inside() {
    let Some(rig) = Rig::new().await else { return };
    let script = "kill -9 1; kill -15 1; kill -19 1; sleep 0.3; echo alive";
    let run = rig.run(rig.spec(), script, Limits::default()).await;
    assert_eq!(run.text(), "alive\n");
    assert_eq!(run.report.exit.ended_by, None);
}

#[tokio::test]
async fn the_next_job_sees_the_files_and_none_of_the_processes() {
    let Some(rig) = Rig::new().await else { return };
    let mut spec = rig.spec();
    spec.hardening = Hardening::Default;
    let container = rig.engine.create(spec).await.unwrap();
    let script = "echo kept > /file; setsid sleep 4321 & exit 0";
    let mut first = sh(script);
    first.user = Some("0:0".to_owned());
    let mut process = container.start(first, Limits::default()).await.unwrap();
    finish(&mut process).await.unwrap();
    let mut second = sh("cat /file; id -u; ps | grep -c '[s]leep 4321'");
    second.user = Some("1234:77".to_owned());
    let mut process = container.start(second, Limits::default()).await.unwrap();
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "kept\n1234\n0\n");
    container.remove().await.unwrap();
}

/// A container that may become another user.
async fn able(rig: &Rig) -> Container {
    let spec = ContainerSpec {
        hardening: Hardening::Default,
        ..rig.spec()
    };
    rig.engine.create(spec).await.unwrap()
}

fn as_unprivileged_user(script: &str) -> Service {
    Service {
        argv: vec!["sh".into(), "-c".into(), script.into()],
        command: Vec::new(),
        user: Some("65534".to_owned()),
    }
}

#[tokio::test]
async fn time_limit_starts_when_the_container_is_ready() {
    let Some(rig) = Rig::new().await else { return };
    let container = able(&rig).await;
    let mut job = sh("cat /tmp/up; sleep 1000");
    job.service = Some(as_unprivileged_user("sleep 2; id -u > /tmp/up; sleep 1000"));
    let readiness = Readiness {
        argv: vec!["test".into(), "-s".into(), "/tmp/up".into()],
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(5),
        start_period: Duration::from_mins(1),
        start_interval: Duration::from_millis(100),
        retries: 2,
    };
    job.readiness = Some(readiness.clone());
    let mut process = container
        .start(job.clone(), wall(Duration::from_secs(1)))
        .await
        .unwrap();
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "65534\n");
    assert_eq!(run.report.exit.ended_by, Some(EndReason::TimedOut));
    job.service = None;
    job.readiness = Some(Readiness {
        argv: vec!["false".into()],
        start_period: Duration::ZERO,
        ..readiness
    });
    let mut process = container.start(job, Limits::default()).await.unwrap();
    let error = finish(&mut process).await.unwrap_err().to_string();
    assert!(error.contains("did not become ready"), "{error}");
    container.remove().await.unwrap();
}

#[tokio::test]
async fn service_runs_with_the_job_and_ends_with_it() {
    let Some(rig) = Rig::new().await else { return };
    let container = able(&rig).await;
    let mut job = sh("sleep 0.3; cat /tmp/served");
    let service = "echo yes > /tmp/served; sleep 1000; sleep 1000";
    job.service = Some(as_unprivileged_user(service));
    job.cwd = "/tmp".to_owned();
    let began = Instant::now();
    let mut process = container.start(job, Limits::default()).await.unwrap();
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "yes\n");
    assert_eq!(run.report.leaked, []);
    assert!(began.elapsed() < Duration::from_secs(20));
    container.remove().await.unwrap();
}

#[tokio::test]
async fn leftovers_of_a_killed_engine_are_swept_later() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut private) = PrivateEngine::start(folder.path()) else {
        return;
    };
    let rig = Rig::at(&private.host()).await;
    let container = rig.container().await;
    let mut process = container
        .start(sh("echo up; sleep 1000"), Limits::default())
        .await
        .unwrap();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    private.kill();
    let error = finish(&mut process).await.unwrap_err();
    assert!(error.is_gone(), "{error}");
    let again = process.next().await.err();
    assert!(again.is_some_and(|error| error.is_gone()));
    drop((process, container));
    rig.engine.close().await;
    private.up();
    let later = Rig::at(&private.host()).await;
    let swept = later.engine.sweep(|run| run != rig.run).await.unwrap();
    assert_eq!(swept.containers.len(), 1, "{swept:?}");
}

#[tokio::test]
async fn shutdown_of_an_engine_is_not_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut private) = PrivateEngine::start(folder.path()) else {
        return;
    };
    let rig = Rig::at(&private.host()).await;
    let container = rig.container().await;
    let mut process = container
        .start(sh("echo up; sleep 1000"), Limits::default())
        .await
        .unwrap();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    let stopping = std::thread::spawn(move || {
        private.stop();
        private
    });
    let error = finish(&mut process).await.unwrap_err();
    assert!(error.is_gone(), "{error}");
    let mut private = stopping.join().unwrap();
    drop((process, container));
    rig.engine.close().await;
    private.up();
    let later = Rig::at(&private.host()).await;
    later.engine.sweep(|_| false).await.unwrap();
}
