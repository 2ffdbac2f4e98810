//! Compares an import graph with a layer order, and finds cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use camino::Utf8Path;

use super::imports::Imports;

/// Checks that modules of the crate in `src` import only modules that `order` lists before them.
///
/// `order` lists every top-level module, the lowest layer first.
pub fn check(src: &Utf8Path, order: &[&str]) -> Result<(), String> {
    compare(&Imports::read(src), order)
}

/// Checks that the top-level modules of the crate in `src` form no import cycle.
pub fn check_acyclic(src: &Utf8Path) -> Result<(), String> {
    find_cycles(&Imports::read(src))
}

fn compare(imports: &Imports, order: &[&str]) -> Result<(), String> {
    let ranks: BTreeMap<_, _> = order
        .iter()
        .zip(0..)
        .map(|(name, rank)| (*name, rank))
        .collect();
    let mut faults = Vec::new();
    for module in imports.modules() {
        if !ranks.contains_key(module.as_str()) {
            faults.push(format!("module `{module}` is missing from the layer order"));
        }
    }
    for module in order {
        if !imports.modules().contains(*module) {
            faults.push(format!(
                "the layer order lists `{module}`, which does not exist"
            ));
        }
    }
    let violates = |from: &str, to: &str| match (ranks.get(from), ranks.get(to)) {
        (Some(from), Some(to)) => from < to,
        // A module without a layer is a fault already.
        _ => false,
    };
    for ((from, to), import) in imports.edges() {
        if violates(from, to) {
            let mut fault = format!(
                "`{from}` imports `{to}`, a higher layer ({}:{})",
                import.file, import.line
            );
            if let Some(way) = shortest_way(imports, to, from) {
                let _ = write!(fault, "; cycle: {from} -> {}", way.join(" -> "));
            }
            faults.push(fault);
        }
    }
    conclude(&faults)
}

fn find_cycles(imports: &Imports) -> Result<(), String> {
    let mut faults = Vec::new();
    let mut reported = BTreeSet::new();
    for ((from, to), import) in imports.edges() {
        let Some(way) = shortest_way(imports, to, from) else {
            continue;
        };
        let members: BTreeSet<_> = way.iter().cloned().collect();
        if reported.insert(members) {
            let place = format!("{}:{}", import.file, import.line);
            faults.push(format!("cycle: {from} -> {} ({place})", way.join(" -> ")));
        }
    }
    conclude(&faults)
}

fn conclude(faults: &[String]) -> Result<(), String> {
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("\n"))
    }
}

/// The modules on a shortest chain of imports, both ends included.
fn shortest_way(imports: &Imports, from: &str, to: &str) -> Option<Vec<String>> {
    let mut previous = BTreeMap::from([(from, None)]);
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(module) = queue.pop_front() {
        if module == to {
            let chain = std::iter::successors(Some(module), |module| previous[module]);
            let mut way: Vec<_> = chain.map(str::to_owned).collect();
            way.reverse();
            return Some(way);
        }
        let edges = imports.edges().keys().filter(|(start, _)| start == module);
        for (_, next) in edges {
            if !previous.contains_key(next.as_str()) {
                previous.insert(next, Some(module));
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in a temporary directory whose modules import each other as listed.
    fn crate_with(edges: &[(&str, &str)]) -> (tempfile::TempDir, Imports) {
        let dir = tempfile::tempdir().unwrap();
        let src = Utf8Path::from_path(dir.path()).unwrap();
        let mut files: BTreeMap<&str, String> = BTreeMap::from([("lib", String::new())]);
        for (from, to) in edges {
            files.entry(to).or_default();
            let source = files.entry(from).or_default();
            source.push_str("use crate::");
            source.push_str(to);
            source.push_str(";\n");
        }
        for (name, source) in files {
            std::fs::write(src.join(name).with_extension("rs"), source).unwrap();
        }
        let imports = Imports::read(src);
        (dir, imports)
    }

    #[test]
    fn downward_imports_pass() {
        let (_dir, imports) = crate_with(&[("b", "a"), ("c", "a"), ("c", "b")]);
        assert_eq!(compare(&imports, &["a", "b", "c"]), Ok(()));
        assert_eq!(find_cycles(&imports), Ok(()));
    }

    #[test]
    fn upward_import_is_reported_with_its_place_and_cycle() {
        let (_dir, imports) = crate_with(&[("b", "a"), ("c", "b"), ("a", "c")]);
        let fault = compare(&imports, &["a", "b", "c"]).unwrap_err();
        let expected = "`a` imports `c`, a higher layer (a.rs:1); cycle: a -> c -> b -> a";
        assert_eq!(fault, expected);
    }

    #[test]
    fn upward_import_without_a_cycle_is_reported() {
        let (_dir, imports) = crate_with(&[("a", "b")]);
        let fault = compare(&imports, &["a", "b"]).unwrap_err();
        assert_eq!(fault, "`a` imports `b`, a higher layer (a.rs:1)");
    }

    #[test]
    fn order_must_list_exactly_the_modules() {
        let (_dir, imports) = crate_with(&[("b", "a")]);
        let fault = compare(&imports, &["a", "c"]).unwrap_err();
        let expected = "module `b` is missing from the layer order\n\
            the layer order lists `c`, which does not exist";
        assert_eq!(fault, expected);
    }

    #[test]
    fn each_cycle_is_named_once() {
        let edges = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "b")];
        let (_dir, imports) = crate_with(&edges);
        let fault = find_cycles(&imports).unwrap_err();
        let expected = "cycle: a -> b -> a (a.rs:1)\ncycle: b -> c -> d -> b (b.rs:2)";
        assert_eq!(fault, expected);
    }
}
