//! What users write: test cases and project settings, read with their places in the file so
//! that every complaint can point at the line.

mod agent;
mod entries;
mod eval;
mod evaluator;
mod execution;
mod executor;
mod gateway;
mod hooks;
mod interpolate;
mod keep_workspace;
mod litellm;
mod policy;
mod progress;
mod recording;
mod remarks;
mod repo;
mod schema;
mod settings;
mod shared;
mod source;
mod suite;
mod testcase;
#[cfg(test)]
mod tests;
mod thunderdome;

pub(crate) use agent::read as read_agent;
pub use agent::{AgentSpec, AgentType};
pub use eval::{EvalCase, ResolvedEval, load_eval};
pub use evaluator::EvaluatorSpec;
pub(crate) use execution::network_named;
pub use execution::{Execution, GatewaySettings, read_script};
pub use executor::{Executor, SlurmSettings};
pub use gateway::{GatewayOverrides, Gateways, load_gateways, parse_faults, read_prices};
pub use hooks::{DatabaseHook, DatabaseKind, Hook, Hooks, ScriptHook, WebhookHook};
pub use interpolate::Unset;
pub(crate) use interpolate::Variables;
pub use keep_workspace::KeepWorkspace;
pub use litellm::LiteLlmSettings;
pub use policy::{CheckLoop, PolicySpec, RetrySpec};
pub use progress::ProgressLimits;
pub use recording::{RecordingMode, Recordings};
pub(crate) use repo::revision_problem;
pub use repo::{History, Repo};
pub use schema::{schema_for_config, schema_for_eval};
pub use settings::Settings;
pub use source::Source;
pub use suite::{
    ResolvedSuite, SuiteAgent, is_suite, load_kept_suite, load_suite, results_dir_of,
    suite_of_folders,
};
pub use testcase::{OutputLimits, ResolvedCase, TestCase, load};
pub use thunderdome::add_env_file;
