//! Nothing is left behind, and containers of other runs are kept.

use std::collections::BTreeMap;

use proctor_process::{Event, Limits};
use proctor_sandbox::docker::{Engine, RUN_LABEL, Swept};
use proctor_testkit::docker_host;

use crate::support::{Rig, finish, sh};

/// The leftovers of a run, found by a sweep for which only this run is dead.
async fn left(engine: &Engine, run: &str) -> Swept {
    engine.sweep(|other| other != run).await.unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn sweep_removes_only_resources_of_dead_runs() {
    let Some(rig) = Rig::new().await else { return };
    let Some(dead) = Rig::new().await else { return };
    let living = rig.container().await;
    let mut process = living
        .start(sh("echo up; sleep 1; echo still here"), Limits::default())
        .await
        .unwrap();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    let container = dead.container().await;
    let mut other = container
        .start(sh("echo up; sleep 1000"), Limits::default())
        .await
        .unwrap();
    assert!(matches!(other.next().await, Ok(Event::Output { .. })));

    let swept = left(&rig.engine, &dead.run).await;
    assert_eq!(swept.containers, [container.id()]);
    assert!(finish(&mut other).await.unwrap_err().is_gone());
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "still here\n");
    living.remove().await.unwrap();
}

#[tokio::test]
async fn dropped_context_removes_files_and_descriptors() {
    let Some(rig) = Rig::new().await else { return };
    let before = {
        let container = rig.container().await;
        let mut process = container
            .start(sh("true"), Limits::default())
            .await
            .unwrap();
        finish(&mut process).await.unwrap();
        container.remove().await.unwrap();
        rig.engine.close().await;
        descriptors()
    };
    for _ in 0..3 {
        // Dropped while it runs, before it starts, and while it is being made.
        let container = rig.container().await;
        let mut process = container
            .start(sh("echo up; sleep 1000"), Limits::default())
            .await
            .unwrap();
        assert!(matches!(process.next().await, Ok(Event::Output { .. })));
        drop((container, process));
        drop(rig.container().await);
        let instant = std::time::Duration::from_millis(1);
        let _ = tokio::time::timeout(instant, rig.engine.create(rig.spec())).await;
    }
    rig.engine.close().await;
    assert_eq!(left(&rig.engine, &rig.run).await, Swept::default());
    let files = std::fs::read_dir(rig.path()).unwrap().count();
    assert_eq!(files, 0);
    // Connections are closed in the background.
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while descriptors() > before && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(descriptors() <= before, "{} > {before}", descriptors());
}

#[tokio::test]
async fn containers_are_removed_after_a_panic() {
    let Some(rig) = Rig::new().await else { return };
    let engine = rig.engine.clone();
    let spec = rig.spec();
    let task = tokio::task::LocalSet::new();
    let panicked = task
        .run_until(async move {
            tokio::task::spawn_local(async move {
                let container = engine.create(spec).await.unwrap();
                let _process = container
                    .start(sh("sleep 1000"), Limits::default())
                    .await
                    .unwrap();
                panic!("on purpose");
            })
            .await
        })
        .await;
    assert!(panicked.is_err_and(|error| error.is_panic()));
    rig.engine.close().await;
    assert_eq!(left(&rig.engine, &rig.run).await, Swept::default());
}

#[tokio::test]
async fn a_volume_of_a_dead_run_is_swept_too() {
    let Some(rig) = Rig::new().await else { return };
    let name = format!("{}-volume", rig.run);
    let label = format!("{RUN_LABEL}={}", rig.run);
    let host = docker_host().unwrap();
    let args = ["-H", &host, "volume", "create", "--label", &label, &name];
    let make = proctor_process::quick::QuickCommand::new("docker")
        .envs(std::env::vars_os())
        .args(args);
    let limit = std::time::Duration::from_mins(1);
    assert!(
        proctor_process::quick::output(make, limit)
            .await
            .unwrap()
            .success()
    );
    let expect = Swept {
        volumes: vec![name],
        ..Swept::default()
    };
    assert_eq!(left(&rig.engine, &rig.run).await, expect);
    assert_eq!(
        rig.labels(),
        BTreeMap::from([(RUN_LABEL.to_owned(), rig.run.clone())])
    );
}
