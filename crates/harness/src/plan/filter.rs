//! Filters that select a part of a suite.

use proctor_record::fs::glob::Pattern;

use super::ResolvedSuite;
use crate::task::Task;

/// A filter of agents and tasks; an empty one selects everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Names of agents.
    pub agents: Vec<String>,
    /// Names of tasks: their own, their repo, or its last part.
    pub tasks: Vec<String>,
    /// Categories: exact, or all below one with `x/*`.
    pub categories: Vec<String>,
}

/// A filter without a match, with the known names.
#[derive(Debug, thiserror::Error)]
#[error("unknown {what} `{name}`")]
pub struct NoMatch {
    /// The kind of the name.
    pub what: &'static str,
    /// The name that matches nothing.
    pub name: String,
    /// The known names.
    pub known: Vec<String>,
}

impl Filter {
    /// Keeps the selected agents and tasks.
    pub fn apply(&self, suite: &mut ResolvedSuite) -> Result<(), NoMatch> {
        let agents: Vec<String> = names(suite.agents.iter().map(|agent| &agent.name));
        check("agent", &self.agents, &agents, |wanted| {
            agents.iter().any(|name| name == wanted)
        })?;
        let tasks = names(suite.tasks.iter().map(|task| &task.name));
        check("task", &self.tasks, &tasks, |wanted| {
            suite.tasks.iter().any(|task| task.is_called(wanted))
        })?;
        let known = suite.tasks.iter().filter_map(|task| task.category.as_ref());
        check("category", &self.categories, &names(known), |wanted| {
            suite.tasks.iter().any(|task| is_in(task, wanted))
        })?;
        suite
            .agents
            .retain(|agent| self.agents.is_empty() || self.agents.contains(&agent.name));
        let means = |list: &[String], fits: &dyn Fn(&String) -> bool| {
            list.is_empty() || list.iter().any(fits)
        };
        suite.tasks.retain(|task| {
            means(&self.tasks, &|name| task.is_called(name))
                && means(&self.categories, &|wanted| is_in(task, wanted))
        });
        if suite.tasks.is_empty() {
            return Err(NoMatch {
                what: "task in these categories",
                name: self.tasks.join(", "),
                known: tasks,
            });
        }
        Ok(())
    }
}

/// The distinct names, in order.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn is_in(task: &Task, wanted: &str) -> bool {
    let category = task.category.as_deref();
    category.is_some_and(|category| match wanted.strip_suffix("/*") {
        Some(above) => category
            .strip_prefix(above)
            .is_some_and(|rest| rest.starts_with('/')),
        None => Pattern::new(wanted).matches(category),
    })
}

fn check(
    what: &'static str,
    wanted: &[String],
    known: &[String],
    is_known: impl Fn(&str) -> bool,
) -> Result<(), NoMatch> {
    match wanted.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(NoMatch {
            what,
            name: name.clone(),
            known: known.to_vec(),
        }),
    }
}
