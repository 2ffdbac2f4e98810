//! The agent that runs, by its own output: its model, its version and its session.

/// The agent that runs.
#[derive(Default)]
pub(super) struct AgentIdentity {
    pub(super) init_model: Option<String>,
    pub(super) message_model: Option<String>,
    pub(super) subagent_model: Option<String>,
    pub(super) version: Option<String>,
    pub(super) session_id: Option<String>,
}

impl AgentIdentity {
    /// The model to report: what the messages of the main thread name, except that `init`
    /// may name the same model with a suffix such as `[1m]`, which the messages leave out and
    /// the CLI's account keeps.
    pub(super) fn model(&self) -> Option<&str> {
        let init = self.init_model.as_deref();
        let seen = self.message_model.as_deref();
        match (init, seen) {
            (Some(init), Some(seen)) if init.split('[').next() != Some(seen) => Some(seen),
            (None, None) => self.subagent_model.as_deref(),
            _ => init.or(seen),
        }
    }
}
