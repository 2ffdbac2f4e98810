//! Names of trials: `AGENT/TASK#N`, or a unique start of it.

use std::fmt;

/// A trial by its agent, task and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialName {
    pub agent: String,
    pub task: String,
    pub number: u32,
}

impl fmt::Display for TrialName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}#{}", self.agent, self.task, self.number)
    }
}

/// The trials that a text can stand for. An agent or task with exactly this name is preferred to
/// those that start with it.
pub fn matches(names: &[TrialName], text: &str) -> Vec<usize> {
    let (text, number) = match text.rsplit_once('#') {
        Some((text, number)) => match number.parse::<u32>() {
            Ok(number) => (text, Some(number)),
            Err(_) => return Vec::new(),
        },
        None => (text, None),
    };
    let (agent, task) = text.split_once('/').unwrap_or((text, ""));
    let all: Vec<usize> = (0..names.len()).collect();
    let found = narrowed(all, agent, |at| &names[at].agent);
    let mut found = narrowed(found, task, |at| &names[at].task);
    found.retain(|at| number.is_none_or(|number| names[*at].number == number));
    found
}

/// Those whose name is exactly the text, else those whose name starts with it.
fn narrowed<'a>(all: Vec<usize>, text: &str, name: impl Fn(usize) -> &'a String) -> Vec<usize> {
    let exact: Vec<usize> = all.iter().copied().filter(|at| name(*at) == text).collect();
    if !exact.is_empty() {
        return exact;
    }
    let begins = |at: &usize| name(*at).starts_with(text);
    all.into_iter().filter(begins).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_starts_name_a_trial() {
        let name = |(agent, task, number): (&str, &str, u32)| TrialName {
            agent: agent.to_owned(),
            task: task.to_owned(),
            number,
        };
        let names = [
            ("claude", "fix", 1),
            ("claude", "fix", 2),
            ("claude", "fix-more", 1),
            ("claude-b", "a/b", 1),
            ("null", "fix", 1),
        ]
        .map(name);
        let table: [(&str, &[usize]); 9] = [
            ("claude/fix#2", &[1]),
            ("claude/fix", &[0, 1]),
            ("claude/fix-#1", &[2]),
            ("claude", &[0, 1, 2]),
            ("claude-/a", &[3]),
            ("claude-b/a/b#1", &[3]),
            ("n", &[4]),
            ("x", &[]),
            ("claude/fix#x", &[]),
        ];
        for (text, expect) in table {
            assert_eq!(matches(&names, text), expect, "{text}");
        }
        assert_eq!(names[3].to_string(), "claude-b/a/b#1");
    }
}
