//! One trial, top to bottom: prepare, run, compare, judge, record.

mod container;
mod drive;
mod error;
mod evidence;
pub mod export;
mod hooks;
mod iterate;
mod judge;
mod judge_trial;
mod keep;
mod prepare;
pub mod provider_limits;
mod run;
mod script;
pub mod sdk_server;
mod sidecar;
mod socket;
mod stuck;
mod workspace;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use jiff::Timestamp;
use proctor_gateway::Budget;
use proctor_record::VERSION;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

pub use self::error::TrialError;
pub(crate) use self::judge::status;
use self::{
    evidence::{Cancelled, Evidence},
    iterate::Iterations,
    prepare::NotRun,
};
use crate::{
    agent::{Adapter, Agent, Launch},
    area::Area,
    config::KeepWorkspace,
    error_chain::chain,
    fs::dir,
    host::Host,
    model_access::{Models, TrialModels},
    outcome::{Ending, Outcome},
    packages::{InstalledPackage, Package},
    plan::TrialPlan,
    record::{
        self, GatewayRecord, Record, Results, StoreError, TrialStatus,
        cli::Installed,
        lease::{Lease, Standing},
        run_event::{Listener, Phase, RunEvent, TrialName},
        score::Score,
    },
    sandbox::{Room, Sandbox, docker::Image},
    session::{Conclusion, Counts, LogError},
    task::Reference,
    transcript::{Account, Contender, LogWriter, Times},
    trial::socket::Socket,
    usage::Usage,
    workspace::{Bases, Change, Workspace},
};
pub(crate) use judge_trial::run_judge;

/// What the folders in a trial's folder begin with that are there only while it runs.
pub(crate) const PRIVATE: &str = ".trial";

/// What a trial needs to know of its run.
pub struct Context<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Where it executes.
    pub sandbox: &'a Sandbox,
    /// How agents reach models; `None` when they do so by themselves.
    pub models: Option<&'a Models>,
    /// Variables that the agent gets as they are.
    pub pass_through: &'a [String],
    /// Whether its workspace is kept.
    pub keep_workspace: KeepWorkspace,
    /// The gateway that judges ask models through; `None` when none does.
    pub judges: Option<&'a Models>,
    /// Where answers of judges are kept from run to run.
    pub cache: &'a Utf8Path,
    /// What workspaces are made of.
    pub bases: &'a Bases,
    /// The id of the run.
    pub run_id: &'a str,
    /// The trial's own folder in the run's.
    pub folder: &'a Utf8Path,
    /// Who is told.
    pub listener: &'a Listener<'a>,
    /// Cancelled when the run is.
    pub cancel: &'a CancellationToken,
    /// Why it is cancelled, when that is not somebody's wish.
    pub cause: &'a Cause<'a>,
}

impl Context<'_> {
    /// Whether the trial is cancelled, and why.
    fn cancelled(&self) -> Cancelled {
        match self.cause.outcome.get() {
            Some(outcome) => Cancelled::Because(*outcome),
            None if self.cancel.is_cancelled() => Cancelled::Interrupted,
            None => Cancelled::No,
        }
    }
}

/// Why a trial is cancelled, when it is not by the user's wish.
#[derive(Debug, Default)]
pub struct Cause<'a> {
    outcome: OnceLock<Outcome>,
    lease: Option<&'a Lease>,
}

impl<'a> Cause<'a> {
    /// The cause of a trial that another process may take over.
    pub fn of(lease: &'a Lease) -> Cause<'a> {
        Cause {
            outcome: OnceLock::new(),
            lease: Some(lease),
        }
    }

    /// Set the outcome of the interrupted trial, before cancelling it.
    pub fn set(&self, outcome: Outcome) {
        // The first cause counts.
        let _ = self.outcome.set(outcome);
    }

    /// Whether another process has the trial: its folder is at our path and is not ours any more.
    fn is_lost(&self) -> bool {
        let standing = self.lease.map(Lease::standing);
        matches!(standing, Some(Ok(Standing::Lost)))
    }

    /// Whether the trial is cancelled for good, and not run again.
    fn is_final(&self) -> bool {
        self.outcome.get().is_some()
    }
}

/// Run one trial. Whatever happens to the agent, there is a record; only bad input is an error.
pub async fn run(plan: &TrialPlan, context: &Context<'_>) -> Result<Record, TrialError> {
    let mut trial = Trial::begin(plan, context).map_err(TrialError::Folder)?;
    let prepared = tokio::select! {
        prepared = trial.prepare() => prepared,
        () = context.cancel.cancelled() => Err(cut_off(context.cause)),
    };
    let ran = match prepared {
        Ok(ready) => trial.iterate(ready).await,
        Err(NotRun::Usage(error)) => return Err(error),
        Err(NotRun::Infrastructure {
            outcome,
            code,
            message,
        }) => trial.not_run(outcome, code, message),
    };
    // From here on files are written by their paths, which are another's if the trial is.
    if context.cause.is_lost() {
        trial.leave().await;
        return Err(TrialError::Lost);
    }
    trial.conclude(&ran);
    trial.judge(&ran).await;
    trial.leave().await;
    if context.cause.is_lost() {
        return Err(TrialError::Lost);
    }
    trial.end(&ran).await
}

/// A trial that is cancelled before its agent has started: whatever the reason, it says nothing of the agent.
fn cut_off(cause: &Cause<'_>) -> NotRun {
    let (outcome, code, message) = if cause.is_final() {
        let message = "the time of its job was over before the agent started";
        (Outcome::Sandbox, "SANDBOX_FAILED", message)
    } else {
        let message = "the run was interrupted before the agent started";
        (Outcome::Interrupted, "INTERRUPTED", message)
    };
    NotRun::Infrastructure {
        outcome,
        code,
        message: message.to_owned(),
    }
}

/// A trial under way.
struct Trial<'a> {
    plan: &'a TrialPlan,
    context: &'a Context<'a>,
    clock: Instant,
    record: Record,
    artifacts: Utf8PathBuf,
    /// The artifacts folder itself, wherever it is moved: records go there and nowhere else.
    place: record::Place,
    private: Utf8PathBuf,
    /// Written as the session goes; `None` once it is finished.
    log: Option<LogWriter<NamedTempFile>>,
    area: Option<Arc<Area>>,
    /// Where its commands run.
    room: Room,
    /// The image that it runs in, with containers.
    image: Option<Image>,
    /// Who is at work: the agent, or with 1 its fallback.
    who: usize,
    /// What is there for each of them.
    tools: Vec<Tools>,
    /// What is asked.
    asked: String,
    /// When the agent's time will be over, as it is told.
    deadline: Option<String>,
    /// How far it has come.
    iterations: Iterations,
    /// What its iterations may spend together; made when there are several.
    budget: Option<Arc<Budget>>,
    /// Its way to the models.
    models: Option<TrialModels>,
    workspace: Option<Workspace>,
    change: Option<Change>,
}

/// The CLI that is there for one who takes part.
#[derive(Default)]
struct Tools {
    /// The CLI.
    cli: Option<Installed>,
    /// Where it is, when it was installed for this.
    package: Option<InstalledPackage>,
}

/// One who takes part.
#[derive(Clone, Copy)]
struct Part<'a> {
    adapter: &'static dyn Adapter,
    agent: &'a dyn Agent,
    package: Option<&'a Package>,
}

/// An agent that can be started.
struct Ready {
    launch: Launch,
    socket: Option<Socket>,
    /// Where it works, as it sees it.
    workdir: Utf8PathBuf,
}

/// What the agent's part came to.
struct Ran {
    conclusion: Conclusion,
    ending: Ending,
    completed_at: Timestamp,
    duration_ms: u64,
}

impl<'a> Trial<'a> {
    /// Make the trial's folders and its first record: should Proctor be killed, that one stays.
    fn begin(plan: &'a TrialPlan, context: &'a Context<'a>) -> Result<Trial<'a>, StoreError> {
        (context.listener)(&RunEvent::TrialStarted(TrialName {
            agent: &plan.name,
            task: &plan.task.name,
            trial: plan.number,
        }));
        let artifacts = context.folder.join("artifacts");
        // Under a name that nobody else's has: it is removed by its path, at the end.
        let private = context
            .folder
            .join(format!("{PRIVATE}-{}", uuid::Uuid::now_v7().simple()));
        for folder in [&private, &artifacts] {
            fs::create_dir_all(folder).map_err(|source| StoreError {
                path: folder.clone(),
                source,
            })?;
        }
        let log = NamedTempFile::new_in(&private).map_err(|source| StoreError {
            path: private.clone(),
            source,
        })?;
        let trial = Trial {
            plan,
            context,
            clock: Instant::now(),
            record: first_record(plan, context.run_id),
            place: record::Place::open(&artifacts)?,
            artifacts,
            private,
            log: Some(LogWriter::new(log)),
            area: None,
            room: Room::Local,
            image: None,
            who: 0,
            tools: Vec::new(),
            asked: String::new(),
            deadline: None,
            iterations: Iterations::default(),
            budget: None,
            models: None,
            workspace: None,
            change: None,
        };
        trial.make_folders()?;
        trial.write_record()?;
        Ok(trial)
    }

    /// Who is at work.
    fn contender(&self) -> Part<'a> {
        self.parts()[self.who]
    }

    /// All who take part: the agent, and its fallback if it has one.
    fn parts(&self) -> Vec<Part<'a>> {
        let first = Part {
            adapter: self.plan.adapter,
            agent: self.plan.agent.as_ref(),
            package: self.plan.package.as_ref(),
        };
        let second = self.plan.policy.fallback().map(|fallback| Part {
            adapter: fallback.adapter,
            agent: fallback.agent.as_ref(),
            package: fallback.package.as_ref(),
        });
        std::iter::once(first).chain(second).collect()
    }

    /// The folders that the agent's output goes to.
    fn make_folders(&self) -> Result<(), StoreError> {
        let logs = logs_folder(&self.artifacts, self.contender().adapter);
        for folder in [self.artifacts.join("raw"), logs] {
            fs::create_dir_all(&folder).map_err(|source| StoreError {
                path: folder,
                source,
            })?;
        }
        Ok(())
    }

    fn phase(&self, phase: Phase) {
        (self.context.listener)(&RunEvent::Phase(phase));
    }

    /// Take over what the session came to and finish its log: evaluators may read it.
    fn conclude(&mut self, ran: &Ran) {
        self.take_over_identity(ran);
        let record = &mut self.record;
        (record.usage, record.agent_usage) = settled(&ran.conclusion, record.gateway.as_ref());
        record.session_id.clone_from(&ran.conclusion.session_id);
        record.turns = ran.conclusion.turns;
        record.counts = ran.conclusion.counts;
        record.sum_iterations();
        let account = self.account(ran);
        self.record
            .errors
            .splice(0..0, account.errors.iter().cloned());
        // What cannot be kept is an error in the record; only the record itself must be written.
        let kept = self.write_log(&account);
        self.note_lost(kept);
    }

    /// What the agent told of itself. A fallback is in its iteration: the contender is the agent.
    fn take_over_identity(&mut self, ran: &Ran) {
        if self.who > 0 {
            return;
        }
        let agent = &mut self.record.agent;
        // Some CLIs, and plain text, do not name the model that they were told to use.
        let answered = ran.conclusion.model.as_ref();
        agent.model = answered.or(agent.model_requested.as_ref()).cloned();
        if ran.conclusion.version.is_some() {
            agent.version.clone_from(&ran.conclusion.version);
        }
    }

    /// Write everything down and clean up.
    async fn end(mut self, ran: &Ran) -> Result<Record, TrialError> {
        let outcome = match ran.conclusion.outcome {
            Outcome::Completed => {
                let evidence = Evidence {
                    is_change_lost: self.change.is_none(),
                    ..Evidence::of(Outcome::Completed, self.context.cancelled())
                };
                evidence::outcome(&evidence, Vec::new()).outcome
            }
            other => other,
        };
        // What was done and only not judged in time is kept, and can be judged later.
        let is_cancelled = self.context.cancel.is_cancelled() && !self.context.cause.is_final();
        let record = &mut self.record;
        record.outcome = outcome;
        record.status = status(outcome, &record.verdicts, is_cancelled);
        record.score = Score::of(outcome, record.status, &record.verdicts);
        let exit_code = self.account(ran).execution.exit_code;
        let form = self.form_to_keep().await;
        let kept = self.put_workspace(form);
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
        (self.context.listener)(&RunEvent::TrialEnded(&self.record));
        Ok(self.record)
    }

    fn write_results(&mut self, exit_code: Option<i32>) -> Results {
        let test_case = test_case(self.plan, &self.record);
        let results = Results::of(&self.record, test_case, exit_code);
        let kept = record::write_part(&self.artifacts.join(record::RESULTS_FILE), &results);
        self.note_lost(kept);
        results
    }

    fn note_lost(&mut self, kept: Result<(), StoreError>) {
        if let Err(error) = kept {
            let lost = LogError::new("NOT_KEPT", chain(&error));
            self.record.errors.push(lost);
        }
    }

    fn account(&self, ran: &Ran) -> Account {
        let environment = BTreeMap::from([
            ("os".to_owned(), self.record.host.os.clone().into()),
            ("arch".to_owned(), self.record.host.arch.clone().into()),
            ("proctor_version".to_owned(), VERSION.into()),
            (
                "working_directory".to_owned(),
                self.kept_path().into_string().into(),
            ),
        ]);
        let part = self.contender();
        let cli = self
            .tools
            .get(self.who)
            .and_then(|tools| tools.cli.as_ref());
        let version = cli.and_then(|cli| cli.version.as_deref());
        let contender = Contender {
            name: part.adapter.name(),
            version: match self.who {
                0 => self.record.agent.version.as_deref(),
                _ => version,
            },
            adapter_version: VERSION,
            provider: part.adapter.provider(),
            model: part.agent.model(),
            parameters: part.agent.parameters(),
            environment,
        };
        let started = ran.completed_at
            - jiff::SignedDuration::from_millis(i64::try_from(ran.duration_ms).unwrap_or(0));
        let times = Times {
            started_at: Some(started.to_string()),
            completed_at: Some(ran.completed_at.to_string()),
            duration_ms: Some(ran.duration_ms),
        };
        Account::new(ran.conclusion.clone(), contender, &ran.ending, times)
    }

    fn write_log(&mut self, account: &Account) -> Result<(), StoreError> {
        let path = self.artifacts.join(record::LOG_FILE);
        let log = self.log.take().expect("the log is finished once");
        let written = log
            .finish(account)
            .and_then(|file| dir::persist(file, path.as_std_path()));
        written.map_err(|source| StoreError { path, source })
    }

    fn write_record(&self) -> Result<(), StoreError> {
        self.place.write_json(record::RECORD_FILE, &self.record)
    }
}

/// The figures that count, and the agent's own where those are the gateway's.
fn settled(
    conclusion: &Conclusion,
    gateway: Option<&GatewayRecord>,
) -> (Option<Usage>, Option<Usage>) {
    let own = conclusion.usage.as_ref().filter(|usage| usage.is_own());
    let counted = gateway.and_then(GatewayRecord::usage);
    let agent_usage = own.filter(|_| counted.is_some()).cloned();
    (Usage::settled(own, counted), agent_usage)
}

fn logs_folder(artifacts: &Utf8Path, adapter: &dyn Adapter) -> Utf8PathBuf {
    artifacts.join(format!("{}-logs", adapter.name()))
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn test_case(plan: &TrialPlan, record: &Record) -> record::TestCaseResult {
    record::TestCaseResult {
        name: record.task.name.clone(),
        description: plan.task.description.clone(),
        config_file: record.task.config_file.clone(),
        config_hash: record.task.config_hash.clone(),
        repo: record.task.repo.clone(),
        branch: record.task.branch.clone(),
        commit: record.task.commit.clone(),
        expected_branch: match &plan.task.reference {
            Some(Reference::Branch(branch)) => Some(branch.clone()),
            _ => None,
        },
    }
}

/// What stands in the record of a trial when it begins: should Proctor be killed, that stays.
pub(crate) fn first_record(plan: &TrialPlan, run_id: &str) -> Record {
    Record {
        version: record::RECORD_VERSION.to_owned(),
        run_id: run_id.to_owned(),
        trial: plan.number,
        outcome: Outcome::Interrupted,
        status: TrialStatus::Interrupted,
        score: None,
        agent: record::AgentRecord {
            name: plan.name.clone(),
            kind: plan.adapter.name().to_owned(),
            version: None,
            adapter_version: VERSION.to_owned(),
            program: None,
            package: plan.package.as_ref().map(ToString::to_string),
            model_requested: plan.agent.model().map(str::to_owned),
            model: None,
            credentials: None,
        },
        task: record::TaskRecord {
            name: plan.task.name.clone(),
            kind: Some(plan.task.kind),
            category: plan.task.category.clone(),
            config_file: plan.task.config_file().to_string(),
            config_hash: plan.task.config_hash.clone(),
            repo: plan.task.origin(),
            branch: plan.task.branch().map(str::to_owned),
            commit: None,
            tree: None,
            prompt_hash: None,
            notes: plan.task.notes.clone(),
        },
        started_at: Timestamp::now().to_string(),
        completed_at: None,
        duration_ms: None,
        limits: (&plan.task.limits).into(),
        sandbox: record::SandboxRecord::default(),
        gateway: None,
        process: None,
        usage: None,
        agent_usage: None,
        session_id: None,
        turns: None,
        session_ms: None,
        tools_used: None,
        counts: Counts::default(),
        diff: None,
        sidecar: None,
        verdicts: Vec::new(),
        hooks: Vec::new(),
        judged_by: None,
        history: Vec::new(),
        iterations: Vec::new(),
        errors: Vec::new(),
        notes: Vec::new(),
        host: record::HostRecord::this(),
        proctor_version: VERSION.to_owned(),
    }
}
