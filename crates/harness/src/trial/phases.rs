//! The phases of a trial as types: each phase takes the value of the one before it.
//!
//! [`Prepared`] → [`AgentRun`] → [`Judged`] → [`Record`](proctor_record::record::Record).

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8PathBuf;
use jiff::Timestamp;
use proctor_agents::agent::Launch;
use proctor_gateway::Budget;
use proctor_record::{
    outcome::{Ending, Outcome},
    record::cli::Installed,
    session::Conclusion,
    transcript::LogWriter,
};
use proctor_sandbox::{ExecEnv, docker::Image, trial_dir::TrialDir};
use tempfile::NamedTempFile;

use super::{AgentTools, Contestant};
use crate::{
    model_access::TrialModels,
    trial::socket::Socket,
    workspace::{Change, Workspace},
};

/// The log of a session in progress.
pub(super) type SessionLog = LogWriter<NamedTempFile>;

/// The installed agents of a trial, and the settings that all of its iterations share.
pub(super) struct Agents {
    /// The image, with containers.
    pub(super) image: Option<Image>,
    /// The CLIs of the contestants.
    pub(super) tools: BTreeMap<Contestant, AgentTools>,
    /// The current contestant.
    pub(super) contestant: Contestant,
    /// The agent's deadline, as announced to it; `None` without a timeout.
    pub(super) deadline: Option<String>,
    /// The shared budget of several iterations.
    pub(super) budget: Option<Arc<Budget>>,
}

impl Agents {
    /// The CLI of the current contestant.
    pub(super) fn current_cli(&self) -> Option<&Installed> {
        self.tools.get(&self.contestant)?.cli.as_ref()
    }
}

/// The agent's workspace and the environment of its commands.
pub(super) struct Site {
    pub(super) exec_env: ExecEnv,
    pub(super) workspace: Workspace,
    /// Contains the workspace.
    pub(super) trial_dir: TrialDir,
}

/// A trial whose agent can be started.
pub(super) struct Prepared {
    pub(super) agents: Agents,
    pub(super) site: Site,
    pub(super) prompt: String,
    pub(super) start: AgentStart,
}

/// One start of an agent.
pub(super) struct AgentStart {
    pub(super) launch: Launch,
    pub(super) socket: Option<Socket>,
    /// The agent's working directory, as a path inside its environment.
    pub(super) workdir: Utf8PathBuf,
    /// The agent's access to models through the gateway.
    pub(super) models: Option<TrialModels>,
    pub(super) log: SessionLog,
}

/// The end of one start of an agent.
pub(super) struct AgentEnd {
    pub(super) contestant: Contestant,
    /// The version of the contestant's CLI.
    pub(super) version: Option<String>,
    /// The log of the session; `None` if the agent was not started.
    pub(super) log: Option<SessionLog>,
    pub(super) conclusion: Conclusion,
    pub(super) ending: Ending,
    pub(super) completed_at: Timestamp,
    pub(super) duration_ms: u64,
}

impl AgentEnd {
    /// The end of the current contestant of `agents`.
    pub(super) fn of(self, agents: &Agents) -> AgentEnd {
        let cli = agents.current_cli();
        AgentEnd {
            contestant: agents.contestant,
            version: cli.and_then(|cli| cli.version.clone()),
            ..self
        }
    }
}

/// A trial whose agent does not run any more.
pub(super) struct AgentRun {
    pub(super) end: AgentEnd,
    /// `None` if the workspace could not be created.
    pub(super) stage: Option<Stage>,
}

/// The agents of a trial at the place of their work.
pub(super) struct Stage {
    pub(super) agents: Agents,
    pub(super) site: Site,
}

/// A trial, or one of its steps, with its verdicts, which are in the record.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    pub(super) exit_code: i32,
    /// `None` if the workspace could not be created.
    pub(super) stage: Option<Stage>,
    /// `None` if the change could not be determined.
    pub(super) change: Option<Change>,
}

/// The agent's work.
pub(super) struct AgentWork {
    pub(super) workspace: Workspace,
    /// `None` if the change could not be determined.
    pub(super) change: Option<Change>,
    /// Contains the workspace, and is removed with this value.
    #[expect(dead_code, reason = "removes the directory when it is dropped")]
    pub(super) trial_dir: TrialDir,
}
