//! Images that a real engine builds as `docker build` does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;

use proctor_process::{Supervisor, quick};
use proctor_sandbox::docker::{BuildSpec, Engine, EngineError, EngineOptions};
use proctor_testkit::{BUSYBOX, docker_host};
use tempfile::TempDir;

/// An engine and a build context.
struct Rig {
    engine: Engine,
    host: String,
    folder: TempDir,
}

impl Rig {
    async fn new() -> Option<Self> {
        let host = docker_host()?;
        let folder = tempfile::tempdir().unwrap();
        // Nothing is run in containers, so any static program will do.
        let binary = std::env::current_exe().unwrap();
        let options = EngineOptions {
            address: host.parse().unwrap(),
            supervisor: Supervisor::at(&binary),
            binary,
            scratch: folder.path().to_owned(),
            env: Vec::new(),
        };
        let engine = Engine::connect(&options).await.unwrap();
        Some(Self {
            engine,
            host,
            folder,
        })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn spec(&self, dockerfile: &str) -> BuildSpec {
        let name = self.path().file_name().unwrap().to_str().unwrap();
        let name = format!(
            "proctor-test/{}",
            name.trim_start_matches('.').to_lowercase()
        );
        std::fs::write(self.path().join("Dockerfile"), dockerfile).unwrap();
        BuildSpec {
            context: self.path().to_owned(),
            dockerfile: "Dockerfile".to_owned(),
            images: BTreeMap::from([("test-base:1".to_owned(), BUSYBOX.to_owned())]),
            args: BTreeMap::new(),
            target: None,
            name,
            labels: BTreeMap::new(),
            network: Some("none".to_owned()),
        }
    }

    async fn docker(&self, args: &[&str]) -> String {
        let docker = quick::QuickCommand::new("docker")
            .envs(std::env::vars_os())
            .args(["-H", &self.host])
            .args(args);
        let limit = std::time::Duration::from_mins(1);
        let done = quick::output(docker, limit).await.unwrap();
        assert!(done.success(), "{done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

#[tokio::test]
async fn features_of_buildkit_are_built() {
    let Some(rig) = Rig::new().await else { return };
    std::fs::write(rig.path().join("a"), "a\n").unwrap();
    std::fs::write(rig.path().join("secret"), "secret\n").unwrap();
    std::fs::write(rig.path().join("kept"), "kept\n").unwrap();
    std::fs::write(rig.path().join("Dockerfile.dockerignore"), "*\n!kept\n!a\n").unwrap();
    let spec = rig.spec(
        r#"# syntax=docker/dockerfile:1
FROM test-base:1 AS first
RUN <<EOF
set -e
for word in one two; do
  echo "$word" >>/first
done
EOF

FROM test-base:1
COPY --from=first /first /out/first
COPY --from=test-base:1 --chmod=755 /etc/passwd /out/passwd
COPY --chmod=700 a /out/a
COPY <<'ONE' <<TWO /out/
not $EXPANDED
ONE
two
TWO
COPY . /context
RUN --mount=type=bind,source=a,target=/mnt/a --mount=type=cache,target=/cache \
  cat /mnt/a /out/first /out/ONE /out/TWO >/out/all
RUN <<SCRIPT
#!/bin/awk -f
BEGIN { print "script" >"/out/script" }
SCRIPT
RUN cat >/out/shell <<-"EOF" && echo end >>/out/shell
	$HOME
	EOF
"#,
    );
    let mut log = String::new();
    let image = rig.engine.build(&spec, |text| log.push_str(text)).await;
    let image = image.unwrap();
    assert!(log.contains("COPY --chmod=700 a /out/a"), "{log}");
    let script = "cat /out/all /out/script /out/shell; ls /context; \
                  stat -c %a /out/a /out/passwd /out/ONE";
    let run = [
        "run",
        "--rm",
        "--network=none",
        &image.id,
        "sh",
        "-c",
        script,
    ];
    let said = rig.docker(&run).await;
    rig.docker(&["rmi", &image.id]).await;
    let expect =
        "a\none\ntwo\nnot $EXPANDED\ntwo\nscript\n$HOME\nend\nDockerfile\na\nkept\n700\n755\n644\n";
    assert_eq!(said, expect, "{log}");
}

#[tokio::test]
async fn missing_base_image_is_named() {
    let Some(rig) = Rig::new().await else { return };
    let spec = rig.spec("FROM test-base:1\nCOPY --from=localhost:1/none /a /a\n");
    let missing = spec.missing_bases(&rig.engine).await.unwrap();
    assert_eq!(missing, ["localhost:1/none"]);
    let error = rig.engine.build(&spec, |_| {}).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Pull { image, .. } if image == "localhost:1/none"),
        "{error}"
    );
}
