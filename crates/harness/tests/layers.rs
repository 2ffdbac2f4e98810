//! Each module imports only modules that come before it in the layer order.

use proctor_testkit::layers;

const ORDER: [&str; 11] = [
    "config",
    "hook",
    "task",
    "model_access",
    "plan",
    "workspace",
    "evaluate",
    "trial",
    "run",
    "cluster",
    "rescore",
];

/// Imports against the order that are still there. This list only shrinks.
const ALLOWED: &[(&str, &str)] = &[("task", "evaluate")];

#[test]
fn imports_follow_the_layer_order() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    layers::check(src.into(), &ORDER, ALLOWED).unwrap_or_else(|faults| panic!("{faults}"));
}
