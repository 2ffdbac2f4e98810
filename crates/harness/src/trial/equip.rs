//! Equips an agent: model access, environment, credentials.

use std::collections::BTreeMap;

use camino::Utf8Path;
use proctor_agents::agent::Authentication;
use proctor_record::{outcome::Outcome, record};
use proctor_sandbox::{Network, availability, container_env, trial_dir::TrialDir};

use super::{Agents, ContestantPlan, Trial, chain, container::HOME, prepare::NotRun};
use crate::model_access::{self, TrialModels};

/// The variable with the agent's deadline.
const DEADLINE: &str = "PROCTOR_DEADLINE";

/// The environment of an agent before it starts.
pub(super) struct Equipment {
    pub(super) env: BTreeMap<String, String>,
    /// Variables that it gets unchanged.
    pub(super) passed: BTreeMap<String, String>,
    /// Its access to models through the gateway.
    pub(super) models: Option<TrialModels>,
}

impl Trial<'_> {
    /// Prepares an agent: model access, environment, credentials.
    pub(super) async fn equip(
        &mut self,
        agents: &Agents,
        trial_dir: &TrialDir,
    ) -> Result<Equipment, NotRun> {
        let passed = self.passed_through();
        let models = self.open_models(agents, trial_dir, &passed)?;
        let mut env = self.environment(agents, trial_dir, models.as_ref())?;
        if !passed.is_empty() {
            let names: Vec<&str> = passed.keys().map(String::as_str).collect();
            let names = names.join(", ");
            self.note(format!("the agent got these variables unchanged: {names}"));
            env.extend(passed.clone());
        }
        if models.is_some() {
            self.record.agent.credentials = Some("gateway".to_owned());
        } else {
            self.authenticate(agents, &env, trial_dir).await?;
        }
        Ok(Equipment {
            env,
            passed,
            models,
        })
    }

    /// The variables of the suite that agents get unchanged.
    fn passed_through(&self) -> BTreeMap<String, String> {
        let names = self.context.pass_through.iter();
        let set =
            names.filter_map(|name| Some((name.clone(), self.context.host.env.get(name)?.clone())));
        set.collect()
    }

    /// Creates the trial's gateway key, for agents with model access.
    fn open_models(
        &self,
        agents: &Agents,
        trial_dir: &TrialDir,
        passed: &BTreeMap<String, String>,
    ) -> Result<Option<TrialModels>, NotRun> {
        let agent = self.plan_of(agents.contestant).agent;
        let (Some(models), Some(_)) = (self.context.models, agent.prompt()) else {
            return Ok(None);
        };
        let reach = self.reach();
        if reach == Network::None {
            return Ok(None);
        }
        let is_sealed = reach != Network::Open;
        let allow_hosts = match reach {
            Network::Allowlist(hosts) => hosts,
            _ => Vec::new(),
        };
        let sockets = self
            .docker()
            .map(|_| model_access::sockets(&trial_dir.path));
        let trial = record::trial_path(&self.plan.name, &self.plan.task.name, self.plan.number);
        let label = match self.record.iterations.len() {
            0 => trial.to_string(),
            before => format!("{trial}.iteration-{}", before + 1),
        };
        let opened = models.open(model_access::Needs {
            label: &label,
            artifacts: &self.artifacts,
            sockets: sockets.as_deref(),
            allow_hosts,
            temperature: agent.gateway_temperature(),
            budget: agents.budget.clone(),
            passed_keys: passed.values().cloned().collect(),
            is_sealed,
            watch: self.watches(),
        });
        opened.map(Some).map_err(|error| NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "GATEWAY_FAILED",
            message: chain(&error),
        })
    }

    /// The agent's environment with its credentials.
    fn environment(
        &self,
        agents: &Agents,
        trial_dir: &TrialDir,
        models: Option<&TrialModels>,
    ) -> Result<BTreeMap<String, String>, NotRun> {
        let host = self.context.host;
        let image = agents.image.as_ref();
        let deadline = agents.deadline.as_ref();
        let deadline = deadline.map(|deadline| (DEADLINE.to_owned(), deadline.clone()));
        let ContestantPlan { adapter, agent, .. } = self.plan_of(agents.contestant);
        if agent.inherits_user() && image.is_none() {
            let mut env = host.env.clone();
            env.extend(deadline);
            return Ok(env);
        }
        let mut env = match image {
            None => host.clean_env(&trial_dir.home),
            Some(image) => container_env(image, Utf8Path::new(HOME)),
        };
        if let Some(environment) = self.plan.task.environment() {
            // HOME and similar variables are the trial's own.
            let own =
                |name: &str| matches!(name, "HOME" | "TMPDIR" | "TEMP" | "TMP" | "USERPROFILE");
            let set = match image {
                None => environment.local_env(),
                Some(_) => environment.env.clone(),
            };
            env.extend(set.into_iter().filter(|(name, _)| !own(name)));
        }
        env.extend(deadline);
        if let (Network::Allowlist(_), Some(models)) = (self.reach(), models) {
            env.extend(models.proxy_env());
        }
        let Some(cli) = adapter.cli() else {
            return Ok(env);
        };
        if image.is_none() {
            env.extend(availability::shared_caches(cli, host));
        }
        let is_sealed = image.is_some() && self.reach() != Network::Open;
        if models.is_some() || is_sealed {
            // The agent uses the trial's key or no gateway: API keys are not passed.
            return Ok(env);
        }
        if image.is_some() {
            // Containers get only variables that the suite lists.
            return Ok(env);
        }
        for name in cli.credential_env {
            if let Some(value) = host.env.get(*name) {
                env.insert((*name).to_owned(), value.clone());
            }
        }
        let mut known = env.clone();
        known.extend(agent.env().clone());
        let has_key = matches!(
            adapter.authentication(&known, None),
            Authentication::Found(_)
        );
        if let Some(home) = host.home.as_ref().filter(|_| !has_key) {
            for file in cli.credential_files {
                trial_dir.bring_in(&home.join(file), file)?;
            }
        }
        Ok(env)
    }

    /// Finds the credentials of an agent without a gateway.
    async fn authenticate(
        &mut self,
        agents: &Agents,
        env: &BTreeMap<String, String>,
        trial_dir: &TrialDir,
    ) -> Result<(), NotRun> {
        let ContestantPlan { adapter, agent, .. } = self.plan_of(agents.contestant);
        let installed = agents.current_cli();
        let (Some(cli), Some(installed)) = (adapter.cli(), installed) else {
            return Ok(());
        };
        let mut env = env.clone();
        env.extend(agent.env().clone());
        let mut found = adapter.authentication(&env, None);
        if found == Authentication::Unknown && self.docker().is_none() {
            let check = availability::auth_check(cli, installed, &env, &trial_dir.home).await;
            found = adapter.authentication(&env, check.as_ref());
        }
        match found {
            Authentication::Found(source) => self.record.agent.credentials = Some(source),
            Authentication::NotNeeded | Authentication::Unknown => {}
            Authentication::Missing => {
                let hint = match self.docker() {
                    None => cli.login_hint,
                    Some(_) => {
                        "without a gateway, name the variable with its key under `secrets.unsafe_pass_through`"
                    }
                };
                return Err(NotRun::Infrastructure {
                    outcome: Outcome::Auth,
                    code: cli.auth_code,
                    message: format!(
                        "authentication failed: `{}` has no API key and no login; {hint}",
                        cli.program
                    ),
                });
            }
        }
        Ok(())
    }
}
