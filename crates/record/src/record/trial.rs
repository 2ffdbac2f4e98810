//! `record.json`: everything that is known of one trial, and where each figure came from.
//! It is written when the trial starts, as interrupted, and again when it ends: a trial that
//! was killed has a record too.

use proctor_process::{Capture, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GatewayRecord, IterationRecord};
use crate::{
    outcome::{EndedBy, Ending, Outcome},
    record::{HookRecord, Verdict, metrics_file::AgentMetrics, score::Score},
    session::{Counts, LogError},
    usage::Usage,
};

/// The version of the record's format.
pub const RECORD_VERSION: &str = "1.0.0";

/// One trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The version of this format.
    pub version: String,
    /// The run that the trial belongs to.
    pub run_id: String,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// What became of the trial.
    pub outcome: Outcome,
    /// The trial's verdict as a whole.
    pub status: TrialStatus,
    /// What the work is worth; null when nothing can be said of it.
    #[serde(default)]
    pub score: Option<Score>,
    /// The contender.
    pub agent: AgentRecord,
    /// What was asked.
    pub task: TaskRecord,
    /// When the trial started.
    pub started_at: String,
    /// When it ended; absent while it runs, or when Proctor was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How long it took, preparation and judging included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// When the agent would have been ended.
    #[serde(default)]
    pub limits: AgentLimitsRecord,
    /// Where the trial executed.
    #[serde(default)]
    pub sandbox: SandboxRecord,
    /// What the gateway counted; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRecord>,
    /// The agent's process; absent when none was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRecord>,
    /// What it used: the gateway's figures where it counted any, else the agent's own; absent when
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The agent's own figures, when those of the gateway are in `usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_usage: Option<Usage>,
    /// The agent's own id of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Turns, by the agent's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// How long the agent worked, by its own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ms: Option<u64>,
    /// The tools that it used, by name; absent when its output does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_used: Option<Vec<String>>,
    /// What was counted in its output.
    pub counts: Counts,
    /// What it changed; absent when that could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffRecord>,
    /// What an adapter script left of its own figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<AgentMetrics>,
    /// What the evaluators said.
    pub verdicts: Vec<Verdict>,
    /// What the hooks of the test case did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// What identifies the definition that they were made by, when it is not the task's that was
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<String>,
    /// Earlier judgements, the first one first: what was judged again is not forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Judgement>,
    /// Each start of the agent, when it may be started more than once (`retry`, `loop`): figures
    /// above are the sums of theirs, and all else is the last one's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<IterationRecord>,
    /// What went wrong.
    pub errors: Vec<LogError>,
    /// What was noticed and is no error.
    pub notes: Vec<String>,
    /// Where it ran.
    pub host: HostRecord,
    /// The version of Proctor.
    pub proctor_version: String,
}

impl Record {
    /// Read a record's file.
    pub fn read(path: &camino::Utf8Path) -> std::io::Result<Record> {
        Ok(serde_json::from_slice(&fs_err::read(path)?)?)
    }
}

/// What was once said of a trial's work, before it was judged again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// When it was replaced.
    pub replaced_at: String,
    /// The verdict on the trial as a whole.
    pub status: TrialStatus,
    /// What the work was worth; null when nothing could be said.
    pub score: Option<Score>,
    /// What the evaluators said.
    pub verdicts: Vec<Verdict>,
    /// What identifies the definition that they were made by, when it is not the task's that was
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<String>,
}

/// The trial's verdict as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// The agent completed and every evaluator passed.
    Passed,
    /// The agent or an evaluator failed.
    Failed,
    /// Nothing can be said of the agent: infrastructure or an evaluator broke.
    Error,
    /// The run was ended before the trial was.
    Interrupted,
}

impl TrialStatus {
    /// The word used in files and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            TrialStatus::Passed => "passed",
            TrialStatus::Failed => "failed",
            TrialStatus::Error => "error",
            TrialStatus::Interrupted => "interrupted",
        }
    }
}

/// The contender.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentRecord {
    /// The contender's name: that of its kind, unless a suite gives it one.
    pub name: String,
    /// `agent.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version that the agent itself told, else the one its program told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The adapter's version: that of Proctor.
    pub adapter_version: String,
    /// The program that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The package that was installed for it, with its version, when the suite names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_requested: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where its credentials came from; never what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// What was asked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskRecord {
    /// The task's name.
    pub name: String,
    /// Where the task comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TaskKind>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The file that defines it.
    pub config_file: String,
    /// The SHA-256 of that file, or of all files of the task's folder.
    pub config_hash: String,
    /// The repo, as written, or the task's folder.
    pub repo: String,
    /// The branch, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The tree of that commit: the content that the agent started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The SHA-256 of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_hash: Option<String>,
    /// Settings of its definition that are accepted and have no effect here, such as parts of the
    /// score that are not computed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Where a task comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A folder in Harbor's format.
    Folder,
    /// A git repo at a tag, as in Thunderdome.
    Repo,
    /// A youBencha test case.
    Testcase,
    /// A directory whose work is done already.
    Directory,
}

/// When an agent is ended; absent is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLimitsRecord {
    /// Its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Its longest silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// The longest time without a new event and without a changed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_progress_timeout_ms: Option<u64>,
    /// How often in a row it may do the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_limit: Option<u32>,
}

/// Where a trial executed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SandboxRecord {
    /// In a folder and a process tree of its own on this machine.
    #[default]
    Local,
    /// In a container of its own.
    Docker(Box<ContainerRecord>),
}

/// The container of a trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ContainerRecord {
    /// Who ran it; nothing in records of older versions.
    #[serde(default)]
    pub engine: Option<EngineRecord>,
    /// Where its engine listens.
    #[serde(default)]
    pub address: String,
    /// The image, as it is named, or the folder that it was built from.
    pub image: String,
    /// The id of the image: what is in it.
    pub image_id: String,
    /// Its digest in a registry, when it has one.
    pub image_digest: Option<String>,
    /// What the container could reach.
    pub network: String,
    /// Who the agent was, when it was said.
    pub user: Option<String>,
    /// What the container could take.
    pub limits: LimitsRecord,
    /// The most memory that it held at one time, file cache included; null where nobody counts it.
    pub peak_memory_bytes: Option<u64>,
    /// How many processes were killed for want of memory; null where nobody counts them.
    pub oom_kills: Option<u64>,
    /// Who saw to the limit of the disk.
    pub disk_limit: Option<String>,
}

/// The engine that ran a container.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EngineRecord {
    /// `docker` or `podman`.
    pub name: String,
    /// Its version, in its own words.
    pub version: String,
}

/// What a container could take; nothing is no limit.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LimitsRecord {
    /// Processors.
    pub cpus: Option<f64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Bytes on disk.
    pub disk_bytes: Option<u64>,
}

/// The agent's process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProcessRecord {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// How long it ran.
    pub duration_ms: u64,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why Proctor ended it, when Proctor did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// Processes that it left behind and that were ended.
    pub leaked: Vec<String>,
    /// What it took of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRecord>,
    /// What it printed.
    pub output: OutputRecord,
}

impl ProcessRecord {
    /// The record of a process that has ended.
    pub fn of(
        report: &Report,
        argv: Vec<String>,
        ending: &Ending,
        capture: &Capture,
    ) -> ProcessRecord {
        let millis =
            |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        ProcessRecord {
            argv,
            duration_ms: millis(report.duration),
            exit_code: ending.code,
            signal: ending.signal,
            ended_by: ending.ended_by,
            leaked: report.leaked.iter().map(|leak| leak.name.clone()).collect(),
            resources: report.usage.map(|usage| ResourceRecord {
                cpu_user_ms: millis(usage.cpu_user),
                cpu_system_ms: millis(usage.cpu_system),
                max_rss_bytes: usage.max_rss_bytes,
            }),
            output: OutputRecord {
                stdout_bytes: report.stdout_bytes,
                stderr_bytes: report.stderr_bytes,
                transcript_truncated: capture.truncated(),
                raw_truncated: capture.raw_truncated(),
            },
        }
    }
}

/// What a process tree took of the machine.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRecord {
    /// Processor time in user mode.
    pub cpu_user_ms: u64,
    /// Processor time in the kernel.
    pub cpu_system_ms: u64,
    /// The largest resident size of any one process; null where the system does not tell.
    pub max_rss_bytes: Option<u64>,
}

/// How much was printed, and what of it is on disk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputRecord {
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Whether the terminal log was cut.
    pub transcript_truncated: bool,
    /// Whether the raw logs were cut.
    pub raw_truncated: bool,
}

/// What an agent changed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiffRecord {
    /// Files changed.
    pub files_changed: u64,
    /// Lines added.
    pub lines_added: u64,
    /// Lines removed.
    pub lines_removed: u64,
    /// The tree of the workspace as the agent left it.
    pub tree: String,
    /// The SHA-256 of the patch.
    pub patch_hash: String,
}

/// The machine.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostRecord {
    /// The operating system.
    pub os: String,
    /// The processor.
    pub arch: String,
    /// Processors that could be used.
    pub cpus: usize,
}

impl HostRecord {
    /// This machine.
    pub fn this() -> HostRecord {
        HostRecord {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
