//! Real output of real runners on a small project; stack frames are removed and the project's
//! folder is `/project`. The samples of Go and SARIF are written by hand.

pub(super) const CARGO_TEST: &str = include_str!("samples/cargo-test.txt");
pub(super) const CLIPPY: &str = include_str!("samples/clippy.jsonl");
pub(super) const COBERTURA: &str = include_str!("samples/cobertura.xml");
pub(super) const CTRF: &str = include_str!("samples/ctrf.json");
pub(super) const ESLINT: &str = include_str!("samples/eslint.json");
pub(super) const GO: &str = include_str!("samples/go.jsonl");
pub(super) const GO_VERBOSE: &str = include_str!("samples/go-verbose.txt");
pub(super) const ISTANBUL: &str = include_str!("samples/coverage-summary.json");
pub(super) const JEST: &str = include_str!("samples/jest.json");
pub(super) const JEST_JUNIT: &str = include_str!("samples/jest-junit.xml");
pub(super) const JEST_TEXT: &str = include_str!("samples/jest.txt");
pub(super) const LCOV: &str = include_str!("samples/lcov.info");
pub(super) const LIBTEST: &str = include_str!("samples/libtest.jsonl");
pub(super) const MOCHA_TEXT: &str = include_str!("samples/mocha.txt");
pub(super) const MOCHA_XUNIT: &str = include_str!("samples/mocha-xunit.xml");
pub(super) const NEXTEST: &str = include_str!("samples/nextest.jsonl");
pub(super) const NEXTEST_JUNIT: &str = include_str!("samples/nextest.xml");
pub(super) const NEXTEST_TEXT: &str = include_str!("samples/nextest.txt");
pub(super) const NODE_JUNIT: &str = include_str!("samples/node-junit.xml");
pub(super) const NODE_SPEC: &str = include_str!("samples/node-spec.txt");
pub(super) const NODE_TAP: &str = include_str!("samples/node.tap");
pub(super) const PERL_TAP: &str = include_str!("samples/perl.tap");
pub(super) const PYTEST_JUNIT: &str = include_str!("samples/pytest.xml");
pub(super) const PYTEST_QUIET: &str = include_str!("samples/pytest-quiet.txt");
pub(super) const PYTEST_TEXT: &str = include_str!("samples/pytest.txt");
pub(super) const SARIF: &str = include_str!("samples/sarif.json");
pub(super) const SUREFIRE: &str = include_str!("samples/surefire.xml");
pub(super) const UNITTEST: &str = include_str!("samples/unittest.txt");
pub(super) const VITEST: &str = include_str!("samples/vitest.json");
pub(super) const VITEST_JUNIT: &str = include_str!("samples/vitest-junit.xml");
pub(super) const VITEST_TEXT: &str = include_str!("samples/vitest.txt");
