//! An engine that does not see our files: everything goes by archive.

use proctor_process::{EndReason, Event, JobInput, Limits, Status};
use proctor_sandbox::docker::{BindMount, Root, Swept};
use proctor_testkit::docker_host;
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;

use crate::support::{Rig, finish, sh};

/// The test engine at an address that says nothing of this machine. Ends with the set of tasks.
pub async fn remote() -> Option<(Rig, JoinSet<()>)> {
    let host = docker_host()?;
    let socket = host
        .strip_prefix("unix://")
        .expect("a local engine")
        .to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut from, _)) = listener.accept().await {
            let mut to = UnixStream::connect(&socket).await.unwrap();
            connections.spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    let rig = Rig::at(&address).await;
    assert!(!rig.engine.is_local());
    Some((rig, tasks))
}

#[tokio::test]
async fn workspace_is_copied_to_and_from_a_remote_engine() {
    let Some((rig, _proxy)) = remote().await else {
        return;
    };
    let (work, tools) = (rig.path().join("work"), rig.path().join("tools"));
    std::fs::create_dir_all(work.join("sub")).unwrap();
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(work.join("sub/kept"), "kept\n").unwrap();
    std::fs::write(work.join("gone"), "").unwrap();
    std::fs::write(tools.join("tool"), "tool\n").unwrap();
    let mount = |host: &std::path::Path, inside: &str, read_only| BindMount {
        host: host.to_owned(),
        inside: inside.to_owned(),
        read_only,
    };
    let mut spec = rig.spec();
    spec.root = Root::ReadOnly;
    spec.mounts = vec![mount(&work, "/work", false), mount(&tools, "/tools", true)];
    let container = rig.engine.create(spec).await.unwrap();
    let mut job = sh(
        "cat /tools/tool sub/kept; read line; echo \"$line\" > new; rm gone; ln -s new link; exit 5",
    );
    job.cwd = "/work".to_owned();
    job.input = JobInput::Container;
    let mut process = container.start(job, Limits::default()).await.unwrap();
    process.send(b"hello\n");
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "tool\nkept\n");
    assert_eq!(run.report.exit.status, Some(Status::Code(5)));
    assert_eq!(std::fs::read(work.join("link")).unwrap(), b"hello\n");
    assert_eq!(std::fs::read(work.join("sub/kept")).unwrap(), b"kept\n");
    assert!(!work.join("gone").exists());

    let mut process = container
        .start(sh("cat /work/new"), Limits::default())
        .await
        .unwrap();
    assert_eq!(finish(&mut process).await.unwrap().text(), "hello\n");
    container.remove().await.unwrap();
    rig.engine.close().await;
    let left = rig.engine.sweep(|run| run != rig.run).await.unwrap();
    assert_eq!(left, Swept::default());
}

#[tokio::test]
async fn a_connection_that_breaks_is_the_engines_fault() {
    let Some((rig, mut proxy)) = remote().await else {
        return;
    };
    let container = rig.container().await;
    let mut process = container
        .start(sh("echo up; sleep 1000"), Limits::default())
        .await
        .unwrap();
    assert!(matches!(process.next().await, Ok(Event::Output { .. })));
    proxy.shutdown().await;
    process.end(EndReason::Asked);
    let error = finish(&mut process).await.unwrap_err();
    assert!(error.is_gone(), "{error}");
    drop((process, container));
    rig.engine.close().await;
    let Some(local) = Rig::new().await else {
        return;
    };
    let swept = local.engine.sweep(|run| run != rig.run).await.unwrap();
    assert_eq!(swept.containers.len(), 1);
}
