//! Whether the treatment of an agent reached the model: its context files, skills, prompt parts and MCP servers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One part of an agent's treatment, and whether it reached the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRecord {
    /// The kind of part.
    pub kind: DeliveryKind,
    /// The path of a file, the name of a skill or server, or the key of a prompt part.
    pub name: String,
    /// Where it was put, if it is a file or a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The SHA-256 of its content; absent for MCP servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether it was in a request to a model; null if that is unknown. A skill is delivered when its description is
    /// sent, an MCP server when its tools are offered.
    pub delivered: Option<bool>,
    /// The number of the first call with it, in the call log; null without a gateway.
    pub first_call: Option<u64>,
    /// The part of the request: `system`, `message`, `tool_result`, `tools`, or `session` without a gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in: Option<String>,
    /// About how many tokens it has (a quarter of its bytes); null if it was not delivered or is not a text.
    pub approx_tokens: Option<u64>,
    /// Whether a skill fired or a tool of a server was called; null if that is unknown. Absent for files and prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<bool>,
    /// Whether the agent connected to an MCP server; absent if it does not report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
}

/// The kind of a treatment's part.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryKind {
    /// A file of the agent.
    File,
    /// A skill.
    Skill,
    /// A part of the prompt.
    Prompt,
    /// An MCP server.
    McpServer,
}

impl DeliveryKind {
    /// The name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryKind::File => "file",
            DeliveryKind::Skill => "skill",
            DeliveryKind::Prompt => "prompt",
            DeliveryKind::McpServer => "MCP server",
        }
    }
}

/// The delivery of one part of an agent's treatment, over all trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliverySummary {
    /// The agent.
    pub agent: String,
    /// The kind of part.
    pub kind: DeliveryKind,
    /// Its path, name or key.
    pub name: String,
    /// Its digest; absent for MCP servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The trials in which its delivery is known.
    pub known: usize,
    /// The trials in which it reached the model.
    pub delivered: usize,
    /// The trials in which a skill fired or a server was used; absent for files and prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<usize>,
    /// `delivered`, `not delivered` if it reached no call of any trial, or `unknown`.
    pub state: DeliveryState,
}

/// Whether a treatment's part was delivered in any trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It reached a call of at least one trial.
    Delivered,
    /// It reached no call of any trial.
    NotDelivered,
    /// No trial can tell.
    Unknown,
}

impl DeliverySummary {
    /// The line for a part that was not delivered; `None` for all others.
    pub fn warning(&self) -> Option<String> {
        (self.state == DeliveryState::NotDelivered).then(|| {
            format!(
                "not delivered: {} `{}` of agent `{}` reached no model call in any of {} trials, so that its results say nothing about it",
                self.kind.as_str(),
                self.name,
                self.agent,
                self.known
            )
        })
    }
}

/// Sums the delivery of trials up, by agent and part. Parts with different digests are different.
pub fn sum_delivery<'a>(
    trials: impl IntoIterator<Item = (&'a str, &'a [DeliveryRecord])>,
) -> Vec<DeliverySummary> {
    let mut sums: BTreeMap<_, DeliverySummary> = BTreeMap::new();
    for (agent, parts) in trials {
        for part in parts {
            let key = (agent, part.kind, &part.name, &part.digest);
            let sum = sums.entry(key).or_insert_with(|| DeliverySummary {
                agent: agent.to_owned(),
                kind: part.kind,
                name: part.name.clone(),
                digest: part.digest.clone(),
                known: 0,
                delivered: 0,
                used: None,
                state: DeliveryState::Unknown,
            });
            sum.known += usize::from(part.delivered.is_some());
            sum.delivered += usize::from(part.delivered == Some(true));
            if let Some(used) = part.used {
                *sum.used.get_or_insert_default() += usize::from(used);
            }
            sum.state = match (sum.delivered, sum.known) {
                (0, 0) => DeliveryState::Unknown,
                (0, _) => DeliveryState::NotDelivered,
                _ => DeliveryState::Delivered,
            };
        }
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, delivered: Option<bool>, used: Option<bool>) -> DeliveryRecord {
        DeliveryRecord {
            kind: DeliveryKind::Skill,
            name: name.to_owned(),
            place: None,
            digest: None,
            delivered,
            first_call: None,
            found_in: None,
            approx_tokens: None,
            used,
            connected: None,
        }
    }

    #[test]
    fn part_that_reached_no_call_of_any_trial_is_not_delivered() {
        use DeliveryState::{Delivered, NotDelivered, Unknown};

        let one = [part("a", Some(false), Some(false)), part("b", None, None)];
        let other = [part("a", None, None), part("c", Some(true), Some(true))];
        let sums = sum_delivery([("x", &one[..]), ("x", &other[..]), ("y", &other[..])]);
        let found: Vec<_> = sums
            .iter()
            .map(|it| (it.agent.as_str(), it.name.as_str(), it.state, it.used))
            .collect();
        assert_eq!(
            found,
            [
                ("x", "a", NotDelivered, Some(0)),
                ("x", "b", Unknown, None),
                ("x", "c", Delivered, Some(1)),
                ("y", "a", Unknown, None),
                ("y", "c", Delivered, Some(1)),
            ]
        );
        assert!(sums[0].warning().unwrap().contains("any of 1 trials"));
        assert!(sums[1..].iter().all(|sum| sum.warning().is_none()));
    }
}
