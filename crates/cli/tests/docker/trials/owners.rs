//! Files of containers belong to the user, who can remove them.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use camino::Utf8Path;
use proctor_testkit::{PrivateEngine, TestContext};

use super::find;

/// Nobody's number, as Debian has it.
const USER: &str = "65534";

/// A task whose agent and verifier are root in their container.
fn task(context: &TestContext) {
    let toml = "[task]\nname = \"org/greet\"\n[agent]\ntimeout_sec = 60\n";
    let test = "id -u; mkdir -m 700 /logs/verifier/own; touch /logs/verifier/own/file; echo 1 > /logs/verifier/reward.txt\n";
    for (name, text) in [
        ("task.toml", toml),
        ("instruction.md", "Greet.\n"),
        (
            "environment/Dockerfile",
            "FROM proctor-test:busybox\nWORKDIR /app\n",
        ),
        ("tests/test.sh", test),
        ("solution/solve.sh", "mkdir -m 700 own; touch own/file\n"),
    ] {
        let path = context.root().join("task").join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
}

#[test]
fn files_of_containers_belong_to_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = PrivateEngine::start(folder.path()) else {
        return;
    };
    let socket = engine.host().replace("unix://", "");
    let for_all = std::fs::Permissions::from_mode(0o666);
    fs_err::set_permissions(socket, for_all).unwrap();
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    task(&context);
    // Where it was built it may be out of a user's reach.
    let proctor = context.root().join("proctor");
    fs_err::copy(context.binary(), &proctor).unwrap();
    let root = context.root().as_str();
    let give = context.program(Utf8Path::new("chown"), ["-R", USER, root]);
    give.run().assert_code(0);
    let run = [
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
        proctor.as_str(),
        "run",
        "task",
        "--agent",
        "oracle",
        "--sandbox",
        "docker",
        "--keep-workspace",
        "all",
    ];
    let program = context.program(Utf8Path::new("setpriv"), run);
    program
        .env("DOCKER_HOST", engine.host())
        .run()
        .assert_code(0);
    let results = context.root().join(".proctor");
    let files = find(&results, "");
    let has = |name: &str| files.iter().any(|file| file.ends_with(name));
    assert!(
        has("src-modified/own/file") && has("verifier/own/file"),
        "{files:?}"
    );
    for file in files {
        let owner = fs_err::symlink_metadata(&file).unwrap().uid();
        assert_eq!(owner.to_string(), USER, "{file}");
    }
}
