//! A running command, on this machine or in a container.

use proctor_process::{EndReason, Event, Process};

use super::docker::{ContainerProcess, EngineError, JobFacts};

/// A running command with the same interface for all environments.
pub enum Running {
    /// On this machine.
    Local(Box<Process>),
    /// In a container.
    Container(Box<ContainerProcess>),
}

impl Running {
    /// The next output, or the report at the end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Event<'_>, EngineError> {
        match self {
            Running::Local(process) => Ok(process.next().await),
            Running::Container(process) => process.next().await,
        }
    }

    /// Sends bytes to its standard input.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Running::Local(process) => process.send(bytes),
            Running::Container(process) => process.send(bytes),
        }
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) {
        match self {
            Running::Local(process) => process.close_stdin(),
            Running::Container(process) => process.close_stdin(),
        }
    }

    /// Ends it with all its descendants.
    pub fn end(&mut self, reason: EndReason) {
        match self {
            Running::Local(process) => process.end(reason),
            Running::Container(process) => process.end(reason),
        }
    }

    /// The engine's data of an ended container.
    pub fn facts(&self) -> Option<JobFacts> {
        match self {
            Running::Local(_) => None,
            Running::Container(process) => process.facts().cloned(),
        }
    }
}
