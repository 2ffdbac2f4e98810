//! `record.json`: all data of one trial, with the source of each figure. It is written when the
//! trial starts, as interrupted, and again when it ends, so that a killed trial has a record, too.

use proctor_process::{Capture, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    GatewayRecord, IterationRecord, definition::DefinitionRecord, delivery::DeliveryRecord,
};
use crate::{
    outcome::{EndedBy, Ending, Outcome},
    record::{HookRecord, Verdict, metrics_file::AgentMetrics, score::Score},
    session::{Counts, LogError, McpServer},
    usage::Usage,
};

/// The version of the record format.
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
    /// The outcome.
    pub outcome: Outcome,
    /// The status of the trial.
    pub status: TrialStatus,
    /// The score; null if the trial is excluded.
    #[serde(default)]
    pub score: Option<Score>,
    /// The agent.
    pub agent: AgentRecord,
    /// The task.
    pub task: TaskRecord,
    /// When the trial started.
    pub started_at: String,
    /// When it ended; absent while it runs, or if Proctor was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// The duration in milliseconds, including preparation and judging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The limits of the agent.
    #[serde(default)]
    pub limits: AgentLimitsRecord,
    /// The sandbox.
    #[serde(default)]
    pub sandbox: SandboxRecord,
    /// The gateway's counts; absent without a gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRecord>,
    /// The parts of the agent's treatment, and whether they reached the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivery: Vec<DeliveryRecord>,
    /// The agent's process; absent if none was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRecord>,
    /// The usage: the gateway's figures if it counted any, else the agent's own; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The agent's own figures, if `usage` has the gateway's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_usage: Option<Usage>,
    /// The agent's own id of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The number of turns, according to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The duration in milliseconds, according to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ms: Option<u64>,
    /// The names of the used tools; absent if the output does not contain them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_used: Option<Vec<String>>,
    /// Counts from its output.
    pub counts: Counts,
    /// The agent's change; absent if it could not be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffRecord>,
    /// The figures of an adapter script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<AgentMetrics>,
    /// The verdicts of the evaluators.
    pub verdicts: Vec<Verdict>,
    /// The results of the hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// The digest of the definition that the verdicts are based on, if it is not the task's at the
    /// time of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<String>,
    /// Earlier judgements, oldest first: rescoring keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Judgement>,
    /// Each start of the agent, if it can be restarted (`retry`, `loop`) or the task has steps. The
    /// figures above are sums; all other data is from the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<IterationRecord>,
    /// The errors.
    pub errors: Vec<LogError>,
    /// Remarks that are not errors.
    pub notes: Vec<String>,
    /// The machine.
    pub host: HostRecord,
    /// The version of Proctor.
    pub proctor_version: String,
}

impl Record {
    /// Reads a record's file.
    pub fn read(path: &camino::Utf8Path) -> std::io::Result<Record> {
        Ok(serde_json::from_slice(&fs_err::read(path)?)?)
    }
}

/// A judgement that was replaced by rescoring.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// When it was replaced.
    pub replaced_at: String,
    /// The status of the trial.
    pub status: TrialStatus,
    /// The score; null if the trial was excluded.
    pub score: Option<Score>,
    /// The verdicts of the evaluators.
    pub verdicts: Vec<Verdict>,
    /// The digest of the definition that the verdicts are based on, if it is not the task's at the
    /// time of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<String>,
}

/// The status of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// The agent completed and all evaluators passed.
    Passed,
    /// The agent or an evaluator failed.
    Failed,
    /// The trial is excluded: the infrastructure or an evaluator failed.
    Error,
    /// The run was ended before the trial.
    Interrupted,
}

impl TrialStatus {
    /// The name in files and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            TrialStatus::Passed => "passed",
            TrialStatus::Failed => "failed",
            TrialStatus::Error => "error",
            TrialStatus::Interrupted => "interrupted",
        }
    }
}

/// The agent of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentRecord {
    /// The agent's name: its type, unless a suite sets one.
    pub name: String,
    /// `agent.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version that the agent reports, else the version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The adapter's version: that of Proctor.
    pub adapter_version: String,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The package that was installed for it, with its version, if the suite sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The requested model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_requested: Option<String>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The MCP servers that it reported, with their states; absent when its output does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<McpServer>>,
    /// The source of its credentials, never their value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// Its definition; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRecord>,
}

/// The task of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TaskRecord {
    /// The task's name.
    pub name: String,
    /// The kind of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TaskKind>,
    /// The category.
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
    /// The checked-out commit.
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
    /// Its definition without the evaluators; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<DefinitionRecord>,
    /// The SHA-256 of the definition of the evaluators that made the verdicts; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluators: Option<String>,
}

/// The source of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A folder in Harbor's format.
    Folder,
    /// A git repo at a tag, as in Thunderdome.
    Repo,
    /// An instance in the format of SWE-bench.
    Instance,
    /// A youBencha test case.
    Testcase,
    /// A directory with existing work.
    Directory,
}

impl TaskKind {
    /// Whether its programs are usually not the user's own. They run on this machine only if the
    /// user chooses that.
    pub fn is_foreign(self) -> bool {
        matches!(self, TaskKind::Folder | TaskKind::Instance)
    }
}

/// The limits of an agent; absent means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLimitsRecord {
    /// The time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The maximum time without output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// The longest time without a new event and without a changed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_progress_timeout_ms: Option<u64>,
    /// The maximum number of repetitions of an action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_limit: Option<u32>,
}

/// The sandbox of a trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SandboxRecord {
    /// Its own directory and process tree on this machine.
    #[default]
    Local,
    /// Its own container.
    Docker(Box<ContainerRecord>),
}

/// The container of a trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ContainerRecord {
    /// The engine; absent in records of older versions.
    #[serde(default)]
    pub engine: Option<EngineRecord>,
    /// The address of its engine.
    #[serde(default)]
    pub address: String,
    /// The name of the image, or the folder that it was built from.
    pub image: String,
    /// The id of the image, which identifies its content.
    pub image_id: String,
    /// Its digest in a registry, if any.
    pub image_digest: Option<String>,
    /// The network access.
    pub network: String,
    /// The user of the agent, if set.
    pub user: Option<String>,
    /// The resource limits.
    pub limits: LimitsRecord,
    /// The peak memory, including file cache; null if it is not measured.
    pub peak_memory_bytes: Option<u64>,
    /// The number of OOM kills; null if they are not counted.
    pub oom_kills: Option<u64>,
    /// The component that enforced the disk limit.
    pub disk_limit: Option<String>,
}

/// The engine that ran a container.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EngineRecord {
    /// `docker` or `podman`.
    pub name: String,
    /// Its version, as reported by the engine.
    pub version: String,
}

/// The resource limits of a container; null means no limit.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LimitsRecord {
    /// CPUs.
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
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why Proctor ended it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
    /// Remaining processes that were ended.
    pub leaked: Vec<String>,
    /// Background processes that went on while the trial was judged. At most 64 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<String>,
    /// The used resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRecord>,
    /// The sizes of its output.
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
            background: report.background.iter().map(|it| it.name.clone()).collect(),
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

/// The resources that a process tree used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRecord {
    /// CPU time in user mode.
    pub cpu_user_ms: u64,
    /// CPU time in the kernel.
    pub cpu_system_ms: u64,
    /// The largest resident size of any single process; null if the system does not report it.
    pub max_rss_bytes: Option<u64>,
}

/// The size of the output, and whether all of it is on disk.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OutputRecord {
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Whether the terminal log was truncated.
    pub transcript_truncated: bool,
    /// Whether the raw logs were truncated.
    pub raw_truncated: bool,
}

/// The change of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiffRecord {
    /// Files changed.
    pub files_changed: u64,
    /// Lines added.
    pub lines_added: u64,
    /// Lines removed.
    pub lines_removed: u64,
    /// The final tree of the workspace.
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
    /// The available CPUs.
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
