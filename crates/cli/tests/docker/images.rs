//! Images that are built, and files that go in and out of containers.

use std::collections::BTreeMap;

use proctor_process::Limits;
use proctor_sandbox::docker::{BuildSpec, EngineError};
use proctor_testkit::BUSYBOX;

use crate::support::{Rig, finish, sh};

fn build_spec(rig: &Rig, dockerfile: &str) -> BuildSpec {
    let context = rig.path().join("context");
    std::fs::create_dir_all(context.join("sub")).unwrap();
    std::fs::write(context.join("Dockerfile"), dockerfile).unwrap();
    std::fs::write(context.join("sub/file"), "from the context\n").unwrap();
    std::fs::write(context.join("secret"), "not for the image\n").unwrap();
    std::fs::write(context.join(".dockerignore"), "secret\n").unwrap();
    BuildSpec {
        context,
        dockerfile: "Dockerfile".to_owned(),
        images: BTreeMap::new(),
        args: BTreeMap::from([("BASE".to_owned(), BUSYBOX.to_owned())]),
        target: None,
        name: format!("proctor-test/{}", rig.run.to_lowercase()),
        labels: rig.labels(),
        network: Some("none".to_owned()),
    }
}

async fn remove_image(name: &str) {
    let host = proctor_testkit::docker_host().unwrap();
    let docker = proctor_process::quick::QuickCommand::new("docker")
        .envs(std::env::vars_os())
        .args(["-H", &host, "rmi", name]);
    let limit = std::time::Duration::from_mins(1);
    let done = proctor_process::quick::output(docker, limit).await.unwrap();
    assert!(done.success(), "{done:?}");
}

#[tokio::test]
async fn an_image_is_built_from_its_context_and_only_once() {
    let Some(rig) = Rig::new().await else { return };
    let dockerfile = "ARG BASE\nFROM $BASE\nCOPY . /files/\nRUN echo made > /files/made\nENV GREETING=hello\n\
                      WORKDIR /files\nUSER 1000\nENTRYPOINT [\"sh\"]\nCMD [\"-c\", \"true\"]\n";
    let spec = build_spec(&rig, dockerfile);
    let mut said = String::new();
    let image = rig
        .engine
        .build(&spec, |text| said.push_str(text))
        .await
        .unwrap();
    assert!(said.contains("RUN echo made"), "{said}");
    assert_eq!(image.env["GREETING"], "hello");
    assert_eq!(image.workdir, "/files");
    assert_eq!(image.user.as_deref(), Some("1000"));
    assert_eq!(
        (&image.entrypoint[..], image.cmd.len()),
        (&["sh".to_owned()][..], 2)
    );
    let mut again = String::new();
    let same = rig
        .engine
        .build(&spec, |text| again.push_str(text))
        .await
        .unwrap();
    assert_eq!((same.id.as_str(), again.as_str()), (image.id.as_str(), ""));

    let mut container = rig.spec();
    container.image.clone_from(&image.id);
    let script = "cat /files/sub/file /files/made; ls /files/secret 2>/dev/null; true";
    let run = rig.run(container, script, Limits::default()).await;
    assert_eq!(run.text(), "from the context\nmade\n");

    std::fs::write(spec.context.join("sub/file"), "changed\n").unwrap();
    let other = rig.engine.build(&spec, |_| {}).await.unwrap();
    assert_ne!(other.id, image.id);
    remove_image(&other.id).await;
    remove_image(&image.id).await;
}

#[tokio::test]
async fn a_build_that_fails_says_why() {
    let Some(rig) = Rig::new().await else { return };
    let fails = async |dockerfile: &str| {
        let spec = build_spec(&rig, dockerfile);
        match rig.engine.build(&spec, |_| {}).await {
            Err(EngineError::Build { message, .. }) => message,
            other => panic!("it was built: {other:?}"),
        }
    };
    let message = fails(&format!("FROM {BUSYBOX}\nRUN echo the reason; exit 7\n")).await;
    // In Docker's words, or in podman's.
    let has_code = message.contains("code: 7") || message.contains("status 7");
    assert!(has_code && message.contains("the reason"), "{message}");
    let message = fails(&format!("FROM {BUSYBOX}\nRUM echo\n")).await;
    assert!(message.contains("RUM"), "{message}");
}

#[tokio::test]
async fn a_missing_image_is_named() {
    let Some(rig) = Rig::new().await else { return };
    let mut spec = rig.spec();
    spec.image = "proctor-test:no-such".to_owned();
    let error = rig.engine.create(spec).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "image \"proctor-test:no-such\" not found on the engine"
    );
}

#[tokio::test]
async fn files_go_in_and_out_by_archive() {
    let Some(rig) = Rig::new().await else { return };
    let (from, to) = (rig.path().join("from"), rig.path().join("to"));
    std::fs::create_dir_all(from.join("sub")).unwrap();
    std::fs::create_dir(&to).unwrap();
    std::fs::write(from.join("sub/a"), vec![5; 3_000_000]).unwrap();
    std::os::unix::fs::symlink("sub/a", from.join("link")).unwrap();
    let container = rig.container().await;
    container.upload(&from, "/tmp").await.unwrap();
    let script = "cp /tmp/link /tmp/copy && chmod 755 /tmp/copy";
    let mut process = container
        .start(sh(script), Limits::default())
        .await
        .unwrap();
    assert!(finish(&mut process).await.unwrap().report.exit.success());
    container.download("/tmp", &to).await.unwrap();
    assert_eq!(std::fs::read(to.join("copy")).unwrap(), vec![5; 3_000_000]);
    let link = std::fs::read_link(to.join("link")).unwrap();
    assert_eq!(link, std::path::Path::new("sub/a"));
    container.remove().await.unwrap();
}
