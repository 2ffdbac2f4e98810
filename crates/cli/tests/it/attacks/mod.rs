//! Attacks on the judge, on this machine. The tables of runners that the test image has are shared with the tests of
//! containers.

mod files;
mod gateway;
mod git;
mod honest;
mod reports;
mod sentinels;

use camino::Utf8Path;
use proctor_testkit::{TestContext, program, test_runner};
use serde_json::Value;

use crate::{
    support::context,
    table::{self, Row, Sandbox, Table, compiled, javascript, make, node, python, shell},
};

#[track_caller]
pub(crate) fn check(context: &TestContext, evaluators: &Value, rows: &[Row]) {
    table::check(context, &Sandbox::default(), evaluators, rows);
}

/// Remove the runs of earlier rows.
pub(crate) fn clear(context: &TestContext) {
    for earlier in context.run_dirs() {
        fs_err::remove_dir_all(earlier).unwrap();
    }
}

/// The folder of cargo and rustc.
fn rust_programs() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO")).parent().unwrap()
}

/// The table of each runner; `None` where the runner is missing.
mod tables {
    use super::*;

    pub fn pytest() -> Option<Table> {
        Some(python::pytest(Some(&test_runner("python")?)))
    }

    pub fn pytest_with_own_report() -> Option<Table> {
        Some(python::pytest_with_own_report(Some(&test_runner(
            "python",
        )?)))
    }

    pub fn node(reads_output: bool) -> Option<Table> {
        program("node")?;
        Some(node::node(reads_output))
    }

    pub fn jest() -> Option<Table> {
        Some(javascript::jest(&test_runner("node")?))
    }

    pub fn vitest() -> Option<Table> {
        Some(javascript::vitest(&test_runner("vitest")?))
    }

    pub fn cargo() -> Table {
        let path = format!("{}:/usr/bin:/bin", rust_programs());
        compiled::rust("cargo", &path)
    }

    pub fn cargo_units() -> Table {
        let path = format!("{}:/usr/bin:/bin", rust_programs());
        compiled::rust_units("cargo", &path)
    }

    pub fn nextest() -> Option<Table> {
        Some(compiled::rust("nextest", &nextest_path()?))
    }

    pub fn nextest_units() -> Option<Table> {
        Some(compiled::rust_units("nextest", &nextest_path()?))
    }

    fn nextest_path() -> Option<String> {
        let nextest = program("cargo-nextest")?;
        let (cargo, nextest) = (rust_programs(), nextest.parent()?);
        Some(format!("{cargo}:{nextest}:/usr/bin:/bin"))
    }

    /// One cache for all trials, which is removed with this context.
    pub fn go(shared: &TestContext) -> Option<Table> {
        let path = format!("{}:/usr/bin:/bin", program("go")?.parent()?);
        let cache = shared.root().join("go-cache");
        Some(compiled::go(&path, cache.as_str()))
    }
}

fn attack(table: Option<Table>) {
    if let Some(table) = table {
        table.check(&context(), &Sandbox::default());
    }
}

fn check_honest(table: Option<Table>) {
    if let Some(table) = table {
        honest::check(&table);
    }
}

/// `docs/dev/attacks.md` has every row of the tables.
#[test]
fn the_list_of_attacks_is_complete() {
    let page = include_str!("../../../../../docs/dev/attacks.md");
    let tables = [
        shell::script(),
        make::make(),
        table::git::attributes(),
        python::pytest(None),
        python::pytest_with_own_report(None),
        node::node(false),
        javascript::jest(""),
        javascript::vitest(""),
        compiled::rust("cargo", ""),
        compiled::rust_units("cargo", ""),
        compiled::go("", ""),
    ];
    let rows = tables.iter().flat_map(|table| &table.rows);
    let is_missing = |name: &&str| !page.contains(&format!("\n| {name} |"));
    let names = rows.map(|row| row.name).chain(gateway::names());
    let missing: Vec<&str> = names.filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn scripts() {
    attack(Some(shell::script()));
}

#[test]
fn make() {
    attack(Some(make::make()));
}

#[test]
fn attributes_of_git() {
    attack(Some(table::git::attributes()));
}

#[test]
fn pytest() {
    attack(tables::pytest());
}

#[test]
fn pytest_with_own_report() {
    attack(tables::pytest_with_own_report());
}

#[test]
fn node_test() {
    attack(tables::node(false));
}

#[test]
fn node_test_with_tap() {
    attack(tables::node(true));
}

#[test]
fn jest() {
    attack(tables::jest());
}

#[test]
fn vitest() {
    attack(tables::vitest());
}

#[test]
fn cargo() {
    attack(Some(tables::cargo()));
}

#[test]
fn nextest() {
    attack(tables::nextest());
}

#[test]
fn cargo_unit_tests() {
    attack(Some(tables::cargo_units()));
}

#[test]
fn nextest_unit_tests() {
    attack(tables::nextest_units());
}

#[test]
fn go() {
    attack(tables::go(&context()));
}

#[test]
fn honest_shell_and_make() {
    check_honest(Some(shell::script()));
    check_honest(Some(make::make()));
}

#[test]
fn honest_pytest() {
    check_honest(tables::pytest());
}

#[test]
fn honest_node() {
    check_honest(tables::node(false));
}

#[test]
fn honest_tap() {
    check_honest(tables::node(true));
}

#[test]
fn honest_jest() {
    check_honest(tables::jest());
}

#[test]
fn honest_vitest() {
    check_honest(tables::vitest());
}

#[test]
fn honest_cargo() {
    check_honest(Some(tables::cargo()));
}

#[test]
fn honest_nextest() {
    check_honest(tables::nextest());
}

#[test]
fn honest_unit_tests_of_rust() {
    check_honest(Some(tables::cargo_units()));
}

#[test]
fn honest_go() {
    check_honest(tables::go(&context()));
}
