//! `tests`: run the task's tests in a clean copy and read what the runner reports, test by test. No
//! report is no result: whether that is the agent's doing is found out on the untouched task.

mod grade;
mod settings;

use camino::Utf8PathBuf;
use proctor_process::EndReason;
use serde_json::{Map, json};

pub(super) use self::settings::Settings;
use self::{
    grade::{Grade, Graded},
    settings::Origin,
};
use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    bench::Bench,
    reports::{TestReport, TextSummary},
};
use crate::{sandbox::Room, store, task::Reference};

/// A report larger than this is none.
const MAX_BYTES: u64 = 64 << 20;
/// The results of a judgement, test by test.
const RESULTS: &str = "tests.json";

/// What a run of the tests gave.
pub(super) enum Results {
    /// A report with names.
    Report(TestReport),
    /// Only the text that a runner prints at its end.
    Text(TextSummary),
}

/// One run of the tests.
struct Attempt {
    /// What it gave, or why nothing.
    results: Result<Results, String>,
    /// The exit code; none when time ran out or a signal ended it.
    code: Option<i32>,
    restored: Vec<String>,
}

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let examiner = Examiner {
        settings,
        judging,
        place,
    };
    examiner.judge().await
}

struct Examiner<'a> {
    settings: &'a Settings,
    judging: &'a Judging<'a>,
    place: &'a Place,
}

impl Examiner<'_> {
    async fn judge(&self) -> Result<Finding, String> {
        let tree = self.judging.change.tree.as_str();
        let first = self.attempt("", tree).await?;
        let results = match &first.results {
            Ok(results) => results,
            Err(reason) => return self.without_results(reason, &first).await,
        };
        if matches!(results, Results::Text(_)) && !self.settings.wanted.is_empty() {
            return Err("only a summary was printed, and that has no names of tests".to_owned());
        }
        let mut grade = Grade::of(self.settings, results, first.code);
        for again in 1..=self.settings.reruns {
            if grade.is_full() {
                break;
            }
            let more = self.attempt(&format!("-again-{again}"), tree).await?;
            if let Ok(results) = &more.results {
                grade.merge(Grade::of(self.settings, results, more.code));
            }
        }
        let path = format!("{}/{RESULTS}", self.place.folder);
        store::write_json(&self.judging.artifacts.join(&path), &grade.document())
            .map_err(|error| error.to_string())?;
        Ok(self.finding(&grade, &first))
    }

    /// No results are the agent's doing when the task gives some as it is, or with its reference
    /// solution; else nothing is known.
    async fn without_results(&self, reason: &str, first: &Attempt) -> Result<Finding, String> {
        let workspace = self.judging.workspace;
        let base = self.attempt("-base", &workspace.base_tree).await?;
        let mut proof = base.results.is_ok().then_some("the untouched task");
        if proof.is_none()
            && let Some(Reference::Branch(_) | Reference::Patch(_)) = self.judging.reference
            && let Some(reference) = self.judging.reference
            && let Ok(tree) = workspace.reference_tree(reference).await
        {
            let solved = self.attempt("-reference", &tree).await?;
            proof = solved.results.is_ok().then_some("the reference solution");
        }
        let Some(proof) = proof else {
            return Err(format!("no test results: {reason}"));
        };
        let message = format!("no test results: {reason}; with {proof} there are");
        Ok(Finding {
            status: VerdictStatus::Failed,
            score: Some(0.0),
            message,
            metrics: Map::from_iter([("exit_code".to_owned(), json!(first.code))]),
            assertions: None,
            artifacts: vec![self.log()],
            restored: first.restored.clone(),
        })
    }

    async fn attempt(&self, name: &str, tree: &str) -> Result<Attempt, String> {
        let settings = self.settings;
        let bench = Bench::open(&settings.setup, self.judging, self.place, (name, tree)).await?;
        let attempt = self.run(&bench).await?;
        bench.close().await?;
        Ok(attempt)
    }

    async fn run(&self, bench: &Bench<'_>) -> Result<Attempt, String> {
        let restored = bench.restored.clone();
        if let Err(unbuilt) = bench.make_ready().await? {
            return Ok(Attempt {
                results: Err(unbuilt.message),
                code: Some(unbuilt.code),
                restored,
            });
        }
        // A report that came with the work is not one of this run.
        let file = self.settings.origin.file(bench);
        if let Some(file) = &file {
            crate::tree::remove(file)
                .or_else(|_| fs_err::remove_file(file))
                .ok();
        }
        let argv = self.settings.argv(&bench.report_inside());
        let line = self.settings.argv("$PROCTOR_REPORT").join(" ");
        let logs = bench.logs.clone();
        let ran = bench
            .step(&argv, self.settings.timeout, logs.clone())
            .await?;
        if ran.exit.ended_by == Some(EndReason::Cancelled) {
            return Err(format!("`{line}` was interrupted"));
        }
        let (code, problem) = match ran.code(&line) {
            Ok(code @ (126 | 127)) => {
                return Err(format!("`{line}` could not be run (exit code {code})"));
            }
            Ok(code) => (Some(code), None),
            Err(problem) => (None, Some(problem)),
        };
        let results = match problem {
            Some(problem) => Err(problem),
            None => self.read(file, &logs).map(|results| match results {
                Results::Report(report) => {
                    Results::Report(report.relative_to(bench.copy_inside().as_str()))
                }
                text @ Results::Text(_) => text,
            }),
        };
        let results = results.map_err(|reason| match ran.last_line.as_str() {
            "" => reason,
            last => format!("{reason} (`{line}` said: {last})"),
        });
        Ok(Attempt {
            results,
            code,
            restored,
        })
    }

    /// Read what a run left.
    fn read(&self, file: Option<Utf8PathBuf>, logs: &camino::Utf8Path) -> Result<Results, String> {
        let written = file.filter(|file| file.symlink_metadata().is_ok());
        if let Some(file) = &written {
            let kept = logs.join("report");
            let bytes = bounded(file)?;
            // Evidence; the results do not depend on it.
            let _ = fs_err::write(&kept, &bytes);
            return TestReport::read(&bytes)
                .map(Results::Report)
                .map_err(|error| error.to_string());
        }
        if self.settings.origin == Origin::Runner {
            return Err("the runner left no report".to_owned());
        }
        let printed = bounded(&logs.join("stdout"))?;
        match TestReport::read(&printed) {
            Ok(report) => Ok(Results::Report(report)),
            Err(error) if self.settings.origin == Origin::Output => Err(error.to_string()),
            Err(error) => match TextSummary::read(&bounded(&logs.join("output.log"))?) {
                Ok(summary) => Ok(Results::Text(summary)),
                Err(_) => Err(error.to_string()),
            },
        }
    }

    fn finding(&self, grade: &Grade, first: &Attempt) -> Finding {
        let Graded {
            score,
            passed,
            total,
        } = grade.graded();
        let is_passed = score >= self.settings.threshold;
        let mut message = format!("{passed} of {total} tests passed");
        message.extend(grade.remarks().iter().map(|remark| format!("; {remark}")));
        let mut metrics = grade.metrics();
        metrics.insert("exit_code".to_owned(), json!(first.code));
        if matches!(self.judging.room, Room::Local) {
            let lost = "none: as you, with the network";
            metrics.insert("isolation".to_owned(), json!(lost));
        }
        Finding {
            status: if is_passed {
                VerdictStatus::Passed
            } else {
                VerdictStatus::Failed
            },
            score: Some(score),
            message,
            metrics,
            assertions: None,
            artifacts: vec![
                Artifact {
                    kind: "report".to_owned(),
                    path: format!("{}/{RESULTS}", self.place.folder),
                    description: "what became of each test".to_owned(),
                },
                self.log(),
            ],
            restored: first.restored.clone(),
        }
    }

    fn log(&self) -> Artifact {
        Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", self.place.folder),
            description: "what the tests printed".to_owned(),
        }
    }
}

/// The bytes of a regular file of a sensible size: the work may have put anything there.
pub(super) fn bounded(path: &camino::Utf8Path) -> Result<Vec<u8>, String> {
    let about = path
        .symlink_metadata()
        .map_err(|error| format!("the report cannot be read: {error}"))?;
    if !about.is_file() {
        return Err("the report is not a regular file".to_owned());
    }
    if about.len() > MAX_BYTES {
        return Err("the report is larger than 64 MiB".to_owned());
    }
    fs_err::read(path).map_err(|error| error.to_string())
}
