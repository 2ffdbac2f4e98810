//! The images that `proctor image build` makes. The base image of these tests has the package
//! and an `npm` that installs it from there, because the engine of the tests has no network.

use camino::Utf8Path;
use proctor_scripted_model::ScriptedModel;
use proctor_testkit::{BUSYBOX, DEBIAN, Output, llm};
use serde_json::json;

use super::{Rig, codes, models::run};

/// The versions pinned in the included Dockerfile.
const VERSION: &str = "2.1.30";
const IMAGE: &str = "proctor/claude-code:latest";
const TAGGED: &str = "thunderdome-test/claude-code:latest";

/// A base image whose `npm` knows one package.
fn base(rig: &Rig, modules: &Utf8Path) -> String {
    let context = rig.context.root().join("base");
    fs_err::create_dir(&context).unwrap();
    let copy = ["-a", modules.as_str(), context.as_str()];
    rig.context.program("cp".into(), copy).run().assert_code(0);
    let npm = format!(
        "#!/bin/sh\ncase \"$*\" in\n'install --global @anthropic-ai/claude-code@{VERSION}') ln -s /node_modules/@anthropic-ai/claude-code/cli.js /usr/local/bin/claude ;;\n'cache clean --force') ;;\n*) exit 9 ;;\nesac\n"
    );
    fs_err::write(context.join("npm"), npm).unwrap();
    let dockerfile = format!(
        "FROM {DEBIAN}\nCOPY node_modules /node_modules\nCOPY npm /usr/local/bin/npm\nRUN chmod +x /usr/local/bin/npm\n"
    );
    fs_err::write(context.join("Dockerfile"), dockerfile).unwrap();
    let name = "proctor-test:npm".to_owned();
    rig.docker(&["build", "--quiet", "--tag", &name, context.as_str()]);
    fs_err::remove_dir_all(context).unwrap();
    name
}

fn build(rig: &Rig, args: &[&str]) -> Output {
    let command = ["image", "build", "claude-code"];
    let command = command.into_iter().chain(args.iter().copied());
    let program = rig.context.proctor(command);
    program.env("DOCKER_HOST", &rig.host).run()
}

/// The engine of the tests has no network, so nothing is pulled.
#[test]
fn missing_base_image_is_reported_with_a_hint() {
    let Some(rig) = Rig::new() else { return };
    for (args, base) in [
        (&[][..], "node:20-bookworm"),
        (&["--arg", "BASE=no-such-base:1"], "no-such-base:1"),
    ] {
        let output = build(&rig, args);
        output.assert_code(3);
        assert!(
            output
                .stderr
                .contains(&format!("does not have the base image {base:?}")),
            "{output}"
        );
        let hint = "proctor image build claude-code --arg BASE=IMAGE";
        assert!(output.stderr.contains(hint), "{output}");
    }
    // A build that fails for another reason has no such hint.
    let output = build(&rig, &["--arg", &format!("BASE={BUSYBOX}")]);
    output.assert_code(3);
    assert!(!output.stderr.contains("BASE=IMAGE"), "{output}");
}

/// Thunderdome's own configuration before its images were built: the console says how to.
#[test]
fn a_missing_image_is_reported_with_the_command_that_builds_it() {
    let Some(rig) = Rig::new() else { return };
    fs_err::write(rig.context.root().join("adapter.sh"), "exit 0\n").unwrap();
    let orchestrators = json!([
        {"name": "claude-code", "adapter": "./adapter.sh", "image": "thunderdome-test/claude-code:none"},
        {"name": "other", "adapter": "./adapter.sh", "image": "no-such-image:1"},
    ]);
    let more = json!({"orchestrators": orchestrators, "trials": 2});
    let path = rig.suite(&json!([]), &more);
    let output = rig.run(&path, &[]);
    output.assert_code(3);
    for reported in [
        "claude-code on greet: 1 excluded (not_installed): image \"thunderdome-test/claude-code:none\" not found on the engine; build it: proctor image build claude-code --tag thunderdome-test/claude-code:none",
        "other on greet: 1 excluded (not_installed): cannot pull image \"no-such-image:1\":",
        "docker pull no-such-image:1",
        "2 not run",
    ] {
        assert!(output.stdout.contains(reported), "{reported}: {output}");
    }
    let record = rig.record("claude-code");
    assert_eq!(record["outcome"], "not_installed", "{record:#}");
    assert_eq!(codes(&record), ["IMAGE_MISSING"]);
}

#[test]
fn the_image_of_claude_code_is_built_and_works() {
    let Some(rig) = Rig::new() else { return };
    let Some(modules) = rig.context.real_claude_modules(VERSION) else {
        return;
    };
    let base = base(&rig, &modules);
    let argument = format!("BASE={base}");
    let output = build(&rig, &["--arg", &argument]);
    output.assert_code(0);
    assert_eq!(output.stdout, format!("{IMAGE}\n"));
    // Under the names of a configuration: the image is the same, and is not built again.
    let tags = ["--tag", TAGGED, "--tag", "localhost:5000/x/claude-code"];
    let output = build(&rig, &[&["--arg", &argument], &tags[..]].concat());
    output.assert_code(0);
    let names = format!("{TAGGED}\nlocalhost:5000/x/claude-code:latest\n");
    assert_eq!(output.stdout, names);
    let id = |name: &str| rig.docker(&["image", "inspect", "--format", "{{.Id}}", name]);
    assert_eq!(id(TAGGED), id(IMAGE));
    assert_eq!(id("localhost:5000/x/claude-code:latest"), id(IMAGE));
    let script = llm::writes_file_then_says("/workspace/greeting.txt", "hello\n", "done");
    let model = ScriptedModel::start_blocking(script).unwrap();
    let agents = json!([{"name": "claude", "type": "claude-code"}]);
    let suite = json!({"sandbox": {"type": "docker", "image": IMAGE}});
    run(&rig, &model, &rig.suite(&agents, &suite));
    let record = rig.record("claude");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["agent"]["version"], VERSION, "{record:#}");
    assert_eq!(record["sandbox"]["user"], "1000:1000", "{record:#}");
    let own = rig.docker(&["image", "inspect", "--format", "{{.Id}}", IMAGE]);
    rig.docker(&["rmi", "--force", own.trim(), &base]);
}
