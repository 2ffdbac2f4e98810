//! Policies: checks requests of a key and changes them before they are sent.

use bytes::Bytes;
use proctor_model_api::{Kind, Route, Wire};
use serde::{Deserialize, Serialize};

use super::change::{CheckedRequest, Forbidden, RequestChange};
use super::scan::{ScannedObject, apply};
use super::server_tools::ServerTools;

/// The members of a request body that policies need.
const NAMES: &[&str] = &[
    "model",
    "stream",
    "stream_options",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "generationConfig",
    "generation_config",
    "tools",
    "mcp_servers",
    "web_search_options",
    "search_parameters",
    "enable_search",
    "plugins",
    "prompt",
    "messages",
    "input",
    "contents",
    "system",
    "systemInstruction",
    "system_instruction",
    "background",
    "n",
    "service_tier",
    "serviceTier",
    "speed",
];

/// The rules for one key. The default changes nothing, and forbids only calls whose usage is never reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestPolicy {
    /// The allowed models; a `*` at the end matches any suffix. Empty: all models.
    pub models: Vec<String>,
    /// Models that are replaced by others before anything else.
    pub rename: Vec<(String, String)>,
    /// The temperature of every request.
    pub temperature: Option<NumberSetting<f64>>,
    /// The longest answer of every request, in tokens.
    pub max_tokens: Option<NumberSetting<u64>>,
    /// How server tools are handled.
    pub server_tools: ServerTools,
}

/// How a number in a request is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberSetting<T> {
    /// It is this.
    Set(T),
    /// The client's value up to this one. Also used if the client sends none.
    AtMost(T),
}

impl<T: Copy + PartialOrd> NumberSetting<T> {
    /// The value to write, if the client's is not good as it is.
    fn correction(self, asked: Option<T>) -> Option<T> {
        match (self, asked) {
            (Self::Set(value), Some(asked)) if asked == value => None,
            (Self::AtMost(most), Some(asked)) if asked <= most => None,
            (Self::Set(value) | Self::AtMost(value), _) => Some(value),
        }
    }
}

impl RequestPolicy {
    /// Checks a request and applies the policy to it.
    pub(crate) fn apply(&self, route: &Route, body: Bytes) -> Result<CheckedRequest, Forbidden> {
        let mut asked = CheckedRequest {
            path: route.path.clone(),
            stream: route.streams,
            model: route.model.clone(),
            ..CheckedRequest::default()
        };
        if route.kind == Kind::Lookup {
            asked.body = body;
            return Ok(asked);
        }
        let Some(object) = ScannedObject::scan(&body, 0..body.len(), NAMES) else {
            return unreadable(asked, body);
        };
        if route.model.is_none() {
            asked.model = object.text(&body, "model");
        }
        asked.stream |= object.is_true(&body, "stream");
        let mut change = RequestChange {
            wire: route.wire,
            body: &body,
            object,
            edits: Vec::new(),
            asked,
        };
        change.refuse_ambiguous()?;
        self.change_model(&mut change)?;
        if self.server_tools == ServerTools::Refuse {
            change.refuse_remote_content()?;
        }
        if route.kind == Kind::Generate {
            change.refuse_background()?;
            change.note_tier();
            if self.server_tools == ServerTools::Refuse {
                change.remove_server_tools()?;
            }
            self.change_numbers(&mut change);
            change.ask_for_usage();
        }
        let RequestChange {
            edits, mut asked, ..
        } = change;
        asked.body = apply(&body, edits);
        Ok(asked)
    }

    fn change_model(&self, change: &mut RequestChange<'_>) -> Result<(), Forbidden> {
        let Some(model) = change.asked.model.clone() else {
            if self.models.is_empty() {
                return Ok(());
            }
            return Err(forbidden_model("without a name"));
        };
        let renamed = self.rename.iter().find(|(from, _)| matches(from, &model));
        let effective = renamed.map_or(&model, |(_, to)| to);
        if !self.models.is_empty() && !self.models.iter().any(|rule| matches(rule, effective)) {
            return Err(forbidden_model(effective));
        }
        if *effective != model {
            change.rename(&model, effective);
        }
        Ok(())
    }

    fn change_numbers(&self, change: &mut RequestChange<'_>) {
        let (object, base) = change.numbers();
        let limits: &[&str] = match change.wire {
            Wire::Anthropic => &["max_tokens"],
            Wire::OpenAiChat => &["max_completion_tokens", "max_tokens"],
            Wire::OpenAiResponses => &["max_output_tokens"],
            Wire::Gemini => &["maxOutputTokens", "max_output_tokens"],
        };
        let given = limits.iter().find(|name| object.find(name).is_some());
        let name = given.unwrap_or(&limits[0]);
        let asked = object.whole(change.body, name);
        change.asked.max_tokens = asked;
        let choices = ["n", "candidateCount", "candidate_count"];
        let choices = choices.map(|name| object.whole(change.body, name));
        change.asked.choices = choices.into_iter().flatten().max();
        let mut corrections = Vec::new();
        if let Some(value) = self.max_tokens.and_then(|s| s.correction(asked)) {
            change.asked.max_tokens = Some(value);
            corrections.push((*name, value.to_string()));
        }
        let asked = object.number(change.body, "temperature");
        if let Some(value) = self.temperature.and_then(|s| s.correction(asked)) {
            corrections.push(("temperature", value.to_string()));
        }
        change.correct(&object, base, &corrections);
    }
}

/// A body that is not a JSON object. It may be compressed or in another encoding that the provider
/// understands, so it is refused: no rule could be applied to it.
fn unreadable(mut asked: CheckedRequest, body: Bytes) -> Result<CheckedRequest, Forbidden> {
    if !body.is_empty() {
        return Err(Forbidden {
            status: 400,
            message: "the request body is not a JSON object without compression".to_owned(),
        });
    }
    asked.body = body;
    Ok(asked)
}

fn forbidden_model(model: &str) -> Forbidden {
    Forbidden {
        status: 403,
        message: format!("the model {model} is not allowed for this key"),
    }
}

/// Whether a name is meant by a rule, which may end in `*`.
fn matches(rule: &str, name: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => rule == name,
    }
}

#[cfg(test)]
mod tests;
