//! Runs the tests of a task on the result and on its controls, and grades them.

use std::time::Duration;

use proctor_record::{
    fs::hex,
    record::{self, Artifact, VerdictStatus},
};
use proctor_sandbox::ExecEnv;
use serde_json::{Map, json};
use sha2::{Digest, Sha256};

use super::{
    Edit, TestsSettings, Unread,
    expected::{Control, Expected},
    grade::{Grade, Graded},
    placement::{Locations, UnitTests},
    sentinel::{self, Checked, OwnFile},
    settings::{Origin, Scoring},
    trace::{self, Sources},
};
use crate::evaluate::{
    EvidenceDir, Finding, Judging,
    answer_cache::CachedAnswer,
    clean_copy::CleanCopy,
    control::{ControlTree, End},
    report_file::ReportFile,
    reports::{ReportError, TestReport, TextSummary},
};

/// The maximum size of a report.
const MAX_BYTES: u64 = 64 << 20;

/// The file with the result of each test.
const RESULTS: &str = "tests.json";

/// The time limit factor of sentinel runs: every test may run three times.
const SENTINELS_TIME: u32 = 4;

/// The results of a run of the tests.
pub(super) enum Results {
    /// A report with test names, and the origin of each test.
    Report(TestReport, Vec<trace::Origin>),
    /// A printed summary only.
    Text(TextSummary),
}

/// Why a run of the tests had no results.
pub(super) struct Nothing {
    pub(super) reason: String,
    /// Whether the output is not from a known runner, so that no results are expected.
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
pub(super) struct Attempt {
    /// The results, or the reason that there are none.
    pub(super) results: Result<Results, Nothing>,
    /// How it ended.
    pub(super) end: End,
    /// A message about how it ended.
    ended: String,
    restored: Vec<String>,
    tampered: Vec<String>,
    /// The task's test files, if sentinels are enabled.
    pub(super) own: Vec<OwnFile>,
}

impl Attempt {
    /// The report; `None` for a summary or no results.
    pub(super) fn report(&self) -> Option<&TestReport> {
        match &self.results {
            Ok(Results::Report(report, _)) => Some(report),
            Ok(Results::Text(_)) | Err(_) => None,
        }
    }
}

pub(in crate::evaluate) async fn judge(
    settings: &TestsSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let examiner = Examiner {
        settings,
        judging,
        evidence,
    };
    examiner.judge().await
}

pub(super) struct Examiner<'a> {
    pub(super) settings: &'a TestsSettings,
    pub(super) judging: &'a Judging<'a>,
    evidence: &'a EvidenceDir,
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
            return Err("the runner printed only a summary, which has no test names".to_owned());
        }
        let mut grade = Grade::of(self.settings, results, first.end.code());
        for again in 1..=self.settings.reruns {
            if grade.is_full() {
                break;
            }
            let more = self.attempt(&format!("-again-{again}"), tree).await?;
            if let Ok(results) = &more.results {
                grade.merge(Grade::of(self.settings, results, more.end.code()));
            }
        }
        let mut checked = None;
        if grade.has_passes() {
            let expected = self.expected(&first, &grade).await?;
            grade.expect(&expected, self.settings);
            // A score of 0 need not be checked.
            if self.settings.has_sentinels() && grade.graded().score > 0.0 {
                checked = Some(self.sentinels(&first).await?);
            }
        }
        let path = format!("{}/{RESULTS}", self.evidence.folder);
        record::write_json(&self.judging.artifacts.join(&path), &grade.document())
            .map_err(|error| error.to_string())?;
        Ok(with_sentinels(
            self.finding(&grade, &first),
            checked.as_ref(),
        ))
    }

    /// The expected tests: those of the reference solution, else of the untouched task, cached for
    /// all trials of the task in this run. If names are missing, a second run identifies names that
    /// change with every run.
    pub(super) async fn expected(
        &self,
        first: &Attempt,
        grade: &Grade,
    ) -> Result<Expected, String> {
        let is_own = self.settings.unread == Unread::ExitCodeOfOwnTests;
        if is_own || !self.settings.wanted.is_empty() {
            return Ok(Expected::default());
        }
        let base = self.judging.base();
        let found = match self.judging.reference_control().await {
            None => None,
            Some(tree) => {
                let reference = self.control(&tree, Some(first)).await?;
                let base = if reference.is_doubtful() {
                    Some(self.control(&base, Some(first)).await?)
                } else {
                    None
                };
                let expected = Expected::of_reference(&reference, base.as_ref());
                expected.map(|expected| (tree, expected))
            }
        };
        let (tree, expected) = match found {
            Some(found) => found,
            None if self.judging.change.tree == base.tree => return Ok(Expected::default()),
            None => {
                let expected = Expected::of_base(&self.control(&base, None).await?);
                (base, expected)
            }
        };
        if !grade.misses(&expected) {
            return Ok(expected);
        }
        let name = match tree.name {
            "-base" => "-base-again",
            _ => "-reference-again",
        };
        let again = ControlTree { name, ..tree };
        Ok(expected.stable(&self.control(&again, None).await?))
    }

    /// The test results of a tree other than the work, cached for all trials of the task in this
    /// run. `first` is reused if it ran on that tree.
    async fn control(
        &self,
        control: &ControlTree,
        first: Option<&Attempt>,
    ) -> Result<Control, String> {
        let ControlTree { name, tree, .. } = control;
        let cached = self.cached_answer(name, tree).await?;
        if let Some(kept) = cached.get(self.judging.context.kept_since) {
            return Ok(kept);
        }
        let found = match first.filter(|_| *tree == self.judging.change.tree) {
            Some(first) => Control::of(first),
            None => match self.attempt(name, tree).await {
                Ok(attempt) => Control::of(&attempt),
                Err(problem) if self.judging.cancel.is_cancelled() => return Err(problem),
                // The preparation failed, perhaps only this time, so nothing is cached.
                Err(_) => return Ok(Control::default()),
            },
        };
        cached.put(&found).map_err(|error| error.to_string())?;
        Ok(found)
    }

    /// The cache entry for a tree other than the work, shared by all trials of the task in this
    /// run.
    pub(super) async fn cached_answer(
        &self,
        name: &str,
        tree: &str,
    ) -> Result<CachedAnswer, String> {
        let context = &self.judging.context;
        let round = self.judging.evidence;
        let base = &self.judging.workspace.base_tree;
        let key = format!(
            "{} {round} {base} {tree} {name} {:?}",
            context.run_id, self.settings
        );
        let key = hex(&Sha256::digest(key.as_bytes()));
        let cached = CachedAnswer::lock(&context.cache.join("control"), &key).await;
        cached.map_err(|error| format!("cannot use the cache of test names: {error}"))
    }

    /// The finding without results. The work is the cause if its command was ended, or if the
    /// untouched task or the reference solution has results; otherwise the settings decide.
    async fn without_results(&self, nothing: &Nothing, first: &Attempt) -> Result<Finding, String> {
        let unread = self.settings.unread;
        let reason = &nothing.reason;
        let failed =
            |message: String| Ok(self.unread(VerdictStatus::Failed, Some(0.0), message, first));
        match first.end {
            end if end.was_ended() => return failed(format!("no test results: {reason}")),
            End::NotFound(_) => {
                return match self.proof(|control| control.has_run).await? {
                    Some(proof) => failed(format!("{}; it runs with {proof}", first.ended)),
                    None => Err(first.ended.clone()),
                };
            }
            End::Exited(code) if code != 0 && unread != Unread::Nothing && nothing.is_unknown => {
                return Ok(self.by_exit_code(first));
            }
            End::Exited(_) | End::Killed(_) | End::TimedOut => {}
        }
        let proof = self.proof(|control| control.has_results).await?;
        match (proof, unread) {
            (Some(proof), _) => failed(format!("no test results: {reason}; {proof} has results")),
            (None, Unread::ExitCode | Unread::ExitCodeOfOwnTests) if nothing.is_unknown => {
                Ok(self.by_exit_code(first))
            }
            (None, Unread::ExitCodeOfOwnTests) => failed(format!("no test results: {reason}")),
            (None, Unread::Nothing | Unread::ExitCode) => Err(format!("no test results: {reason}")),
        }
    }

    /// A control tree on which the same command does better than on the work.
    async fn proof(&self, is_better: fn(&Control) -> bool) -> Result<Option<&'static str>, String> {
        for tree in self.judging.controls().await {
            if is_better(&self.control(&tree, None).await?) {
                return Ok(Some(tree.what));
            }
        }
        Ok(None)
    }

    /// The verdict by exit code, for an unknown runner.
    fn by_exit_code(&self, first: &Attempt) -> Finding {
        let status = if first.end == End::Exited(0) {
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
        let mut metrics = Map::from_iter([("exit_code".to_owned(), json!(first.end.code()))]);
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
            tampered: first.tampered.clone(),
        }
    }

    pub(super) async fn attempt(&self, name: &str, tree: &str) -> Result<Attempt, String> {
        self.edited_attempt((name, tree), &[]).await
    }

    /// Runs the tests in a copy in which files of the task are edited.
    pub(super) async fn edited_attempt(
        &self,
        (name, tree): (&str, &str),
        edits: &[Edit],
    ) -> Result<Attempt, String> {
        let settings = self.settings;
        let (setup, evidence) = (&settings.setup, self.evidence);
        let mut copy =
            CleanCopy::open_edited(setup, self.judging, evidence, (name, tree), edits).await?;
        let has_sentinels = settings.has_sentinels();
        let sources = if settings.wanted.is_empty() || has_sentinels {
            Sources::of(&copy, &settings.setup, self.judging).await
        } else {
            Ok(Sources::default())
        };
        let sources =
            sources.map_err(|error| format!("cannot read the files of the copy: {error}"))?;
        let is_work = edits.is_empty() && has_sentinels && copy.is_of(&self.judging.change.tree);
        let own = if is_work {
            sentinel::own_files(&copy)
        } else {
            Vec::new()
        };
        // Copies of tests take time, too.
        let factor = if edits.is_empty() { 1 } else { SENTINELS_TIME };
        let timeout = settings.timeout.map(|limit| limit * factor);
        let mut attempt = self.run(&mut copy, &sources, timeout).await?;
        attempt.own = own;
        copy.close().await?;
        Ok(attempt)
    }

    async fn run(
        &self,
        copy: &mut CleanCopy<'_>,
        sources: &Sources,
        timeout: Option<Duration>,
    ) -> Result<Attempt, String> {
        let restored = copy.filled.restored.clone();
        if let Err(unbuilt) = copy.make_ready().await? {
            return Ok(Attempt {
                results: Err(Nothing {
                    reason: unbuilt.message.clone(),
                    is_unknown: true,
                }),
                end: unbuilt.end,
                ended: unbuilt.message,
                restored,
                tampered: Vec::new(),
                own: Vec::new(),
            });
        }
        let file = self.settings.origin.file(copy);
        let argv = self.settings.argv_in(copy);
        let line = self.settings.line();
        let logs = copy.logs.clone();
        let ran = copy.reporting_step(&argv, timeout, logs.clone()).await?;
        let end = End::of(&ran, &line)?;
        let ended = end.in_words(&line, &ran.last_line);
        let results = match end {
            End::Exited(_) | End::NotFound(_) => self.read(file.as_ref(), &logs, end),
            End::Killed(_) | End::TimedOut => Err(Nothing::known(end.in_words(&line, ""))),
        };
        let results = match results {
            Ok(Results::Report(report, _)) => {
                let mut report = report.relative_to(copy.copy_inside().as_str());
                self.refuse_displaced(copy, &mut report, timeout).await?;
                Ok(traced(report, sources))
            }
            Err(nothing) if !ran.last_line.is_empty() => Err(Nothing {
                reason: format!("{} (`{line}` said: {})", nothing.reason, ran.last_line),
                ..nothing
            }),
            other => other,
        };
        let tampered = if copy.is_of(&self.judging.change.tree) {
            copy.tampered(&argv, timeout).await?
        } else {
            Vec::new()
        };
        Ok(Attempt {
            results,
            end,
            ended,
            restored,
            tampered,
            own: Vec::new(),
        })
    }

    /// Take no result of a module that the work put in the place of one of the task's.
    async fn refuse_displaced(
        &self,
        copy: &CleanCopy<'_>,
        report: &mut TestReport,
        timeout: Option<Duration>,
    ) -> Result<(), String> {
        let Some((listing, is_sure)) = self.settings.listing() else {
            return Ok(());
        };
        let units = UnitTests::of(copy);
        if units.is_empty() || !copy.is_of(&self.judging.change.tree) {
            return Ok(());
        }
        let logs = copy.logs.join("list");
        let ran = copy.step(&listing, timeout, logs.clone()).await?;
        if !is_sure && End::of(&ran, "cargo test")? != End::Exited(0) {
            return Ok(());
        }
        let listed = bounded(&logs.join("stdout"))?;
        let locations = Locations::read(&listed, copy.copy_inside().as_str());
        units.refuse_displaced(report, &locations);
        Ok(())
    }

    /// Reads the results of a run.
    pub(super) fn read(
        &self,
        file: Option<&ReportFile>,
        logs: &camino::Utf8Path,
        end: End,
    ) -> Result<Results, Nothing> {
        let named = |report| Results::Report(report, Vec::new());
        let written = file.map_or(Ok(None), ReportFile::read);
        if let Some(bytes) = written.map_err(Nothing::known)? {
            let kept = logs.join("report");
            // Evidence; the results do not depend on it.
            let _ = fs_err::write(&kept, &bytes);
            let report = TestReport::read(&bytes);
            return report
                .map(named)
                .map_err(|error| Nothing::known(error.to_string()));
        }
        if self.settings.origin == Origin::Runner {
            return Err(Nothing::known("the runner wrote no report"));
        }
        let printed = bounded(&logs.join("stdout")).map_err(Nothing::known)?;
        match TestReport::read(&printed) {
            Ok(report) => Ok(named(report)),
            Err(error) => {
                let all = bounded(&logs.join("output.log")).map_err(Nothing::known)?;
                let has_failed = end != End::Exited(0);
                if let Some(unbuilt) = TestReport::of_failed_build(&all).filter(|_| has_failed) {
                    return Ok(named(unbuilt));
                }
                if self.settings.origin == Origin::Output {
                    return Err(error.into());
                }
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
        let score = match self.settings.scoring {
            Scoring::AllOrNothing if score < 1.0 => 0.0,
            Scoring::AllOrNothing | Scoring::Share => score,
        };
        let is_passed = score >= self.settings.threshold;
        let mut message = format!("{passed} of {total} tests passed");
        message.extend(grade.remarks().iter().map(|remark| format!("; {remark}")));
        let mut metrics = grade.metrics();
        metrics.insert("exit_code".to_owned(), json!(first.end.code()));
        if matches!(self.judging.exec_env, ExecEnv::Local) {
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
                    path: format!("{}/{RESULTS}", self.evidence.folder),
                    description: "the result of each test".to_owned(),
                },
                self.log(),
            ],
            restored: first.restored.clone(),
            tampered: first.tampered.clone(),
        }
    }

    fn log(&self) -> Artifact {
        Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", self.evidence.folder),
            description: "the output of the tests".to_owned(),
        }
    }
}

/// Adds the result of sentinels to a finding.
fn with_sentinels(mut finding: Finding, checked: Option<&Checked>) -> Finding {
    if let Some(checked) = checked {
        checked.note(&mut finding.metrics);
        finding.tampered.extend_from_slice(checked.forged());
    }
    finding
}

/// A report with the origins of its tests.
fn traced(mut report: TestReport, sources: &Sources) -> Results {
    for test in &mut report.tests {
        sources.complete(test);
    }
    let origins = report.tests.iter();
    let origins = origins
        .map(|test| sources.origin(report.source, test))
        .collect();
    Results::Report(report, origins)
}

/// Reads one of Proctor's own logs, up to the size limit.
pub(in crate::evaluate) fn bounded(path: &camino::Utf8Path) -> Result<Vec<u8>, String> {
    let about = path
        .symlink_metadata()
        .map_err(|error| format!("cannot read the report: {error}"))?;
    if !about.is_file() {
        return Err("the report is not a regular file".to_owned());
    }
    if about.len() > MAX_BYTES {
        return Err("the report is larger than 64 MiB".to_owned());
    }
    fs_err::read(path).map_err(|error| error.to_string())
}
