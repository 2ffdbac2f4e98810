//! The contestants of a trial: its agent, and the fallback.

use proctor_agents::agent::{Adapter, Agent};
use proctor_record::record::cli::Installed;
use proctor_sandbox::packages::{InstalledPackage, Package};

use super::Trial;

/// The agent of a trial, or its fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contestant {
    Primary,
    Fallback,
}

impl Contestant {
    /// The number in the names of its directories.
    pub(super) fn index(self) -> usize {
        match self {
            Contestant::Primary => 0,
            Contestant::Fallback => 1,
        }
    }
}

/// The CLI of a contestant, if it has one.
#[derive(Default)]
pub(super) struct AgentTools {
    pub(super) cli: Option<Installed>,
    /// The installed package, if the CLI was installed for this run.
    pub(super) package: Option<InstalledPackage>,
}

/// A contestant's part of the plan.
#[derive(Clone, Copy)]
pub(super) struct ContestantPlan<'a> {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) agent: &'a dyn Agent,
    pub(super) package: Option<&'a Package>,
}

impl<'a> Trial<'a> {
    pub(super) fn contestants(&self) -> impl Iterator<Item = Contestant> + use<> {
        let fallback = self.plan.policy.fallback().map(|_| Contestant::Fallback);
        std::iter::once(Contestant::Primary).chain(fallback)
    }

    pub(super) fn plan_of(&self, contestant: Contestant) -> ContestantPlan<'a> {
        match (contestant, self.plan.policy.fallback()) {
            (Contestant::Fallback, Some(fallback)) => ContestantPlan {
                adapter: fallback.adapter,
                agent: fallback.agent.as_ref(),
                package: fallback.package.as_ref(),
            },
            _ => ContestantPlan {
                adapter: self.plan.adapter,
                agent: self.plan.agent.as_ref(),
                package: self.plan.package.as_ref(),
            },
        }
    }
}
