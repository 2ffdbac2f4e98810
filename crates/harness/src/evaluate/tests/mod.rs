//! `tests`: run the task's tests in a clean copy and read what the runner reports, test by test. No
//! report is no result: whether that is the agent's doing is found out on the untouched task.

mod grade;
mod roll;
mod settings;

use camino::Utf8PathBuf;
use proctor_process::EndReason;
use serde_json::{Map, json};

pub(super) use self::settings::{Settings, Unread};
use self::{
    grade::{Grade, Graded},
    settings::Origin,
};
use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    bench::Bench,
    reports::{ReportError, TestReport, TextSummary},
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

/// Why a run of the tests gave no results.
struct Nothing {
    reason: String,
    /// Whether what was printed looks like no runner at all, so that there were none to expect.
    is_unknown: bool,
}

impl Nothing {
    fn known(reason: impl Into<String>) -> Nothing {
        Nothing {
            reason: reason.into(),
            is_unknown: false,
        }
    }
}

impl From<ReportError> for Nothing {
    fn from(error: ReportError) -> Nothing {
        Nothing {
            reason: error.to_string(),
            is_unknown: matches!(error, ReportError::Unknown { .. }),
        }
    }
}

/// One run of the tests.
struct Attempt {
    /// What it gave, or why nothing.
    results: Result<Results, Nothing>,
    /// The exit code; none when time ran out or a signal ended it.
    code: Option<i32>,
    /// How it ended, in one line.
    ended: String,
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
            Err(nothing) => return self.without_results(nothing, &first).await,
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
        if grade.graded().score > 0.0 {
            grade.call(&self.roll().await?, self.settings);
        }
        let path = format!("{}/{RESULTS}", self.place.folder);
        store::write_json(&self.judging.artifacts.join(&path), &grade.document())
            .map_err(|error| error.to_string())?;
        Ok(self.finding(&grade, &first))
    }

    /// No results are the agent's doing when the task gives some as it is, or with its reference
    /// solution; else there is what the settings leave to judge by.
    async fn without_results(&self, nothing: &Nothing, first: &Attempt) -> Result<Finding, String> {
        let unread = self.settings.unread;
        let has_failed = first.code.is_some_and(|code| code != 0);
        if unread != Unread::Nothing && nothing.is_unknown && has_failed {
            return Ok(self.by_exit_code(first));
        }
        let proof = self.proof().await?;
        let reason = &nothing.reason;
        match (proof, unread) {
            (Some(proof), _) => {
                let message = format!("no test results: {reason}; with {proof} there are");
                Ok(self.unread(VerdictStatus::Failed, Some(0.0), message, first))
            }
            (None, Unread::ExitCode | Unread::ExitCodeOfOwnTests)
                if nothing.is_unknown && first.code.is_some() =>
            {
                Ok(self.by_exit_code(first))
            }
            (None, Unread::ExitCodeOfOwnTests) => {
                let message = format!("no test results: {reason}");
                Ok(self.unread(VerdictStatus::Failed, Some(0.0), message, first))
            }
            (None, Unread::Nothing | Unread::ExitCode) => Err(format!("no test results: {reason}")),
        }
    }

    /// What gives results, other than the work: then their absence is the work's doing.
    async fn proof(&self) -> Result<Option<&'static str>, String> {
        let workspace = self.judging.workspace;
        let base = workspace.base_tree.as_str();
        if self.judging.change.tree != base && self.gives_results("-base", base).await? {
            return Ok(Some("the untouched task"));
        }
        if let Some(Reference::Branch(_) | Reference::Patch(_)) = self.judging.reference
            && let Some(reference) = self.judging.reference
            && let Ok(tree) = workspace.reference_tree(reference).await
            && self.gives_results("-reference", &tree).await?
        {
            return Ok(Some("the reference solution"));
        }
        Ok(None)
    }

    async fn gives_results(&self, name: &str, tree: &str) -> Result<bool, String> {
        let attempt = self.attempt_elsewhere(name, tree).await?;
        Ok(attempt.is_some_and(|it| it.results.is_ok()))
    }

    /// The tests on something else than the work; `None` for what cannot even be made ready.
    async fn attempt_elsewhere(&self, name: &str, tree: &str) -> Result<Option<Attempt>, String> {
        match self.attempt(name, tree).await {
            Err(problem) if self.judging.cancel.is_cancelled() => Err(problem),
            attempt => Ok(attempt.ok()),
        }
    }

    /// The verdict of a command that is no runner that is known.
    fn by_exit_code(&self, first: &Attempt) -> Finding {
        let status = if first.code == Some(0) {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        };
        self.unread(status, None, first.ended.clone(), first)
    }

    fn unread(
        &self,
        status: VerdictStatus,
        score: Option<f64>,
        message: String,
        first: &Attempt,
    ) -> Finding {
        let mut metrics = Map::from_iter([("exit_code".to_owned(), json!(first.code))]);
        if score.is_none() {
            metrics.insert("source".to_owned(), json!("exit_code"));
        }
        Finding {
            status,
            score,
            message,
            metrics,
            assertions: None,
            artifacts: vec![self.log()],
            restored: first.restored.clone(),
        }
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
                results: Err(Nothing {
                    reason: unbuilt.message.clone(),
                    is_unknown: true,
                }),
                code: Some(unbuilt.code),
                ended: unbuilt.message,
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
        let line = self.settings.line();
        let logs = bench.logs.clone();
        let ran = bench
            .step(&argv, self.settings.timeout, logs.clone())
            .await?;
        if ran.exit.ended_by == Some(EndReason::Cancelled) {
            return Err(format!("`{line}` was interrupted"));
        }
        if let Some(problem) = ran.not_run(&line) {
            return Err(problem);
        }
        let (code, results) = match ran.code(&line) {
            Ok(code) => (Some(code), self.read(file, &logs)),
            Err(problem) => (None, Err(Nothing::known(problem))),
        };
        let ended = match (code, ran.last_line.as_str()) {
            (None, _) => format!("`{line}` did not end by itself"),
            (Some(0), _) => format!("`{line}` passed"),
            (Some(code), "") => format!("`{line}` exited with code {code}"),
            (Some(code), last) => format!("`{line}` exited with code {code}: {last}"),
        };
        let results = match results {
            Ok(Results::Report(report)) => Ok(Results::Report(
                report.relative_to(bench.copy_inside().as_str()),
            )),
            Err(nothing) if !ran.last_line.is_empty() => Err(Nothing {
                reason: format!("{} (`{line}` said: {})", nothing.reason, ran.last_line),
                ..nothing
            }),
            other => other,
        };
        Ok(Attempt {
            results,
            code,
            ended,
            restored,
        })
    }

    /// Read what a run left.
    fn read(&self, file: Option<Utf8PathBuf>, logs: &camino::Utf8Path) -> Result<Results, Nothing> {
        let written = file.filter(|file| file.symlink_metadata().is_ok());
        if let Some(file) = &written {
            let kept = logs.join("report");
            let bytes = bounded(file).map_err(Nothing::known)?;
            // Evidence; the results do not depend on it.
            let _ = fs_err::write(&kept, &bytes);
            let report = TestReport::read(&bytes);
            return report
                .map(Results::Report)
                .map_err(|error| Nothing::known(error.to_string()));
        }
        if self.settings.origin == Origin::Runner {
            return Err(Nothing::known("the runner left no report"));
        }
        let printed = bounded(&logs.join("stdout")).map_err(Nothing::known)?;
        match TestReport::read(&printed) {
            Ok(report) => Ok(Results::Report(report)),
            Err(error) if self.settings.origin == Origin::Output => Err(error.into()),
            Err(error) => {
                let all = bounded(&logs.join("output.log")).map_err(Nothing::known)?;
                match TextSummary::read(&all) {
                    Ok(summary) => Ok(Results::Text(summary)),
                    Err(ReportError::Unknown { .. }) => Err(error.into()),
                    Err(empty) => Err(empty.into()),
                }
            }
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
