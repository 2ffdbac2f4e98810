//! Each module imports only modules that come before it in the layer order.

use proctor_testkit::layers;

const ORDER: &[&str] = &[
    "settings",
    "trial_dir",
    "host",
    "availability",
    "docker",
    "git",
    "packages",
    "peer",
    "sandbox",
    "pool",
    "running",
    "exec_env",
    "shell",
];

#[test]
fn imports_follow_the_layer_order() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    layers::check(src.into(), ORDER).unwrap_or_else(|faults| panic!("{faults}"));
}
