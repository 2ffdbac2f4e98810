//! The shared resources of the trials of a run, opened and closed in one place: sandboxes,
//! gateways, caches, event logs.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_gateway::GatewayError;
use proctor_record::record::{EventLog, EventWriter, Listener, StoreError};
use proctor_sandbox::{EngineSlot, LostEngine, Pool, Sandbox, host::Host};
use tokio_util::sync::CancellationToken;

use super::RunError;
use crate::{
    config::{Execution, GatewaySettings, KeepWorkspace},
    model_access::{
        ListenOptions, Models,
        litellm::{LiteLlm, LiteLlmAccount},
    },
    plan::TrialPlan,
    task::Task,
    trial::{self, Cause},
    workspace::Bases,
};

/// The directory of the answer cache, next to the runs.
const CACHE: &str = "cache";

/// The answer cache of judges for the runs of a results directory.
pub(crate) fn cache_of(results_dir: &Utf8Path) -> Utf8PathBuf {
    results_dir.join(CACHE)
}

/// The resources to open.
pub(crate) struct ResourceSpec<'a> {
    pub(crate) execution: &'a Execution,
    pub(crate) host: &'a Host,
    /// The directory that identifies the run's resources: the run's, or that of its only trial.
    pub(crate) folder: &'a Utf8Path,
    /// The directory of the answer cache, which all runs share.
    pub(crate) cache: Utf8PathBuf,
    pub(crate) bases: Bases,
    pub(crate) cancel: &'a CancellationToken,
}

/// The shared resources of the trials of a run.
pub(crate) struct Resources {
    /// The host, with LiteLLM instead of the providers if it is used.
    pub(crate) host: Host,
    pub(crate) gateways: Gateways,
    pub(crate) cache: Utf8PathBuf,
    folder: Utf8PathBuf,
    pool: Pool,
    bases: Bases,
    events: EventWriter,
    pass_through: Vec<String>,
    keep_workspace: KeepWorkspace,
    litellm: Option<LiteLlm>,
}

/// The resources of one trial in addition to the shared ones.
pub(crate) struct TrialScope<'a> {
    pub(crate) plan: &'a TrialPlan,
    pub(crate) run_id: &'a str,
    pub(crate) folder: &'a Utf8Path,
    pub(crate) listener: &'a Listener<'a>,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) cause: &'a Cause<'a>,
}

/// The results that are known after closing all resources.
pub(crate) struct Closed {
    pub(crate) lost_engines: Vec<LostEngine>,
    pub(crate) litellm: Option<LiteLlmAccount>,
}

impl Resources {
    /// Opens all resources. `gateways` gets the host as agents see it, with LiteLLM if it is used.
    pub(crate) async fn open(
        spec: ResourceSpec<'_>,
        gateways: impl FnOnce(&Host) -> Result<Gateways, RunError>,
    ) -> Result<Resources, RunError> {
        let settings = spec.execution.gateway.as_ref();
        let litellm = match settings.and_then(|gateway| gateway.litellm.as_ref()) {
            Some(settings) => {
                Some(LiteLlm::open(settings, spec.host, spec.folder, spec.cancel).await?)
            }
            None => None,
        };
        let host = match &litellm {
            Some(litellm) => litellm.host(spec.host),
            None => spec.host.clone(),
        };
        let events = EventWriter::start().map_err(|source| StoreError {
            path: spec.folder.to_owned(),
            source,
        })?;
        let gateways = gateways(&host)?;
        Ok(Resources {
            pool: Pool::open(&spec.execution.sandbox_settings(), &host, spec.folder).await?,
            gateways,
            cache: spec.cache,
            folder: spec.folder.to_owned(),
            bases: spec.bases,
            events,
            pass_through: spec.execution.pass_through.clone(),
            keep_workspace: spec.execution.keep_workspace,
            litellm,
            host,
        })
    }

    /// Waits for an engine slot to run a trial.
    pub(crate) async fn engine_slot(&self) -> EngineSlot<'_> {
        self.pool.engine_slot().await
    }

    /// Monitors the engines while `work` runs.
    pub(crate) async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        self.pool.watched(work).await
    }

    /// The event log of the trial in a folder.
    pub(crate) fn event_log(&self, folder: &Utf8Path) -> EventLog {
        self.events.trial(folder)
    }

    /// The context of one trial.
    pub(crate) fn context<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        scope: &TrialScope<'a>,
    ) -> trial::Context<'a> {
        let access = self.gateways.of(scope.plan.gateway.as_ref());
        trial::Context {
            host: &self.host,
            sandbox,
            models: access.agents,
            judges: access.judges,
            pass_through: &self.pass_through,
            keep_workspace: self.keep_workspace,
            cache: &self.cache,
            bases: &self.bases,
            run_id: scope.run_id,
            folder: scope.folder,
            listener: scope.listener,
            cancel: scope.cancel,
            cause: scope.cause,
        }
    }

    /// Closes all resources and waits for them.
    pub(crate) async fn close(self) -> Closed {
        self.pool.close().await;
        let lost_engines = self.pool.lost();
        let mut account = None;
        if let Some(litellm) = self.litellm {
            litellm.close().await;
            // The log is complete only after LiteLLM has ended.
            account = LiteLlmAccount::read(&self.folder);
        }
        Closed {
            lost_engines,
            litellm: account,
        }
    }
}

/// The gateways of a run: the run's own, and those that test cases configure.
#[derive(Debug, Default)]
pub(crate) struct Gateways {
    shared: Option<GatewayAccess>,
    own: Vec<(GatewaySettings, GatewayAccess)>,
    /// For judges that call models in a run whose agents do not use a gateway.
    judges: Option<Models>,
}

#[derive(Debug)]
struct GatewayAccess {
    agents: Models,
    judges: Models,
}

/// How the agent of a trial and its judges access models; `None` without a gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelAccess<'a> {
    pub(crate) agents: Option<&'a Models>,
    pub(crate) judges: Option<&'a Models>,
}

impl Gateways {
    /// Starts the gateways that a run and its trials need.
    pub(crate) fn open(
        execution: &Execution,
        plans: &[TrialPlan],
        env: &BTreeMap<String, String>,
    ) -> Result<Gateways, GatewayError> {
        let shared = Models::start(execution, env)?;
        let tasks = plans.iter().map(|plan| plan.task.as_ref());
        let mut gateways = Gateways::shared(shared, tasks, env)?;
        for settings in plans.iter().filter_map(|plan| plan.gateway.as_ref()) {
            if gateways.own.iter().any(|(known, _)| known == settings) {
                continue;
            }
            let mut models = Models::at(settings, env, ListenOptions::default())?;
            let limit = settings.run_budget_usd;
            let same = |(known, _): &&(GatewaySettings, _)| known.run_budget_usd == limit;
            if let Some((_, other)) = gateways.own.iter().find(same) {
                models.share_budget(&other.agents);
            }
            let access = GatewayAccess::of(models);
            gateways.own.push((settings.clone(), access));
        }
        Ok(gateways)
    }

    /// The gateway that all trials of these tasks share, if any.
    pub(crate) fn shared<'a>(
        models: Option<Models>,
        mut tasks: impl Iterator<Item = &'a Task>,
        env: &BTreeMap<String, String>,
    ) -> Result<Gateways, GatewayError> {
        let judges = match &models {
            None if tasks.any(Task::has_model_judge) => Some(Models::start_for_judges(env)?),
            _ => None,
        };
        Ok(Gateways {
            shared: models.map(GatewayAccess::of),
            own: Vec::new(),
            judges,
        })
    }

    /// The gateway of a trial whose test case has these settings.
    pub(crate) fn of(&self, settings: Option<&GatewaySettings>) -> ModelAccess<'_> {
        let own = settings.and_then(|settings| {
            let mut own = self.own.iter();
            own.find(|(known, _)| known == settings)
        });
        let access = own.map(|(_, access)| access).or(self.shared.as_ref());
        ModelAccess {
            agents: access.map(|access| &access.agents),
            judges: access.map(|access| &access.judges).or(self.judges.as_ref()),
        }
    }
}

impl GatewayAccess {
    fn of(agents: Models) -> GatewayAccess {
        GatewayAccess {
            judges: agents.for_judges(),
            agents,
        }
    }
}
