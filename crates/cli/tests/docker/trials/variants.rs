//! Variants in containers: their files are there for the agent, are not part of its work, and are not there when the
//! work is judged.

use proctor_testkit::DEBIAN;
use serde_json::{Value, json};

use super::{Rig, harbor, shell};

/// The agent shows the files of its variant, and does what RULES.md says.
const AGENT: &str = "cat RULES.md ~/user.md; ls README.md; git status --short; cat RULES.md > greeting.txt; echo more >> RULES.md";

fn variants(name: &str) -> Value {
    let mut agent = shell(name, AGENT);
    agent["variants"] = json!([
        {"name": "plain"},
        {"name": "ruled", "files": {
            "RULES.md": {"text": "hello\n"}, "README.md": null, "~/user.md": {"text": "from home\n"},
        }},
    ]);
    json!([agent])
}

fn patch(rig: &Rig, agent: &str) -> String {
    fs_err::read_to_string(rig.trial(agent).join("diff.patch")).unwrap()
}

#[test]
fn files_of_a_variant_are_in_its_container_and_not_judged() {
    let Some(rig) = Rig::new() else { return };
    let suite = rig.suite(&variants("base"), &json!({}));
    let case = rig.context.root().join("cases/testcase.yaml");
    let mut definition: Value = serde_json::from_slice(&fs_err::read(&case).unwrap()).unwrap();
    // Judged on the task's own base: with its README.md, and without RULES.md.
    let judge = "test -e README.md && test ! -e RULES.md && grep -qx hello greeting.txt";
    definition["evaluators"] = json!([{"name": "command", "config": {"command": judge}}]);
    fs_err::write(&case, definition.to_string()).unwrap();
    rig.run(&suite, &[]).assert_code(1);
    assert_eq!(rig.record("plain")["status"], "failed");
    let ruled = rig.record("ruled");
    assert_eq!(ruled["status"], "passed", "{ruled:#}");
    assert_eq!(ruled["sandbox"]["image"], DEBIAN);
    assert_eq!(ruled["diff"]["files_changed"], 1, "{ruled:#}");
    let printed = rig.printed("ruled");
    assert_eq!(printed, "hello\nfrom home\n", "{ruled:#}");
    let patch = patch(&rig, "ruled");
    assert!(patch.contains("+++ b/greeting.txt"), "{patch}");
    assert!(
        !patch.contains("RULES.md") && !patch.contains("README.md"),
        "{patch}"
    );
    let notes = ruled["notes"].to_string();
    assert!(notes.contains("not judged: RULES.md"), "{notes}");
}

#[test]
fn files_of_a_variant_are_in_the_image_of_a_task() {
    let Some(rig) = Rig::new() else { return };
    harbor::task(&rig, "separate");
    let mut agents = variants("base");
    let files = json!({"RULES.md": {"text": "hello\n"}});
    agents[0]["variants"] = json!([{"name": "plain"}, {"name": "ruled", "files": files}]);
    let suite = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&suite, &[]).assert_code(1);
    for (agent, reward) in [("plain", 0.0), ("ruled", 1.0)] {
        let record = rig.record(agent);
        let metrics = &record["verdicts"][0]["metrics"];
        assert_eq!(metrics["reward"], reward, "{agent}: {record:#}");
    }
    let patch = patch(&rig, "ruled");
    assert!(patch.contains("greeting.txt"), "{patch}");
    assert!(!patch.contains("b/RULES.md"), "{patch}");
}
