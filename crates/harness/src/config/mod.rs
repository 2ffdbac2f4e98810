//! Configuration files: test cases and project settings, parsed with positions so that every error
//! can point at the line.

mod agent;
mod either;
mod eval;
mod evaluator;
mod execution;
mod executor;
mod experiment;
mod gate;
mod gateway;
mod git_source;
mod hooks;
mod interpolate;
mod keep_workspace;
mod litellm;
mod patch;
mod patterns;
mod policy;
mod progress;
mod recording;
mod reference;
mod relative_to;
mod remarks;
mod repo;
mod schema;
mod settings;
mod shared;
mod source;
mod suite;
mod task_entry;
mod testcase;
#[cfg(test)]
mod tests;
mod thunderdome;
mod treatment;
mod variants;

pub(crate) use agent::read as read_agent;
pub use agent::{AgentSpec, AgentType};
pub use eval::{EvalCase, ResolvedEval, load_eval};
pub use evaluator::EvaluatorSpec;
pub use execution::{Execution, GatewaySettings, read_script};
pub use executor::{Executor, SlurmSettings};
pub use experiment::{ExperimentSettings, StopRule};
pub use gate::GateSettings;
pub use gateway::{GatewayOverrides, Gateways, load_gateways, parse_faults, read_prices};
pub use git_source::GitSource;
pub use hooks::{DatabaseHook, DatabaseKind, Hook, Hooks, ScriptHook, WebhookHook};
pub use interpolate::Unset;
pub(crate) use interpolate::Variables;
pub use keep_workspace::KeepWorkspace;
pub use litellm::LiteLlmSettings;
pub(crate) use patterns::{globs, solution_paths};
pub use policy::{CheckLoop, PolicySpec, RetrySpec};
pub use progress::ProgressLimits;
pub use recording::{RecordingMode, Recordings};
pub use reference::{Reference, Solution};
pub use relative_to::RelativeTo;
pub(crate) use remarks::Remarks;
pub(crate) use repo::revision_problem;
pub use repo::{History, Repo};
pub use schema::{schema_for_config, schema_for_eval};
pub use settings::{LogLevel, Settings};
pub use source::Source;
pub use suite::{SuiteAgent, SuiteConfig, SuiteFile, is_suite, results_dir_of};
pub(crate) use suite::{check_unique, config_of_folders};
pub(crate) use task_entry::{
    FolderEntry, GreenWeights, RepoEntry, SwebenchEntry, TaskEntry, Weights,
};
pub use testcase::{OutputLimits, ResolvedCase, TestCase, load};
pub use thunderdome::add_env_file;
pub use treatment::{
    FileContent, FileSource, PromptParts, Skill, Treatment, TreatmentPath, TreatmentRoot,
};
pub(crate) use variants::VARIED_KEYS;
