//! One trial as a file: all data that a process on another machine needs to run it. Large data is
//! named by its digest: the suite and its tasks are on a shared file system. It never contains
//! secrets.

use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Execution, Executor, GatewayOverrides, KeepWorkspace, Settings, network_named},
    fs::hex,
    host::Host,
    model_access::{self, CoordinatorGateway, Models, Place, spent_usd_in},
    plan::{Filter, NoMatch, ResolvedSuite, RunPlan, TrialPlan, load_kept_suite},
    record::{
        GatewayPlace,
        lease::{Holder, Leases},
        run_event::{Listener, RunEvent},
    },
    run::{
        Gateways, ResourceSpec, Resources, RunError, TrialScope,
        attempt::{Attempt, Attempted, folders},
    },
    sandbox::SandboxKind,
    task::Files,
    trial::{Cause, TrialError},
    workspace::Bases,
};

/// The version of the file's format.
pub const SPEC_VERSION: &str = "1.0.0";

/// A trial ends so long before its job is killed, so that there is time for its record.
const LONGEST_LEAD: Duration = Duration::from_secs(30);

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// The version of this format.
    pub version: String,
    /// The run that it belongs to.
    pub run_id: String,
    /// Where its record goes, unless the command line says otherwise.
    pub folder: String,
    /// Where the claims to it lie: a path without their number.
    pub claims: String,
    /// Where answers of judges are kept.
    pub cache: String,
    /// The suite.
    pub suite: SuiteSpec,
    /// The agent's name in the suite.
    pub agent: String,
    /// The task's name in the suite.
    pub task: String,
    /// What identifies the task's content.
    pub config_hash: String,
    /// What the branch that the task starts from meant when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// The folder whose settings hold.
    pub cwd: String,
    /// The sandbox that the command line asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxKind>,
    /// The network that the command line asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Which workspaces are kept, when the command line says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_workspace: Option<KeepWorkspace>,
    /// How long its job may take, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// How it reaches models, when a gateway is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,
}

/// The suite of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteSpec {
    /// Its file: paths in it start from there.
    pub file: String,
    /// What stood in it when the run began.
    pub kept: String,
    /// The SHA-256 of that.
    pub sha256: String,
}

/// The gateway of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "place", rename_all = "lowercase", deny_unknown_fields)]
pub enum GatewaySpec {
    /// One of its own.
    Trial {
        /// Its part of what all trials may spend together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slice_usd: Option<f64>,
    },
    /// That of the head.
    Head {
        /// The file that says where it is.
        file: String,
    },
}

/// Why the trial of a spec cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file is missing or not a spec.
    #[error("{path} is no trial's spec: {reason}")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// The error.
        reason: String,
    },
    /// A file that it names is not there.
    #[error("{path} could not be read: {reason}")]
    Missing {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        reason: String,
    },
    /// A named file has changed.
    #[error("{what} is not what it was when the run began")]
    Changed {
        /// What.
        what: String,
    },
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
    /// Read a spec.
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
            let reason = format!("its version is {}, not {SPEC_VERSION}", spec.version);
            Err(unreadable(reason))
        }
    }

    /// Run the trial, unless it was or is being run.
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
        let listener = |event: &RunEvent<'_>| {
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

    /// The source of its workspace: the commit that all trials of the run start from.
    fn bases(&self, plan: &TrialPlan) -> Bases {
        match (&plan.task.files, &self.commit) {
            (Files::Repo(checkout), Some(commit)) => Bases::pinned(checkout, commit),
            _ => Bases::default(),
        }
    }

    /// How the agent reaches models.
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
                // Its part is for all attempts together.
                let spent = spent_usd(Utf8Path::new(&self.folder));
                settings.run_budget_usd = slice_usd.map(|slice| (slice - spent).max(0.0));
                Models::at(&settings, env, Place::default())
                    .map(|models| models.known_as(GatewayPlace::Trial))
            }
            None => Models::at(&settings, env, Place::default()),
        };
        Ok(Some(models.map_err(RunError::Gateway)?))
    }

    /// Resolve it as the run was resolved.
    fn load(&self, host: &Host) -> Result<Loaded, SpecError> {
        let one = |error| SpecError::Config(vec![error]);
        let cwd = Utf8Path::new(&self.cwd);
        let settings = Settings::load(host.home.as_deref(), cwd, &host.env).map_err(one)?;
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
            // The API keys stayed on the head. Values derived from them are replaced in any case.
            model_access::stand_in_for_keys(&mut env);
        }
        let suite = load_kept_suite(file, kept, &env, &settings);
        let mut suite = suite.map_err(SpecError::Config)?;
        self.select(&mut suite)?;
        if self.gateway.is_some() {
            // The command line may ask for one where the suite does not.
            suite.execution.gateway.get_or_insert_default();
        }
        GatewayOverrides::default().apply(&mut suite.execution.gateway, &settings);
        let host = Host {
            cwd: cwd.to_owned(),
            ..host.with_env(suite.env.clone(), &suite.secret_names)
        };
        let plan = RunPlan::make(&suite, &host, 0).map_err(SpecError::Config)?;
        let plan = plan.trials.into_iter().next();
        let plan = plan.expect("one agent on one task is one trial");
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

    /// Keep what belongs to this trial, with what the command line asked for.
    fn select(&self, suite: &mut ResolvedSuite) -> Result<(), SpecError> {
        let filter = Filter {
            agents: vec![self.agent.clone()],
            tasks: Vec::new(),
            categories: Vec::new(),
        };
        filter.apply(suite)?;
        // By its own name: another task may have this one as an alias.
        suite.tasks.retain(|task| task.name == self.task);
        if suite.tasks.is_empty() {
            let what = "task";
            let (name, known) = (self.task.clone(), Vec::new());
            return Err(NoMatch { what, name, known }.into());
        }
        suite.trials = 1;
        match self.sandbox {
            Some(SandboxKind::Docker) => suite.execution.use_containers(),
            Some(SandboxKind::Local) => suite.execution.sandbox = SandboxKind::Local,
            None => {}
        }
        if let Some(network) = &self.network {
            suite.execution.network = network_named(network);
        }
        if let Some(keep) = self.keep_workspace {
            suite.execution.keep_workspace = keep;
        }
        suite.execution.executor = Executor::Local;
        Ok(())
    }
}

/// The cost of all attempts at the trial in this directory so far.
fn spent_usd(folder: &Utf8Path) -> f64 {
    let attempts = folders(folder).into_iter();
    attempts
        .map(|folder| spent_usd_in(&folder.join("artifacts")))
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
    fn what_earlier_attempts_spent_counts_as_far_as_it_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let calls = "{\"cost_nano_usd\":250000000}\n{\"cost_nano_usd\":null}\n{\"cost_na";
        for folder in [
            "trial-1",
            "trial-1.attempt-1",
            "trial-1.attempt-2",
            "trial-2",
        ] {
            // The agent's, those of an iteration that has ended, and a judge's.
            for part in ["", "iterations/1", "evaluators/judge"] {
                let folder = root.join(folder).join("artifacts").join(part);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("calls.ndjson"), calls).unwrap();
            }
        }
        assert!((spent_usd(&root.join("trial-1")) - 2.25).abs() < 1e-9);
        assert!(spent_usd(&root.join("trial-3")).abs() < 1e-9);
    }

    #[test]
    fn a_trial_leaves_time_for_its_record() {
        assert_eq!(usable(3600), Duration::from_secs(3570));
        assert_eq!(usable(60), Duration::from_secs(45));
    }

    #[test]
    fn a_spec_of_another_version_or_with_unknown_keys_is_refused() {
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
        assert!(read(&spec).unwrap_err().ends_with("not 1.0.0"));
        spec["version"] = "1.0.0".into();
        spec["secret"] = "x".into();
        assert!(read(&spec).unwrap_err().contains("secret"));
    }
}
