//! The modules of the gateway import each other in one direction only.

/// All top-level modules, the lowest layer first.
const ORDER: &[&str] = &[
    "allocator",
    "error",
    "secrets",
    "faults",
    "tls",
    "metering",
    "pricing",
    "budget",
    "request",
    "recording",
    "ledger",
    "status",
    "call_log",
    "upstream",
    "client",
    "key",
    "state",
    "call",
    "server",
    "gateway",
];

#[test]
fn imports_follow_the_layer_order() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    proctor_testkit::layers::check(src.into(), ORDER).unwrap_or_else(|fault| panic!("{fault}"));
}
