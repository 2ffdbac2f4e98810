//! One trial from start to end: prepare, run the agent, judge, record.

use std::{collections::BTreeMap, io, time::Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use jiff::Timestamp;
use proctor_agents::agent::Adapter;
use proctor_record::{
    VERSION,
    fs::dir,
    outcome::Outcome,
    record::{self, Event, GatewayRecord, Phase, Record, Results, StoreError, score::Score},
    session::{Conclusion, LogError},
    transcript::{Account, AgentContext, LogWriter, Times, UNKNOWN},
    usage::Usage,
};
use tempfile::NamedTempFile;

use super::{
    AgentEnd, AgentRun, Contestant, Context, Judged, SessionLog, Site, TrialError, chain,
    evidence::{self, Evidence},
    first_record,
    prepare::{NotPrepared, NotRun},
    status,
    steps::NextStep,
    treatment::TrialTreatment,
};
use crate::{config::Reference, plan::TrialPlan, task::Steps};

/// The prefix of directories that exist in a trial's directory only while it runs.
pub(crate) const PRIVATE: &str = ".trial";

/// Runs one trial. There is a record for every outcome of the agent; only invalid input is an
/// error.
pub async fn run(plan: &TrialPlan, context: &Context<'_>) -> Result<Record, TrialError> {
    let plans = plan.steps();
    let steps = plan.task.steps.as_deref();
    let mut trial = Trial::begin((&plans[0], steps), context).map_err(TrialError::Folder)?;
    let mut run = match trial.prepare().await {
        Ok(prepared) => trial.iterate(prepared).await,
        Err(NotPrepared { reason, stage }) => match reason {
            NotRun::Usage(error) => return Err(error),
            NotRun::Infrastructure {
                outcome,
                code,
                message,
            } => AgentRun {
                end: trial.not_run(outcome, code, message),
                stage,
            },
        },
    };
    let mut rest = plans.iter().skip(1);
    loop {
        // From here on files are written by their paths, which belong to another process if the trial is lost.
        if context.cause.is_lost() {
            trial.clear_stage(run.stage, None).await;
            return Err(TrialError::Lost);
        }
        let judged = Box::pin(trial.judge(run)).await;
        if context.cause.is_lost() {
            trial.clear_stage(judged.stage, None).await;
            return Err(TrialError::Lost);
        }
        match rest.next() {
            None => return trial.finish(judged).await,
            Some(next) => match Box::pin(trial.advance(judged, next)).await {
                NextStep::Ran(next) => run = *next,
                NextStep::Stopped(judged) => return trial.finish(*judged).await,
            },
        }
    }
}

/// The part of a trial that exists in all of its phases.
pub(super) struct Trial<'a> {
    /// The plan of the current step.
    pub(super) plan: &'a TrialPlan,
    /// The steps of the task, if it has several.
    pub(super) steps: Option<&'a Steps>,
    /// The index of the current step.
    pub(super) step_index: usize,
    pub(super) context: &'a Context<'a>,
    pub(super) clock: Instant,
    pub(super) record: Record,
    pub(super) artifacts: Utf8PathBuf,
    /// A handle on the artifacts directory, even if it is moved: records are written only there.
    pub(super) dir: record::DirHandle,
    pub(super) private: Utf8PathBuf,
    /// The files of the agent, and how to recognize them in requests.
    pub(super) treatment: TrialTreatment,
}

impl<'a> Trial<'a> {
    /// Creates the trial's directories and its first record, which remains if Proctor is killed.
    fn begin(
        (plan, steps): (&'a TrialPlan, Option<&'a Steps>),
        context: &'a Context<'a>,
    ) -> Result<Trial<'a>, StoreError> {
        (context.listener)(&Event::started(&plan.name, &plan.task.name, plan.number));
        let artifacts = context.folder.join("artifacts");
        // The name is unique because the directory is removed by its path.
        let private = context
            .folder
            .join(format!("{PRIVATE}-{}", uuid::Uuid::now_v7().simple()));
        for folder in [&private, &artifacts] {
            fs::create_dir_all(folder).map_err(|source| StoreError {
                path: folder.clone(),
                source,
            })?;
        }
        let trial = Trial {
            plan,
            steps,
            step_index: 0,
            context,
            clock: Instant::now(),
            record: first_record(plan, context.run_id),
            dir: record::DirHandle::open(&artifacts)?,
            artifacts,
            private,
            treatment: TrialTreatment::default(),
        };
        trial.make_folders(plan.adapter)?;
        trial.write_record()?;
        Ok(trial)
    }

    /// Creates the directories of the agent's output.
    pub(super) fn make_folders(&self, adapter: &dyn Adapter) -> Result<(), StoreError> {
        let logs = logs_folder(&self.artifacts, adapter);
        for folder in [self.artifacts.join("raw"), logs] {
            fs::create_dir_all(&folder).map_err(|source| StoreError {
                path: folder,
                source,
            })?;
        }
        Ok(())
    }

    pub(super) fn phase(&self, phase: Phase) {
        (self.context.listener)(&Event::Phase { phase });
    }

    /// Takes over the session's result and finishes its log, which evaluators may read. Returns the
    /// exit code for the results.
    pub(super) fn conclude(&mut self, end: AgentEnd, site: Option<&Site>) -> i32 {
        self.take_over_identity(&end);
        let record = &mut self.record;
        (record.usage, record.agent_usage) = settled(&end.conclusion, record.gateway.as_ref());
        record.session_id.clone_from(&end.conclusion.session_id);
        record.turns = end.conclusion.turns;
        record.counts = end.conclusion.counts;
        record.sum_iterations();
        let account = self.account(&end, site);
        self.record
            .errors
            .splice(0..0, account.errors.iter().cloned());
        // A file that cannot be kept is an error in the record; only the record itself is required.
        let kept = self.write_log(end.log, &account);
        self.note_lost(kept);
        account.execution.exit_code
    }

    /// Records the agent's identity. A fallback is recorded in its iteration: the trial belongs to
    /// the primary agent.
    pub(super) fn take_over_identity(&mut self, end: &AgentEnd) {
        if end.contestant == Contestant::Fallback {
            return;
        }
        let agent = &mut self.record.agent;
        // Some CLIs, and plain text output, do not name their model.
        let answered = end.conclusion.model.as_ref();
        let gateway = self.record.gateway.as_ref();
        let seen = gateway.and_then(GatewayRecord::only_model);
        let known = answered.or(seen).or(agent.model_requested.as_ref());
        agent.model = known.cloned();
        if end.conclusion.version.is_some() {
            agent.version.clone_from(&end.conclusion.version);
        }
    }

    /// Writes the results and cleans up.
    async fn finish(mut self, judged: Judged) -> Result<Record, TrialError> {
        let Judged {
            outcome,
            exit_code,
            stage,
            change,
        } = judged;
        let work = self.clear_stage(stage, change).await;
        self.combine_steps();
        let outcome = match outcome {
            Outcome::Completed => {
                let evidence = Evidence {
                    is_change_lost: work.as_ref().is_none_or(|work| work.change.is_none()),
                    ..Evidence::of(Outcome::Completed, self.context.cancelled())
                };
                evidence::outcome(&evidence, Vec::new()).outcome
            }
            other => other,
        };
        // Work that was not judged in time is kept for rescoring.
        let is_cancelled = self.context.cancel.is_cancelled() && !self.context.cause.is_final();
        let record = &mut self.record;
        record.outcome = outcome;
        record.status = status(outcome, &record.verdicts, is_cancelled);
        record.score = Score::of(outcome, record.status, &record.verdicts);
        let form = self.form_to_keep(work.as_ref()).await;
        let kept = self.put_workspace(work, form);
        self.note_lost(kept);
        let record = &mut self.record;
        record.completed_at = Some(Timestamp::now().to_string());
        record.duration_ms = Some(millis(self.clock.elapsed()));
        let results = self.write_results(exit_code);
        self.post_evaluation(&results).await;
        if !self.record.hooks.is_empty() {
            self.write_results(exit_code);
        }
        let removed = self.remove_workspace(form);
        self.note_lost(removed);
        self.write_record()?;
        (self.context.listener)(&Event::ended(&self.record));
        Ok(self.record)
    }

    fn write_results(&mut self, exit_code: i32) -> Results {
        let test_case = test_case(self.plan, &self.record);
        let results = Results::of(&self.record, test_case, exit_code, self.context.folder);
        let kept = record::write_part(&self.artifacts.join(record::RESULTS_FILE), &results);
        self.note_lost(kept);
        results
    }

    pub(super) fn note_lost(&mut self, kept: Result<(), StoreError>) {
        if let Err(error) = kept {
            let lost = LogError::new("NOT_KEPT", chain(&error));
            self.record.errors.push(lost);
        }
    }

    pub(super) fn account(&self, end: &AgentEnd, site: Option<&Site>) -> Account {
        let host = &self.record.host;
        let mut environment = BTreeMap::from([
            ("os".to_owned(), host.os.clone().into()),
            ("arch".to_owned(), host.arch.clone().into()),
            ("node_version".to_owned(), record::NO_NODE.into()),
            ("proctor_version".to_owned(), VERSION.into()),
            (
                "youbencha_version".to_owned(),
                record::youbencha_version(VERSION).into(),
            ),
        ]);
        if let Some(site) = site {
            let workdir = self.workdir(site).into_string();
            environment.insert("working_directory".to_owned(), workdir.into());
        }
        let plan = self.plan_of(end.contestant);
        let agent = AgentContext {
            name: plan.adapter.name(),
            version: match end.contestant {
                Contestant::Primary => self.record.agent.version.as_deref(),
                Contestant::Fallback => end.version.as_deref(),
            },
            adapter_version: VERSION,
            provider: plan.adapter.provider(),
            model: plan.agent.model(),
            parameters: plan.agent.parameters(),
            environment,
        };
        let started = end.completed_at
            - jiff::SignedDuration::from_millis(i64::try_from(end.duration_ms).unwrap_or(0));
        let times = Times {
            started_at: Some(started.to_string()),
            completed_at: Some(end.completed_at.to_string()),
            duration_ms: Some(end.duration_ms),
        };
        Account::new(end.conclusion.clone(), agent, &end.ending, times)
    }

    /// An empty log of a session.
    pub(super) fn new_log(&self) -> io::Result<SessionLog> {
        NamedTempFile::new_in(&self.private).map(LogWriter::new)
    }

    /// Writes the log of a session, which is empty if the agent was not started.
    pub(super) fn write_log(
        &self,
        log: Option<SessionLog>,
        account: &Account,
    ) -> Result<(), StoreError> {
        let path = self.artifacts.join(record::LOG_FILE);
        let written = log
            .map_or_else(|| self.new_log(), Ok)
            .and_then(|log| log.finish(account))
            .and_then(|file| dir::persist(file, path.as_std_path()));
        written.map_err(|source| StoreError { path, source })
    }

    pub(super) fn write_record(&self) -> Result<(), StoreError> {
        self.dir.write_json(record::RECORD_FILE, &self.record)
    }
}

/// The authoritative figures, and the agent's own if the gateway's are authoritative.
pub(super) fn settled(
    conclusion: &Conclusion,
    gateway: Option<&GatewayRecord>,
) -> (Option<Usage>, Option<Usage>) {
    let own = conclusion.usage.as_ref().filter(|usage| usage.is_own());
    let counted = gateway.and_then(GatewayRecord::usage);
    let agent_usage = own.filter(|_| counted.is_some()).cloned();
    (Usage::settled(own, counted), agent_usage)
}

/// The folder of the terminal logs. For `copilot-cli` it is `copilot-logs`, as youBencha has it.
pub(super) fn logs_folder(artifacts: &Utf8Path, adapter: &dyn Adapter) -> Utf8PathBuf {
    let name = adapter.name();
    let name = name.strip_suffix("-cli").unwrap_or(name);
    artifacts.join(format!("{name}-logs"))
}

pub(super) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn test_case(plan: &TrialPlan, record: &Record) -> record::TestCaseResult {
    record::TestCaseResult {
        name: record.task.name.clone(),
        description: plan.task.description.clone(),
        config_file: record.task.config_file.clone(),
        config_hash: record.task.config_hash.clone(),
        repo: record.task.repo.clone(),
        branch: record
            .task
            .branch
            .clone()
            .unwrap_or_else(|| "HEAD".to_owned()),
        commit: record
            .task
            .commit
            .clone()
            .unwrap_or_else(|| UNKNOWN.to_owned()),
        expected_branch: match &plan.task.reference {
            Some(Reference::Branch(branch)) => Some(branch.clone()),
            _ => None,
        },
    }
}
