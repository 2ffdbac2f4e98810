//! Imports among the modules follow the layer order of the crates that they will become.

use camino::Utf8Path;
use proctor_testkit::layers::{self, Imports};

/// The future crates, the lowest first, each with its modules in order.
///
/// A module may import modules before it. The crates in [`SIBLINGS`] do not import each other.
const LAYERS: [(&str, &[&str]); 4] = [
    (
        "sandbox",
        &[
            "host",
            "helper",
            "socket",
            "git",
            "area",
            "sandbox",
            "availability",
            "packages",
        ],
    ),
    ("agents", &["agent", "agents"]),
    ("report", &["stats", "calibration", "foreign", "report"]),
    (
        "harness",
        &[
            "config",
            "hook",
            "source",
            "task",
            "model_access",
            "litellm",
            "plan",
            "workspace",
            "evaluate",
            "export",
            "provider_limits",
            "trial",
            "control",
            "run",
            "spec",
            "rescore",
            "cluster",
            "check",
            "clean",
        ],
    ),
];

/// Crates that do not depend on each other.
const SIBLINGS: [&str; 3] = ["sandbox", "agents", "report"];

/// Imports against the order that are still there. This list only shrinks.
const ALLOWED: &[(&str, &str)] = &[
    ("agents", "socket"),
    ("calibration", "run"),
    ("config", "hook"),
    ("config", "task"),
    ("evaluate", "trial"),
    ("hook", "evaluate"),
    ("sandbox", "config"),
    ("run", "cluster"),
    ("task", "evaluate"),
];

fn src() -> &'static Utf8Path {
    concat!(env!("CARGO_MANIFEST_DIR"), "/src").into()
}

fn crate_of(module: &str) -> Option<&'static str> {
    let layer = LAYERS.iter().find(|(_, modules)| modules.contains(&module));
    layer.map(|(name, _)| *name)
}

fn joins_siblings(from: &str, to: &str) -> bool {
    let (from, to) = (crate_of(from), crate_of(to));
    let is_sibling = |name: Option<&str>| name.is_some_and(|name| SIBLINGS.contains(&name));
    from != to && is_sibling(from) && is_sibling(to)
}

#[test]
fn imports_follow_the_layer_order() {
    let order: Vec<&str> = LAYERS
        .iter()
        .flat_map(|(_, modules)| *modules)
        .copied()
        .collect();
    let rank = |module: &str| order.iter().position(|name| *name == module);
    // Downward imports between siblings are checked by the other test.
    let allowed = ALLOWED
        .iter()
        .copied()
        .filter(|(from, to)| rank(from) < rank(to));
    let allowed: Vec<_> = allowed.collect();
    layers::check(src(), &order, &allowed).unwrap_or_else(|faults| panic!("{faults}"));
}

#[test]
fn sibling_crates_do_not_import_each_other() {
    let imports = Imports::read(src());
    let edges = imports
        .edges()
        .keys()
        .map(|(from, to)| (from.as_str(), to.as_str()));
    let found: Vec<_> = edges
        .filter(|(from, to)| joins_siblings(from, to))
        .collect();
    let allowed = ALLOWED
        .iter()
        .copied()
        .filter(|(from, to)| joins_siblings(from, to));
    assert_eq!(found, allowed.collect::<Vec<_>>());
}
