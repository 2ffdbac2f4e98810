//! One trial as a file: all data that a process on another machine needs to run it. Large data is
//! referenced by digest: the suite and its tasks are on a shared file system. It never contains
//! secrets.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::ConfigError;
use proctor_record::{
    fs::hex,
    record::{
        Event, GatewayPlace, Listener, PlanFile,
        lease::{Holder, Leases},
    },
    usage::Usd,
};
use proctor_sandbox::{Network, SandboxKind, host::Host};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Execution, Executor, GatewayOverrides, KeepWorkspace, Settings},
    model_access::{self, CoordinatorGateway, ListenOptions, Models, spent_in},
    plan::{Filter, NoMatch, ResolvedSuite, RunPlan, TrialPlan, load_kept_suite},
    run::{
        Gateways, ResourceSpec, Resources, RunError, TrialScope,
        attempt::{Attempt, Attempted, folders},
        list_changes, plan_file,
    },
    task::Files,
    trial::{Cause, TrialError},
    workspace::Bases,
};

/// The version of the file format.
pub const SPEC_VERSION: &str = "1.0.0";

/// How long before the end of its job a trial ends at most, to leave time for its record.
const LONGEST_LEAD: Duration = Duration::from_secs(30);

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The version of this format.
    pub version: String,
    /// The run that it belongs to.
    pub run_id: String,
    /// The directory of its record, unless the command line sets another.
    pub folder: String,
    /// The path prefix of its leases, without their number.
    pub claims: String,
    /// The directory of the judges' answer cache.
    pub cache: String,
    /// The suite.
    pub suite: SuiteSpec,
    /// The agent's name in the suite.
    pub agent: String,
    /// The task's name in the suite.
    pub task: String,
    /// The digest of the task's content.
    pub config_hash: String,
    /// The commit of the task's start branch at the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// The directory whose project settings apply.
    pub cwd: String,
    /// The sandbox of the command line, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxKind>,
    /// The network of the command line, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Which workspaces are kept, if the command line sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_workspace: Option<KeepWorkspace>,
    /// The time limit of its job, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// The gateway, if one is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,
}

/// The suite of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteSpec {
    /// The suite file, the base of its relative paths.
    pub file: String,
    /// A snapshot of the file at the start of the run.
    pub kept: String,
    /// The SHA-256 of the snapshot.
    pub sha256: String,
}

/// The gateway of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "place", rename_all = "lowercase", deny_unknown_fields)]
pub enum GatewaySpec {
    /// The trial's own gateway.
    Trial {
        /// Its share of the budget of all trials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<f64>")]
        slice_usd: Option<Usd>,
    },
    /// The gateway of the head.
    Head {
        /// The file with its address.
        file: String,
    },
}

/// Why the trial of a spec cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file is missing or not a spec.
    #[error("invalid trial spec {path}: {reason}")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// The error.
        reason: String,
    },
    /// A referenced file is missing.
    #[error("cannot read {path}: {reason}")]
    Missing {
        /// The file.
        path: Utf8PathBuf,
        /// The cause.
        reason: String,
    },
    /// A referenced file has changed.
    #[error("{what} has changed since the start of the run")]
    Changed {
        /// The description of the file.
        what: String,
    },
    /// A definition has changed.
    #[error("the trial cannot be run as planned: {0}")]
    DefinitionChanged(String),
    /// The suite cannot be read here.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// The suite has no such agent or task.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// The trial could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<TrialError> for SpecError {
    fn from(error: TrialError) -> SpecError {
        SpecError::Run(error.into())
    }
}

/// The SHA-256 of a text.
pub(crate) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// A spec, resolved on the machine that runs it.
struct Loaded {
    plan: TrialPlan,
    execution: Execution,
    host: Host,
}

impl TrialSpec {
    /// Reads a spec.
    pub fn read(path: &Utf8Path) -> Result<TrialSpec, SpecError> {
        let unreadable = |reason: String| SpecError::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let spec: TrialSpec =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        if spec.version == SPEC_VERSION {
            Ok(spec)
        } else {
            let reason = format!(
                "unsupported version {}, expected {SPEC_VERSION}",
                spec.version
            );
            Err(unreadable(reason))
        }
    }

    /// Runs the trial, unless it has a record or another process runs it.
    pub async fn run(
        &self,
        who: &Holder,
        host: &Host,
        listener: &Listener<'_>,
        cancel: &CancellationToken,
    ) -> Result<Attempted, SpecError> {
        let began = Instant::now();
        let loaded = self.load(host)?;
        let host = &loaded.host;
        let folder = Utf8Path::new(&self.folder);
        let spec = ResourceSpec {
            execution: &loaded.execution,
            host,
            folder,
            cache: self.cache.as_str().into(),
            bases: self.bases(&loaded.plan),
            cancel,
        };
        let models = self.models(&loaded)?;
        let resources = Resources::open(spec, |host| {
            let task = std::iter::once(loaded.plan.task.as_ref());
            Ok(Gateways::shared(models, task, &host.env)?)
        });
        let resources = resources.await?;
        let log = resources.event_log(folder);
        let listener = |event: &Event| {
            log.take(event);
            listener(event);
        };
        let engine_slot = resources.engine_slot().await;
        let scope = TrialScope {
            plan: &loaded.plan,
            run_id: &self.run_id,
            folder,
            listener: &listener,
            cancel,
            cause: &Cause::default(),
        };
        let context = resources.context(engine_slot.sandbox(), &scope);
        let attempt = Attempt {
            leases: &Leases::at(self.claims.as_str()),
            who,
            until: self.time_limit_s.map(|limit| began + usable(limit)),
        };
        let attempted = attempt.run(&loaded.plan, &context).await;
        drop(engine_slot);
        drop(log);
        resources.close().await;
        Ok(attempted?)
    }

    /// The base of its workspace: the commit that all trials of the run start from.
    fn bases(&self, plan: &TrialPlan) -> Bases {
        match (&plan.task.files, &self.commit) {
            (Files::Repo(checkout), Some(commit)) => {
                Bases::pinned(&plan.treatment.start(checkout), commit)
            }
            _ => Bases::default(),
        }
    }

    /// How the agent accesses models.
    fn models(&self, loaded: &Loaded) -> Result<Option<Models>, SpecError> {
        let Some(settings) = &loaded.execution.gateway else {
            return Ok(None);
        };
        let mut settings = settings.clone();
        let env = &loaded.host.env;
        let label = format!("{}/{}/{}", self.agent, self.task, self.trial);
        let models = match &self.gateway {
            Some(GatewaySpec::Head { file }) => {
                let file = Utf8Path::new(file);
                let head = CoordinatorGateway::read(file).map_err(|reason| SpecError::Missing {
                    path: file.to_owned(),
                    reason,
                })?;
                head.models(settings, env, &label)
            }
            Some(GatewaySpec::Trial { slice_usd }) => {
                // The share covers all attempts together.
                let spent = spent(Utf8Path::new(&self.folder));
                settings.run_budget_usd = slice_usd.map(|slice| slice.less(spent));
                Models::at(&settings, env, ListenOptions::default())
                    .map(|models| models.known_as(GatewayPlace::Trial))
            }
            None => Models::at(&settings, env, ListenOptions::default()),
        };
        Ok(Some(models.map_err(RunError::Gateway)?))
    }

    /// Resolves the spec like the run.
    fn load(&self, host: &Host) -> Result<Loaded, SpecError> {
        let one = |error| SpecError::Config(vec![error]);
        let cwd = Utf8Path::new(&self.cwd);
        let mut settings = Settings::load(host.home.as_deref(), cwd, &host.env).map_err(one)?;
        settings.datasets = host.datasets();
        let kept = std::fs::read_to_string(&self.suite.kept);
        let kept = kept.map_err(|error| SpecError::Missing {
            path: self.suite.kept.clone().into(),
            reason: error.to_string(),
        })?;
        let file = Utf8Path::new(&self.suite.file);
        if digest(&kept) != self.suite.sha256 {
            let what = self.suite.kept.clone();
            return Err(SpecError::Changed { what });
        }
        let mut env = host.env.clone();
        if let Some(GatewaySpec::Head { .. }) = &self.gateway {
            // The API keys are on the head only. Values derived from them are replaced in any case.
            model_access::stand_in_for_keys(&mut env);
        }
        let suite = load_kept_suite(file, kept, &env, &settings);
        let mut suite = suite.map_err(SpecError::Config)?;
        self.select(&mut suite)?;
        if self.gateway.is_some() {
            // The command line can enable a gateway that the suite does not.
            suite.execution.gateway.get_or_insert_default();
        }
        GatewayOverrides::default().apply(&mut suite.execution.gateway, &settings);
        let host = Host {
            cwd: cwd.to_owned(),
            ..host.with_env(suite.env.clone(), &suite.secret_names)
        };
        let plan = RunPlan::make(&suite, &host, 0).map_err(SpecError::Config)?;
        self.check_definitions(&plan)?;
        let plan = plan.trials.into_iter().next();
        let plan = plan.expect("one agent and one task make one trial");
        if plan.task.config_hash != self.config_hash {
            let what = format!("the task `{}`", self.task);
            return Err(SpecError::Changed { what });
        }
        Ok(Loaded {
            plan: TrialPlan {
                number: self.trial,
                ..plan
            },
            execution: suite.execution,
            host,
        })
    }

    /// Check that agent and task are here what they are in the plan of the run, beside the suite's snapshot.
    fn check_definitions(&self, plan: &RunPlan) -> Result<(), SpecError> {
        let run = Utf8Path::new(&self.suite.kept).parent();
        let Some(Ok(kept)) = run.map(PlanFile::read) else {
            return Ok(());
        };
        let changed = kept.changed(&plan_file(plan, ""));
        if changed.is_empty() {
            return Ok(());
        }
        Err(SpecError::DefinitionChanged(list_changes(&changed)))
    }

    /// Selects the agent and task of this trial, and applies the options of the command line.
    fn select(&self, suite: &mut ResolvedSuite) -> Result<(), SpecError> {
        let filter = Filter {
            agents: vec![self.agent.clone()],
            tasks: Vec::new(),
            categories: Vec::new(),
        };
        filter.apply(suite)?;
        // By the exact name: another task may have it as an alias.
        suite.tasks.retain(|task| task.name == self.task);
        if suite.tasks.is_empty() {
            let what = "task";
            let (name, known) = (self.task.clone(), Vec::new());
            return Err(NoMatch { what, name, known }.into());
        }
        suite.trials = 1;
        if let Some(kind) = self.sandbox {
            suite.execution.choose_sandbox(kind);
        }
        if let Some(network) = &self.network {
            suite.execution.network = Network::named(network);
        }
        if let Some(keep) = self.keep_workspace {
            suite.execution.keep_workspace = keep;
        }
        suite.execution.executor = Executor::Local;
        Ok(())
    }
}

/// The cost of all attempts at the trial in this directory so far.
fn spent(folder: &Utf8Path) -> Usd {
    let attempts = folders(folder).into_iter();
    attempts
        .map(|folder| spent_in(&folder.join("artifacts")))
        .sum()
}

/// How much of a job's time a trial may use.
fn usable(limit_s: u64) -> Duration {
    let limit = Duration::from_secs(limit_s);
    limit.saturating_sub(LONGEST_LEAD.min(limit / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_cost_of_earlier_attempts_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let calls = "{\"cost_nano_usd\":250000000}\n{\"cost_nano_usd\":null}\n{\"cost_na";
        for folder in [
            "trial-1",
            "trial-1.attempt-1",
            "trial-1.attempt-2",
            "trial-2",
        ] {
            // The calls of the agent, of a finished iteration, and of a judge.
            for part in ["", "iterations/1", "evaluators/judge"] {
                let folder = root.join(folder).join("artifacts").join(part);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("calls.ndjson"), calls).unwrap();
            }
        }
        assert_eq!(spent(&root.join("trial-1")), Usd::from_nanos(2_250_000_000));
        assert_eq!(spent(&root.join("trial-3")), Usd::default());
    }

    #[test]
    fn trial_leaves_time_for_its_record() {
        assert_eq!(usable(3600), Duration::from_secs(3570));
        assert_eq!(usable(60), Duration::from_secs(45));
    }

    #[test]
    fn spec_with_another_version_or_unknown_keys_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().join("spec.json")).unwrap();
        let mut spec = serde_json::json!({
            "version": "1.0.0", "run_id": "r", "folder": "f", "claims": "c", "cache": "k",
            "suite": {"file": "s", "kept": "k", "sha256": "0"}, "agent": "a", "task": "t",
            "config_hash": "0", "trial": 1, "cwd": "/", "gateway": {"place": "trial"},
        });
        let read = |spec: &serde_json::Value| {
            fs::write(&path, spec.to_string()).unwrap();
            TrialSpec::read(&path).map_err(|error| error.to_string())
        };
        let whole = read(&spec).unwrap();
        assert_eq!(whole.gateway, Some(GatewaySpec::Trial { slice_usd: None }));
        spec["version"] = "2.0.0".into();
        assert!(read(&spec).unwrap_err().ends_with("expected 1.0.0"));
        spec["version"] = "1.0.0".into();
        spec["secret"] = "x".into();
        assert!(read(&spec).unwrap_err().contains("secret"));
    }
}
