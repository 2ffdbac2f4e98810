//! The images that `proctor image build` makes. The base image of these tests has the package
//! and an `npm` that installs it from there, because the engine of the tests has no network.

use camino::Utf8Path;
use proctor_gateway::ScriptedModel;
use proctor_testkit::{DEBIAN, llm};
use serde_json::json;

use super::{Rig, models::run};

/// What the shipped Dockerfile pins.
const VERSION: &str = "2.1.30";
const IMAGE: &str = "proctor/claude-code:latest";

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

#[test]
fn the_image_of_claude_code_is_built_and_works() {
    let Some(rig) = Rig::new() else { return };
    let Some(modules) = rig.context.real_claude_modules(VERSION) else {
        return;
    };
    let base = base(&rig, &modules);
    let argument = format!("BASE={base}");
    let command = ["image", "build", "claude-code", "--arg", &argument];
    let command = rig.context.proctor(command).env("DOCKER_HOST", &rig.host);
    let output = command.run();
    output.assert_code(0);
    assert_eq!(output.stdout, format!("{IMAGE}\n"));
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
