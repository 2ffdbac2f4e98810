//! Report readers must accept any bytes without a panic.

use proptest::prelude::*;

use super::{Coverage, Findings, TestReport, TextSummary, samples};

const SAMPLES: [&str; 31] = [
    samples::CARGO_TEST,
    samples::CLIPPY,
    samples::COBERTURA,
    samples::CTRF,
    samples::ESLINT,
    samples::GO,
    samples::GO_VERBOSE,
    samples::ISTANBUL,
    samples::JEST,
    samples::JEST_JUNIT,
    samples::JEST_TEXT,
    samples::LCOV,
    samples::LIBTEST,
    samples::MOCHA_TEXT,
    samples::MOCHA_XUNIT,
    samples::NEXTEST,
    samples::NEXTEST_JUNIT,
    samples::NEXTEST_TEXT,
    samples::NODE_JUNIT,
    samples::NODE_SPEC,
    samples::NODE_TAP,
    samples::PERL_TAP,
    samples::PYTEST_JUNIT,
    samples::PYTEST_QUIET,
    samples::PYTEST_TEXT,
    samples::SARIF,
    samples::SUREFIRE,
    samples::UNITTEST,
    samples::VITEST,
    samples::VITEST_JUNIT,
    samples::VITEST_TEXT,
];

/// Passes bytes to every reader and checks the results.
fn read(bytes: &[u8]) {
    if let Ok(report) = TestReport::read(bytes) {
        assert!(report.counts().total() > 0);
        assert_eq!(report.counts().total(), report.tests.len() as u64);
        let first = report.tests[0].full_name();
        assert!(report.status_of(&first).is_some());
    }
    if let Ok(summary) = TextSummary::read(bytes) {
        assert!(summary.counts.total() > 0);
    }
    if let Ok(findings) = Findings::read(bytes) {
        assert!(findings.new_since(&findings).is_empty());
    }
    if let Ok(coverage) = Coverage::read(bytes) {
        assert!((0.0..=1.0).contains(&coverage.lines.ratio().unwrap()));
    }
}

/// A sample with some bytes replaced, removed, or repeated.
fn mutated(sample: &str, changes: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut bytes = sample.as_bytes().to_vec();
    for (place, kind, byte) in changes {
        let place = place % bytes.len().max(1);
        let end = (place + usize::from(*byte)).min(bytes.len());
        match kind % 4 {
            0 if !bytes.is_empty() => bytes[place] = *byte,
            1 => drop(bytes.drain(place..end)),
            2 => bytes.extend_from_within(place..end),
            _ => bytes.insert(place.min(bytes.len()), b"9<{\"-\n 0"[usize::from(byte % 8)]),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }

    #[test]
    fn damaged_reports_are_survived(
        sample in prop::sample::select(&SAMPLES[..]),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..8),
    ) {
        read(&mutated(sample, &changes));
    }
}

#[test]
fn complete_reports_are_read_by_at_least_one_reader() {
    for sample in SAMPLES {
        read(sample.as_bytes());
        let bytes = sample.as_bytes();
        let is_read = TestReport::read(bytes).is_ok()
            || TextSummary::read(bytes).is_ok()
            || Findings::read(bytes).is_ok()
            || Coverage::read(bytes).is_ok();
        assert!(is_read, "{sample}");
    }
}

#[test]
fn truncated_reports_do_not_panic() {
    for sample in SAMPLES {
        for end in (0..sample.len()).step_by(97) {
            read(&sample.as_bytes()[..end]);
        }
    }
}
