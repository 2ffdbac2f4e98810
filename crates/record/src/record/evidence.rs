//! The evidence of a verdict on disk: the tests that failed, and the output of the command.

use std::io::{Read, Seek, SeekFrom};

use camino::Utf8Path;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::Verdict;

/// The evidence of a verdict that did not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerdictEvidence {
    /// The tests that did not pass.
    pub failed_tests: Vec<FailedTest>,
    /// The end of the command's output; empty without a command.
    pub output: String,
    /// The number of bytes before it that are left out.
    pub left_out: u64,
}

/// A test that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedTest {
    /// The name.
    pub name: String,
    /// Why it did not pass; absent if the report does not have it.
    pub message: Option<String>,
}

/// The file of a `tests` evaluator with the result of each test.
#[derive(Deserialize)]
struct TestsFile {
    tests: Vec<TestEntry>,
}

#[derive(Deserialize)]
struct TestEntry {
    name: String,
    #[serde(default)]
    counts: bool,
    status: Option<String>,
    message: Option<String>,
}

impl VerdictEvidence {
    /// Reads the evidence below the directory of artifacts, with at most this many bytes of output.
    pub fn read(verdict: &Verdict, artifacts: &Utf8Path, most: u64) -> VerdictEvidence {
        let mut evidence = VerdictEvidence::default();
        for artifact in &verdict.artifacts {
            let path = artifacts.join(&artifact.path);
            match artifact.kind.as_str() {
                "log" => {
                    if let Ok((output, left_out)) = end_of(&path, most) {
                        evidence.output = output;
                        evidence.left_out = left_out;
                    }
                }
                "report" => evidence.failed_tests.extend(failed_tests(&path)),
                _ => {}
            }
        }
        evidence
    }
}

/// The tests of a results file that count and did not pass. A missing test has no status.
fn failed_tests(path: &Utf8Path) -> Vec<FailedTest> {
    let file = fs::read(path).ok();
    let file = file.and_then(|bytes| serde_json::from_slice::<TestsFile>(&bytes).ok());
    let tests = file.into_iter().flat_map(|file| file.tests);
    let failed = tests.filter(|test| test.counts && test.status.as_deref() != Some("passed"));
    let failed = failed.map(|test| FailedTest {
        message: test.message.or_else(|| match test.status {
            None => Some("the test is missing".to_owned()),
            Some(_) => None,
        }),
        name: test.name,
    });
    failed.collect()
}

/// The end of a file as text, from the start of a line, and the number of bytes before it.
fn end_of(path: &Utf8Path, most: u64) -> std::io::Result<(String, u64)> {
    let mut file = fs::File::open(path)?;
    let mut start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    if start > 0 {
        let line = bytes.iter().position(|byte| *byte == b'\n');
        let cut = line.map_or(0, |place| place + 1);
        bytes.drain(..cut);
        start += cut as u64;
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evidence_has_failed_tests_and_the_end_of_the_output() {
        let dir = tempfile::tempdir().unwrap();
        let artifacts = Utf8Path::from_path(dir.path()).unwrap();
        let tests = json!({"tests": [
            {"name": "a", "counts": true, "status": "passed"},
            {"name": "b", "counts": true, "status": "failed", "message": "1 != 2"},
            {"name": "c", "counts": true, "status": null},
            {"name": "d", "counts": false, "status": "failed"},
        ]});
        fs::write(artifacts.join("tests.json"), tests.to_string()).unwrap();
        fs::write(artifacts.join("output.log"), "first\nsecond\nthird\n").unwrap();
        let artifact = |kind, path| json!({"type": kind, "path": path, "description": ""});
        let verdict = json!({
            "evaluator": "tests", "status": "failed", "metrics": {}, "message": "", "duration_ms": 1,
            "timestamp": "", "artifacts": [artifact("report", "tests.json"), artifact("log", "output.log")],
        });
        let verdict: Verdict = serde_json::from_value(verdict).unwrap();
        let evidence = VerdictEvidence::read(&verdict, artifacts, 8);
        let names: Vec<&str> = evidence.failed_tests.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(evidence.failed_tests[0].message.as_deref(), Some("1 != 2"));
        assert_eq!(
            (evidence.output.as_str(), evidence.left_out),
            ("third\n", 13)
        );
    }

    #[test]
    fn missing_files_give_empty_evidence() {
        let verdict = json!({
            "evaluator": "tests", "status": "failed", "metrics": {}, "message": "", "duration_ms": 1,
            "timestamp": "", "artifacts": [{"type": "log", "path": "none", "description": ""}],
        });
        let verdict: Verdict = serde_json::from_value(verdict).unwrap();
        let evidence = VerdictEvidence::read(&verdict, Utf8Path::new("/nonexistent"), 8);
        assert_eq!(evidence, VerdictEvidence::default());
    }
}
