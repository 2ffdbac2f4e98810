//! Each module imports only modules that come before it in the layer order.

use proctor_testkit::layers;

const ORDER: &[&str] = &[
    "definitions",
    "foreign",
    "trials",
    "baseline",
    "stats",
    "calibration",
    "model",
    "compare",
    "csv",
    "figures",
    "gate",
    "experiment",
    "trend",
    "markup",
    "text",
    "read",
    "junit",
    "markdown",
    "results",
    "versus",
    "html",
    "gate_text",
    "youbencha",
];

#[test]
fn imports_follow_the_layer_order() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    layers::check(src.into(), ORDER).unwrap_or_else(|faults| panic!("{faults}"));
}
