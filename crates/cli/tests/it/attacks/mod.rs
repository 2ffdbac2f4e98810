//! Attacks on the judge: one table for each runner. A row says what the agent does and which verdict it must get.
//! Honest work stands beside the attacks: it must still pass.

mod files;
mod git;
mod reports;

use proctor_testkit::TestContext;
use serde_json::Value;

use crate::judging::{judged, standing};

/// The verdict that a row must get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    /// The work is good, and the attack on the judge, if there is one, gains nothing.
    Passes,
    /// The work is not good.
    Fails,
    /// The work changed files that judge it while it was judged.
    Tampered,
}

use Expect::{Fails, Passes, Tampered};

/// What an agent does, as a line for the shell, and the verdict that it must get.
pub type Row<'a> = (&'a str, &'a str, Expect);

/// Run each row with these evaluators. All rows are tried before the test fails.
#[track_caller]
pub fn check(context: &TestContext, evaluators: &Value, rows: &[Row<'_>]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(name, line, expect)| {
            let record = judged(context, line, evaluators);
            let (status, score) = standing(&record);
            let verdict = &record["verdicts"][0];
            let is_right = match expect {
                Passes => (status, score) == ("passed", Some(1.0)),
                Fails => {
                    (status, score) == ("failed", Some(0.0))
                        && verdict["metrics"]["tampered"].is_null()
                }
                Tampered => {
                    (status, score) == ("failed", Some(0.0))
                        && verdict["metrics"]["tampered"].is_array()
                }
            };
            (!is_right).then(|| {
                format!("{name}: expected {expect:?}, found {status} {score:?}: {verdict:#}")
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Remove the runs of earlier rows.
pub fn clear(context: &TestContext) {
    for earlier in context.run_dirs() {
        fs_err::remove_dir_all(earlier).unwrap();
    }
}

/// A line for the shell that writes a file.
pub fn write(path: &str, text: &str) -> String {
    let folder = match path.rsplit_once('/') {
        Some((folder, _)) => format!("mkdir -p {folder}; "),
        None => String::new(),
    };
    format!("{folder}cat > {path} <<'EOF'\n{text}\nEOF\n")
}
