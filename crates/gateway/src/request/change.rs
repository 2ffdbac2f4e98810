//! The changes that a policy makes to one request.

use bytes::Bytes;
use proctor_model_api::Wire;

use super::remote_content;
use super::scan::{Edit, ScannedObject};
use super::server_tools::{self, FoundTools};

/// Inside Gemini's `generationConfig`.
const GEMINI_NAMES: &[&str] = &[
    "temperature",
    "maxOutputTokens",
    "max_output_tokens",
    "candidateCount",
    "candidate_count",
];

/// Service tiers that cost what the price list says.
const USUAL_TIERS: [&str; 4] = ["auto", "default", "standard", "standard_only"];

/// A request after the policy was applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CheckedRequest {
    /// The model as the client named it.
    pub(crate) model: Option<String>,
    /// The model as it is sent, if that is another one.
    pub(crate) sent_model: Option<String>,
    pub(crate) stream: bool,
    /// The longest response in tokens, if the request sets one.
    pub(crate) max_tokens: Option<u64>,
    /// How many alternative responses are requested, if the request says so.
    pub(crate) choices: Option<u64>,
    /// Whether the requested service tier has prices of its own.
    pub(crate) has_other_price: bool,
    /// The body to send.
    pub(crate) body: Bytes,
    /// The path to send.
    pub(crate) path: String,
    /// The changes that were made.
    pub(crate) notes: Vec<String>,
}

impl CheckedRequest {
    /// The model that is sent.
    pub(crate) fn effective_model(&self) -> Option<&str> {
        self.sent_model.as_deref().or(self.model.as_deref())
    }
}

/// Why a request is not passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forbidden {
    pub(crate) status: u16,
    pub(crate) message: String,
}

fn forbidden_tool(tool: &str) -> Forbidden {
    Forbidden {
        status: 400,
        message: format!(
            "the tool {tool} runs at the provider and is not allowed in this network (`gateway.server_tools: allow` lets it pass)"
        ),
    }
}

/// Members that let the provider search, or run a stored prompt with tools of its own.
const SEARCHES: [&str; 6] = [
    "mcp_servers",
    "web_search_options",
    "search_parameters",
    "enable_search",
    "plugins",
    "prompt",
];

/// Members with the texts, images and files of a conversation.
const CONVERSATIONS: [&str; 6] = [
    "messages",
    "input",
    "contents",
    "system",
    "systemInstruction",
    "system_instruction",
];

/// Pairs of names for one member of Gemini's API.
const ALIASES: [[&str; 2]; 4] = [
    ["generationConfig", "generation_config"],
    ["systemInstruction", "system_instruction"],
    ["maxOutputTokens", "max_output_tokens"],
    ["candidateCount", "candidate_count"],
];

/// Where a number belongs that the request does not have yet.
#[derive(Clone, Copy)]
pub(super) enum ChangeBase {
    /// Into the scanned object.
    Here,
    /// Into a new object of this name at the top.
    New(&'static str),
}

/// A request on its way to be changed.
pub(super) struct RequestChange<'a> {
    pub(super) wire: Wire,
    pub(super) body: &'a Bytes,
    pub(super) object: ScannedObject,
    pub(super) edits: Vec<Edit>,
    pub(super) asked: CheckedRequest,
}

impl RequestChange<'_> {
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if self.wire == Wire::Gemini {
            self.asked.path = self.asked.path.replacen(from, to, 1);
        } else {
            let quoted = serde_json::Value::from(to).to_string();
            self.edits.push(self.object.set("model", &quoted));
        }
        self.asked.sent_model = Some(to.to_owned());
        self.asked.notes.push(format!("model: {from} -> {to}"));
    }

    /// Refuses a member that occurs twice, or under both of its names: readers disagree about which one counts.
    pub(super) fn refuse_ambiguous(&self) -> Result<(), Forbidden> {
        let (numbers, _) = self.numbers();
        let is_gemini = self.wire == Wire::Gemini;
        let is_double = |object: &ScannedObject| {
            let has = |name: &&str| object.find(name).is_some();
            object.ambiguous || (is_gemini && ALIASES.iter().any(|pair| pair.iter().all(has)))
        };
        if is_double(&self.object) || is_double(&numbers) {
            return Err(Forbidden {
                status: 400,
                message: "the request names a field twice".to_owned(),
            });
        }
        Ok(())
    }

    /// Refuses responses that the provider finishes after the call has ended: no call reports their usage.
    pub(super) fn refuse_background(&self) -> Result<(), Forbidden> {
        let value = self.object.find("background").map(|it| &self.body[it]);
        let is_off = value.is_none_or(|value| value == b"false" || value == b"null");
        if self.wire != Wire::OpenAiResponses || is_off {
            return Ok(());
        }
        Err(Forbidden {
            status: 400,
            message: "`background` is not allowed: such a response does not report its usage"
                .to_owned(),
        })
    }

    /// Notes a service tier that the price list does not cover.
    pub(super) fn note_tier(&mut self) {
        for name in ["service_tier", "serviceTier", "speed"] {
            let tier = self.object.text(self.body, name);
            let is_usual = |tier: &String| USUAL_TIERS.contains(&tier.to_lowercase().as_str());
            if let Some(tier) = tier.filter(|tier| !is_usual(tier)) {
                self.asked.has_other_price = true;
                self.asked
                    .notes
                    .push(format!("cost unknown: {name} is {tier}"));
            }
        }
    }

    /// Refuses images and files that the provider would fetch.
    pub(super) fn refuse_remote_content(&self) -> Result<(), Forbidden> {
        let values = CONVERSATIONS.iter().filter_map(|it| self.object.find(it));
        let mut found = values.filter_map(|range| remote_content::find(&self.body[range]));
        found.next().map_or(Ok(()), |name| {
            Err(Forbidden {
                status: 400,
                message: format!(
                    "`{name}` has an address that the provider would fetch, which is not allowed in this network: send the data itself (`gateway.server_tools: allow` lets it pass)"
                ),
            })
        })
    }

    /// Refuses tools that the provider runs itself, and leaves out those that are only offered.
    pub(super) fn remove_server_tools(&mut self) -> Result<(), Forbidden> {
        for name in SEARCHES {
            let value = self.object.find(name).map(|range| &self.body[range]);
            let is_set = |value: &[u8]| {
                let nothing = [&b"null"[..], b"[]", b"false"];
                !nothing.contains(&value.trim_ascii())
            };
            if value.is_some_and(is_set) {
                return Err(forbidden_tool(name));
            }
        }
        let model = self.asked.effective_model().unwrap_or_default();
        let searches = model.contains("-search-") || model.ends_with(":online");
        if self.wire == Wire::OpenAiChat && searches {
            return Err(forbidden_tool(model));
        }
        let Some(range) = self.object.find("tools") else {
            return Ok(());
        };
        match server_tools::look(self.wire, &self.body[range]) {
            FoundTools::Nothing => {}
            FoundTools::Tool(name) => return Err(forbidden_tool(&name)),
            FoundTools::Without(rest) => {
                self.edits.push(self.object.set("tools", &rest));
                self.asked
                    .notes
                    .push("tools: web_search removed".to_owned());
            }
        }
        Ok(())
    }

    /// The object that has the numbers.
    pub(super) fn numbers(&self) -> (ScannedObject, ChangeBase) {
        if self.wire != Wire::Gemini {
            return (self.object.clone(), ChangeBase::Here);
        }
        let range = self.object.find("generationConfig");
        let range = range.or_else(|| self.object.find("generation_config"));
        let inner = range.and_then(|range| ScannedObject::scan(self.body, range, GEMINI_NAMES));
        match inner {
            Some(inner) => (inner, ChangeBase::Here),
            None => (
                ScannedObject::default(),
                ChangeBase::New("generationConfig"),
            ),
        }
    }

    pub(super) fn correct(
        &mut self,
        object: &ScannedObject,
        base: ChangeBase,
        corrections: &[(&str, String)],
    ) {
        for (name, value) in corrections {
            let was = object.find(name).map(|range| &self.body[range]);
            let was = was.map_or("unset".into(), String::from_utf8_lossy);
            self.asked.notes.push(format!("{name}: {was} -> {value}"));
        }
        match base {
            ChangeBase::Here => {
                let edits = corrections
                    .iter()
                    .map(|(name, value)| object.set(name, value));
                self.edits.extend(edits);
            }
            ChangeBase::New(_) if corrections.is_empty() => {}
            ChangeBase::New(outer) => {
                let member = |(name, value): &(&str, String)| format!("\"{name}\":{value}");
                let members: Vec<String> = corrections.iter().map(member).collect();
                let inner = format!("{{{}}}", members.join(","));
                self.edits.push(self.object.set(outer, &inner));
            }
        }
    }

    /// Chat completions report the usage of a stream only on request.
    pub(super) fn ask_for_usage(&mut self) {
        if self.wire != Wire::OpenAiChat || !self.asked.stream {
            return;
        }
        let options = self.object.find("stream_options");
        let inner = options
            .clone()
            .and_then(|range| ScannedObject::scan(self.body, range, &["include_usage"]));
        let edit = match (&inner, options) {
            (Some(inner), Some(_)) if inner.is_true(self.body, "include_usage") => return,
            (Some(inner), Some(_)) => inner.set("include_usage", "true"),
            _ => self
                .object
                .set("stream_options", "{\"include_usage\":true}"),
        };
        self.edits.push(edit);
        self.asked
            .notes
            .push("stream_options.include_usage: added".to_owned());
    }
}
