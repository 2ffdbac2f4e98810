//! Digests of definitions cover the image that a name referred to.

use proctor_testkit::{BUSYBOX, DEBIAN};
use serde_json::json;

use super::Rig;

/// A tag of this context that other tests do not use.
fn tag(rig: &Rig) -> String {
    let name = rig.context.root().file_name().unwrap_or_default();
    format!("{}:moved", name.to_lowercase())
}

#[test]
fn name_of_an_image_that_has_moved_is_another_agent() {
    let Some(rig) = Rig::new() else { return };
    let tag = tag(&rig);
    let sandbox = json!({"sandbox": {"type": "docker", "image": tag}});
    let suite = rig.suite(&json!([{"name": "floor", "type": "null"}]), &sandbox);
    let mut found = Vec::new();
    for image in [DEBIAN, DEBIAN, BUSYBOX] {
        rig.docker(&["tag", image, &tag]);
        rig.run(&suite, &[]).assert_code(1);
        let record = rig.record("floor");
        let id = rig.docker(&["image", "inspect", "--format", "{{.Id}}", image]);
        let definition = &record["agent"]["definition"];
        assert_eq!(definition["found"]["image"], id.trim(), "{record:#}");
        let latest = rig.context.root().join(".proctor/latest");
        let run = latest.canonicalize_utf8().unwrap();
        found.push((definition["digest"].clone(), run));
    }
    rig.docker(&["rmi", &tag]);
    assert_eq!(found[0].0, found[1].0);
    assert_ne!(found[1].0, found[2].0);
    let runs = found.iter().map(|(_, run)| run.as_str());
    let report = rig
        .context
        .proctor(["report"].into_iter().chain(runs))
        .run();
    assert!(report.stdout.contains("differ in /found/image"), "{report}");
}
