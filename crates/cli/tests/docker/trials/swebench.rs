//! Instances in the format of SWE-bench whose repository is in an image.

use camino::Utf8Path;
use serde_json::json;

use super::{Rig, shell};

const DOCKERFILE: &str = "FROM proctor-test:debian\nCOPY repo /testbed\nRUN cd /testbed && git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm base && echo built > ignored.so && echo ignored.so > .gitignore\n";
const CODE: &str = "def add(a, b):\n    return a - b\n";
/// The place of the repository matters, as for a package that is installed from it.
const TESTS: &str = "import os, sys\nsys.path.insert(0, '/testbed')\nfrom calc import add\n\ndef test_zero():\n    assert add(1, 0) == 1 and os.path.exists('/testbed/ignored.so')\n";
const PATCH: &str = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n";
const TEST_PATCH: &str = "diff --git a/tests/test_calc.py b/tests/test_calc.py\n--- a/tests/test_calc.py\n+++ b/tests/test_calc.py\n@@ -4,3 +4,6 @@\n \n def test_zero():\n     assert add(1, 0) == 1 and os.path.exists('/testbed/ignored.so')\n+\n+def test_sum():\n+    assert add(1, 2) == 3\n";

#[test]
fn instance_and_its_import_are_judged_in_a_fresh_container_of_the_image() {
    let Some(rig) = Rig::new() else { return };
    let root = rig.context.root();
    for (name, text) in [
        ("image/Dockerfile", DOCKERFILE),
        ("image/repo/calc.py", CODE),
        ("image/repo/tests/test_calc.py", TESTS),
    ] {
        let path = root.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let image = "proctor-test-swebench:owner_1776_name-1";
    let context = root.join("image");
    rig.docker(&["build", "-q", "-t", image, context.as_str()]);
    let instance = json!([{
        "image_name": image,
        "instance_id": "owner__name-1", "repo": "owner/name", "base_commit": "HEAD",
        "problem_statement": "add() subtracts.", "patch": PATCH, "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": ["tests/test_calc.py::test_sum"],
        "PASS_TO_PASS": "[\"tests/test_calc.py::test_zero\"]",
    }]);
    fs_err::write(root.join("set.json"), instance.to_string()).unwrap();
    let agents = json!([
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
        shell("cheat", "printf 'def test_sum(): pass\\ndef test_zero(): pass\\n' > tests/test_calc.py"),
    ]);
    let tasks = json!([{"swebench": "set.json", "image": "proctor-test-swebench:{image_id}"}]);
    let path = rig.suite(&agents, &json!({"tasks": tasks}));
    verdicts(&rig, &path);
    let import = ["task", "import", "set.json", "--out", "imported"];
    rig.context.proctor(import).run().assert_code(0);
    let tasks = json!([{"folder": "imported"}]);
    let path = rig.suite(&agents, &json!({"tasks": tasks}));
    verdicts(&rig, &path);
    rig.docker(&["rmi", "-f", image]);
}

/// Runs a suite with the three agents.
#[track_caller]
fn verdicts(rig: &Rig, path: &Utf8Path) {
    let output = rig.run(path, &[]);
    output.assert_code(1);
    for (agent, status) in [
        ("floor", "failed"),
        ("ceiling", "passed"),
        ("cheat", "failed"),
    ] {
        let record = rig.record(agent);
        assert_eq!(
            record["verdicts"][0]["status"], status,
            "{agent}: {record:#}"
        );
    }
}
