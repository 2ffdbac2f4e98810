//! The tools of a task for its agent: MCP servers in its launch, skills in HOME. Agents
//! without a prompt ignore them, as in Harbor; others that cannot use them are excluded.

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{fs::dir, outcome::Outcome};
use proctor_sandbox::ExecEnv;
use serde_json::{Map, Value};

use super::{Contestant, Site, Trial, container, prepare::NotRun};

impl Trial<'_> {
    /// The MCP servers that the agent cannot do without: its own and those of the task.
    pub(super) fn required_mcp(&self, contestant: Contestant) -> Vec<String> {
        let agent = self.plan_of(contestant).agent;
        let own = agent.required_mcp_servers().iter();
        let of_task = self.plan.task.tools.mcp_servers.keys();
        let of_task = of_task.filter(|_| agent.prompt().is_some());
        own.chain(of_task).cloned().collect()
    }

    /// The task's MCP servers for the agent.
    pub(super) fn mcp_servers(&self, contestant: Contestant) -> Result<Map<String, Value>, NotRun> {
        let plan = self.plan_of(contestant);
        let servers = &self.plan.task.tools.mcp_servers;
        if plan.agent.prompt().is_none() {
            return Ok(Map::new());
        }
        let known = plan.adapter.mcp_types();
        for server in servers.values() {
            let kind = server["type"].as_str().unwrap_or_default();
            if !known.contains(&kind) {
                let what = format!("MCP servers of type `{kind}`");
                return Err(unsupported(plan.adapter.name(), &what));
            }
        }
        Ok(servers.clone())
    }

    /// Copies the skills of the task's image to the agent's HOME.
    pub(super) async fn lay_task_skills(
        &self,
        contestant: Contestant,
        site: &Site,
    ) -> Result<(), NotRun> {
        let plan = self.plan_of(contestant);
        let from = self.plan.task.tools.skills_dir.as_deref();
        let (Some(from), Some(_), ExecEnv::Docker(exec_env)) =
            (from, plan.agent.prompt(), &site.exec_env)
        else {
            return Ok(());
        };
        let Some(folder) = plan.adapter.home_skills_folder() else {
            return Err(unsupported(plan.adapter.name(), "skills"));
        };
        let stage = self.private.join("skills");
        if !stage.exists() {
            fs::create_dir(&stage)?;
            let workdir = self.workdir(site);
            let inside = if from.as_str().starts_with('/') {
                from.to_string()
            } else {
                format!("{workdir}/{from}")
            };
            let fetched = exec_env.container.fetch(&inside, stage.as_std_path());
            if !fetched.await.map_err(container::failed)? {
                let message = format!("the image has no `{inside}`, the skills of the task");
                return Err(std::io::Error::other(message).into());
            }
        }
        let name = Utf8Path::new(from.as_str().trim_end_matches('/')).file_name();
        let to = site.trial_dir.home.join(folder);
        fs::create_dir_all(&to)?;
        let copied = dir::copy_over(
            stage.join(name.unwrap_or_default()).as_std_path(),
            to.as_std_path(),
        );
        Ok(copied?)
    }
}

fn unsupported(agent: &str, what: &str) -> NotRun {
    NotRun::Infrastructure {
        outcome: Outcome::Sandbox,
        code: "TASK_TOOLS_UNSUPPORTED",
        message: format!(
            "the task gives {what} to its agent, which `{agent}` does not support here"
        ),
    }
}
