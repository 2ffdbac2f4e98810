//! The files of a run: its directory, its lock, and its records. Every important file is written
//! atomically.

pub mod cli;
pub mod control;
pub mod definition;
pub mod delivery;
mod dir_handle;
mod event;
mod event_log;
mod event_text;
mod evidence;
pub mod follow;
mod gateway;
mod holders;
mod hook;
mod identity;
mod iteration;
pub mod lease;
pub mod list;
mod meta;
pub mod metrics_file;
mod plan;
mod reason;
mod results;
mod run_dir;
pub mod score;
mod summary;
mod tail;
mod trial;
mod verdict;

use self::run_dir::json;
pub use self::run_dir::{
    COLLECTED_DIR, INSTALL_PATCH_FILE, LOG_FILE, META_FILE, PATCH_FILE, PROJECT_DIR, PROMPT_FILE,
    RECORD_FILE, RESULTS_FILE, RUN_DIRS, RunDir, StoreError, run_folder, trial_path, write_json,
    write_part,
};
pub use dir_handle::DirHandle;
pub use event::{EVENTS_FILE, Ended, Entry, Event, LONGEST_TEXT, Listener, Passage, Phase};
pub use event_log::{EventLog, EventWriter};
pub use event_text::first_line;
pub use evidence::{FailedTest, VerdictEvidence};
pub use gateway::MOST_DIFFERENCES;
pub use gateway::{GatewayPlace, GatewayRecord, ReplayRecord, SideCall};
pub use holders::{CLUSTER_DIR, has_living, silent};
pub use hook::{HookPhase, HookRecord, HookStatus};
pub use identity::RecordState;
pub use iteration::{CheckRecord, IterationReason, IterationRecord, RetryOn};
pub use meta::meta_scores;
pub use meta::{ExitReason, Meta};
pub use plan::{ChangedDefinition, NoRun};
pub use plan::{PLAN_FILE, PlanFile, SUMMARY_FILE, TrialKey};
pub use reason::{LONGEST_REASON, NotPassed, ReasonGroup};
pub use results::{
    AgentResult, Artifacts, Environment, Execution, NO_NODE, OverallStatus, Results, Summary,
    TestCaseResult, youbencha_version,
};
pub use summary::{TrialSummary, summary};
pub use tail::Tail;
pub use trial::{
    AgentLimitsRecord, AgentRecord, ContainerRecord, DiffRecord, EngineRecord, HostRecord,
    Judgement, LimitsRecord, OutputRecord, ProcessRecord, RECORD_VERSION, Record, ResourceRecord,
    SandboxRecord, TaskKind, TaskRecord, TrialStatus,
};
pub use verdict::{Artifact, Verdict, VerdictError, VerdictStatus};
pub use verdict::{DEFAULT_WEIGHT, VERIFIER};
