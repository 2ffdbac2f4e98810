//! Policies: checks requests of a key and changes them before they are sent.

use bytes::Bytes;
use proctor_model_api::{Kind, Route, Wire};
use serde::{Deserialize, Serialize};

use super::scan::{Edit, Object, apply};
use super::server_tools::{self, Found, ServerTools};

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
    "background",
    "n",
    "service_tier",
    "serviceTier",
    "speed",
];

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

/// The rules for one key. The default changes nothing, and forbids only calls whose usage is never reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The allowed models; a `*` at the end matches any suffix. Empty: all models.
    pub models: Vec<String>,
    /// Models that are replaced by others before anything else.
    pub rename: Vec<(String, String)>,
    /// The temperature of every request.
    pub temperature: Option<Setting<f64>>,
    /// The longest answer of every request, in tokens.
    pub max_tokens: Option<Setting<u64>>,
    /// How server tools are handled.
    pub server_tools: ServerTools,
}

/// How a number in a request is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting<T> {
    /// It is this.
    Set(T),
    /// The client's value up to this one. Also used if the client sends none.
    AtMost(T),
}

impl<T: Copy + PartialOrd> Setting<T> {
    /// The value to write, if the client's is not good as it is.
    fn correction(self, asked: Option<T>) -> Option<T> {
        match (self, asked) {
            (Self::Set(value), Some(asked)) if asked == value => None,
            (Self::AtMost(most), Some(asked)) if asked <= most => None,
            (Self::Set(value) | Self::AtMost(value), _) => Some(value),
        }
    }
}

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

impl Policy {
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
        let Some(object) = Object::scan(&body, 0..body.len(), NAMES) else {
            return self.unreadable(asked, body);
        };
        if object.ambiguous {
            return Err(Forbidden {
                status: 400,
                message: "the request names a field twice".to_owned(),
            });
        }
        if route.model.is_none() {
            asked.model = object.text(&body, "model");
        }
        asked.stream |= object.is_true(&body, "stream");
        let mut change = Change {
            wire: route.wire,
            body: &body,
            object,
            edits: Vec::new(),
            asked,
        };
        self.change_model(&mut change)?;
        if route.kind == Kind::Generate {
            change.refuse_background()?;
            change.note_tier();
            if self.server_tools == ServerTools::Refuse {
                change.remove_server_tools()?;
            }
            self.change_numbers(&mut change);
            change.ask_for_usage();
        }
        let Change {
            edits, mut asked, ..
        } = change;
        asked.body = apply(&body, edits);
        Ok(asked)
    }

    /// A body that is not a JSON object. The provider reports the error, unless the policy has to
    /// know what is in it.
    fn unreadable(
        &self,
        mut asked: CheckedRequest,
        body: Bytes,
    ) -> Result<CheckedRequest, Forbidden> {
        if *self != Self::default() && !body.is_empty() {
            return Err(Forbidden {
                status: 400,
                message: "the request body is not a JSON object".to_owned(),
            });
        }
        asked.body = body;
        Ok(asked)
    }

    fn change_model(&self, change: &mut Change<'_>) -> Result<(), Forbidden> {
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

    fn change_numbers(&self, change: &mut Change<'_>) {
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

fn forbidden_model(model: &str) -> Forbidden {
    Forbidden {
        status: 403,
        message: format!("the model {model} is not allowed for this key"),
    }
}

fn forbidden_tool(tool: &str) -> Forbidden {
    Forbidden {
        status: 400,
        message: format!(
            "the tool {tool} runs at the provider and is not allowed in this network (`gateway.server_tools: allow` lets it pass)"
        ),
    }
}

/// Whether a name is meant by a rule, which may end in `*`.
fn matches(rule: &str, name: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => rule == name,
    }
}

/// Where a number belongs that the request does not have yet.
#[derive(Clone, Copy)]
enum Base {
    /// Into the scanned object.
    Here,
    /// Into a new object of this name at the top.
    New(&'static str),
}

/// A request on its way to be changed.
struct Change<'a> {
    wire: Wire,
    body: &'a Bytes,
    object: Object,
    edits: Vec<Edit>,
    asked: CheckedRequest,
}

impl Change<'_> {
    fn rename(&mut self, from: &str, to: &str) {
        if self.wire == Wire::Gemini {
            self.asked.path = self.asked.path.replacen(from, to, 1);
        } else {
            let quoted = serde_json::Value::from(to).to_string();
            self.edits.push(self.object.set("model", &quoted));
        }
        self.asked.sent_model = Some(to.to_owned());
        self.asked.notes.push(format!("model: {from} -> {to}"));
    }

    /// Refuses responses that the provider finishes after the call has ended: no call reports their usage.
    fn refuse_background(&self) -> Result<(), Forbidden> {
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
    fn note_tier(&mut self) {
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

    /// Refuses tools that the provider runs itself, and leaves out those that are only offered.
    fn remove_server_tools(&mut self) -> Result<(), Forbidden> {
        for name in ["mcp_servers", "web_search_options"] {
            let value = self.object.find(name).map(|range| &self.body[range]);
            let is_set = |value: &[u8]| {
                let nothing = [&b"null"[..], b"[]"];
                !nothing.contains(&value.trim_ascii())
            };
            if value.is_some_and(is_set) {
                return Err(forbidden_tool(name));
            }
        }
        let model = self.asked.effective_model().unwrap_or_default();
        if self.wire == Wire::OpenAiChat && model.contains("-search-") {
            return Err(forbidden_tool(model));
        }
        let Some(range) = self.object.find("tools") else {
            return Ok(());
        };
        match server_tools::look(self.wire, &self.body[range]) {
            Found::Nothing => {}
            Found::Tool(name) => return Err(forbidden_tool(&name)),
            Found::Without(rest) => {
                self.edits.push(self.object.set("tools", &rest));
                self.asked
                    .notes
                    .push("tools: web_search removed".to_owned());
            }
        }
        Ok(())
    }

    /// The object that has the numbers.
    fn numbers(&self) -> (Object, Base) {
        if self.wire != Wire::Gemini {
            return (self.object.clone(), Base::Here);
        }
        let range = self.object.find("generationConfig");
        let range = range.or_else(|| self.object.find("generation_config"));
        let inner = range.and_then(|range| Object::scan(self.body, range, GEMINI_NAMES));
        match inner {
            Some(inner) => (inner, Base::Here),
            None => (Object::default(), Base::New("generationConfig")),
        }
    }

    fn correct(&mut self, object: &Object, base: Base, corrections: &[(&str, String)]) {
        for (name, value) in corrections {
            let was = object.find(name).map(|range| &self.body[range]);
            let was = was.map_or("unset".into(), String::from_utf8_lossy);
            self.asked.notes.push(format!("{name}: {was} -> {value}"));
        }
        match base {
            Base::Here => {
                let edits = corrections
                    .iter()
                    .map(|(name, value)| object.set(name, value));
                self.edits.extend(edits);
            }
            Base::New(_) if corrections.is_empty() => {}
            Base::New(outer) => {
                let member = |(name, value): &(&str, String)| format!("\"{name}\":{value}");
                let members: Vec<String> = corrections.iter().map(member).collect();
                let inner = format!("{{{}}}", members.join(","));
                self.edits.push(self.object.set(outer, &inner));
            }
        }
    }

    /// Chat completions report the usage of a stream only on request.
    fn ask_for_usage(&mut self) {
        if self.wire != Wire::OpenAiChat || !self.asked.stream {
            return;
        }
        let options = self.object.find("stream_options");
        let inner = options
            .clone()
            .and_then(|range| Object::scan(self.body, range, &["include_usage"]));
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

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, Method};

    use super::*;
    use proctor_model_api::route;

    fn run(policy: &Policy, path: &str, body: &str) -> Result<(String, CheckedRequest), Forbidden> {
        let route = route(&Method::POST, path, &HeaderMap::new()).unwrap();
        let asked = policy.apply(&route, Bytes::copy_from_slice(body.as_bytes()))?;
        Ok((String::from_utf8(asked.body.to_vec()).unwrap(), asked))
    }

    #[test]
    fn calls_that_never_report_their_usage_are_refused() {
        let refused = |body: &str| run(&Policy::default(), "/v1/responses", body).is_err();
        assert!(refused(r#"{"model":"m","background":true}"#));
        assert!(refused(r#"{"model":"m","b\u0061ckground": true }"#));
        assert!(refused(r#"{"model":"m","background":1}"#));
        assert!(!refused(r#"{"model":"m","background":false}"#));
        assert!(!refused(r#"{"model":"m","background":null}"#));
    }

    #[test]
    fn choices_and_tiers_with_other_prices_are_noted() {
        for (path, body, choices, has_other_price) in [
            ("/v1/chat/completions", r#"{"n":8}"#, Some(8), false),
            (
                "/v1beta/models/g:generateContent",
                r#"{"generationConfig":{"candidateCount":4}}"#,
                Some(4),
                false,
            ),
            (
                "/v1/responses",
                r#"{"service_tier":"priority"}"#,
                None,
                true,
            ),
            ("/v1/responses", r#"{"service_tier":"auto"}"#, None, false),
            ("/v1/messages", r#"{"speed":"fast"}"#, None, true),
            (
                "/v1/messages",
                r#"{"service_tier":"standard_only"}"#,
                None,
                false,
            ),
        ] {
            let (_, asked) = run(&Policy::default(), path, body).unwrap();
            assert_eq!(asked.choices, choices, "{body}");
            assert_eq!(asked.has_other_price, has_other_price, "{body}");
        }
    }

    #[test]
    fn requests_are_unchanged_without_a_policy() {
        let body = "{ \"model\" :\"m\", \"messages\":[ ], \"max_tokens\": 7 }";
        let (sent, asked) = run(&Policy::default(), "/v1/messages", body).unwrap();
        assert_eq!(sent, body);
        assert_eq!(
            (asked.model.as_deref(), asked.max_tokens),
            (Some("m"), Some(7))
        );
        assert!(asked.notes.is_empty());
    }

    #[test]
    fn temperature_and_length_are_set_and_clamped_for_every_api() {
        let policy = Policy {
            temperature: Some(Setting::Set(0.5)),
            max_tokens: Some(Setting::AtMost(100)),
            ..Policy::default()
        };
        let cases = [
            (
                "/v1/messages",
                r#"{"model":"m","max_tokens":900,"temperature":1}"#,
                r#"{"model":"m","max_tokens":100,"temperature":0.5}"#,
            ),
            (
                "/v1/messages",
                r#"{"max_tokens":9,"temperature":0.5}"#,
                r#"{"max_tokens":9,"temperature":0.5}"#,
            ),
            (
                "/v1/chat/completions",
                r#"{"max_tokens":900,"temperature":0.5}"#,
                r#"{"max_tokens":100,"temperature":0.5}"#,
            ),
            (
                "/v1/responses",
                r#"{"temperature":0.5,"max_output_tokens":900}"#,
                r#"{"temperature":0.5,"max_output_tokens":100}"#,
            ),
            (
                "/v1beta/models/g:generateContent",
                r#"{"generationConfig":{"temperature":2,"maxOutputTokens":5}}"#,
                r#"{"generationConfig":{"temperature":0.5,"maxOutputTokens":5}}"#,
            ),
        ];
        for (path, body, expected) in cases {
            assert_eq!(run(&policy, path, body).unwrap().0, expected, "{path}");
        }
        let (sent, asked) = run(&policy, "/v1/messages", r#"{"model":"m"}"#).unwrap();
        let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
        assert_eq!(
            (&sent["max_tokens"], &sent["temperature"]),
            (&100.into(), &0.5.into())
        );
        assert_eq!(
            asked.notes,
            ["max_tokens: unset -> 100", "temperature: unset -> 0.5"]
        );
    }

    #[test]
    fn gemini_config_is_added_if_missing() {
        let policy = Policy {
            temperature: Some(Setting::Set(0.0)),
            ..Policy::default()
        };
        let (sent, _) = run(&policy, "/models/g:generateContent", r#"{"contents":[]}"#).unwrap();
        assert_eq!(
            sent,
            r#"{"generationConfig":{"temperature":0},"contents":[]}"#
        );
    }

    #[test]
    fn model_is_renamed_in_body_or_path() {
        let policy = Policy {
            rename: vec![("old*".to_owned(), "new".to_owned())],
            models: vec!["new".to_owned()],
            ..Policy::default()
        };
        let (sent, asked) = run(&policy, "/v1/messages", r#"{"model":"old-1"}"#).unwrap();
        assert_eq!(sent, r#"{"model":"new"}"#);
        assert_eq!(asked.effective_model(), Some("new"));
        let (_, asked) = run(&policy, "/models/old:generateContent", "{}").unwrap();
        assert_eq!(asked.path, "/v1beta/models/new:generateContent");
    }

    #[test]
    fn forbidden_model_is_refused_in_every_form() {
        let policy = Policy {
            models: vec!["good*".to_owned()],
            ..Policy::default()
        };
        assert!(run(&policy, "/v1/messages", r#"{"model":"good-1"}"#).is_ok());
        for body in [
            r#"{"model":"bad"}"#,
            r#"{"mod\u0065l":"bad"}"#,
            r#"{"model":"bad","model":"good"}"#,
            r#"{"messages":[]}"#,
            "[]",
        ] {
            assert!(run(&policy, "/v1/messages", body).is_err(), "{body}");
        }
        assert_eq!(
            run(&policy, "/models/bad:generateContent", "{}")
                .unwrap_err()
                .status,
            403
        );
    }

    #[test]
    fn server_tools_are_refused_without_network() {
        let closed = Policy {
            server_tools: ServerTools::Refuse,
            ..Policy::default()
        };
        let cases = [
            (
                "/v1/messages",
                r#"{"tools":[{"type":"web_search_20250305"}]}"#,
                "web_search_20250305",
            ),
            (
                "/v1/messages",
                r#"{"mcp_servers":[{"url":"https://x"}]}"#,
                "mcp_servers",
            ),
            (
                "/v1/messages",
                r#"{"tools":[],"tools":[{"type":"web_fetch_1"}]}"#,
                "twice",
            ),
            ("/v1/messages", "[]", "not a JSON object"),
            (
                "/v1/chat/completions",
                r#"{"web_search_options":{}}"#,
                "web_search_options",
            ),
            (
                "/v1/chat/completions",
                r#"{"model":"gpt-4o-search-preview"}"#,
                "gpt-4o-search-preview",
            ),
            ("/v1/responses", r#"{"tools":[{"type":"mcp"}]}"#, "mcp"),
            (
                "/models/g:generateContent",
                r#"{"tools":[{"googleSearch":{}}]}"#,
                "googleSearch",
            ),
        ];
        for (path, body, name) in cases {
            let refused = run(&closed, path, body).unwrap_err();
            assert_eq!(refused.status, 400, "{body}");
            assert!(refused.message.contains(name), "{}", refused.message);
        }
        for (path, body, _) in &cases {
            let open = run(&Policy::default(), path, body);
            assert!(open.is_ok() || body.contains("],\"tools\""), "{body}");
        }
        for (path, body) in [
            (
                "/v1/messages",
                r#"{"tools":[{"name":"Bash"}],"mcp_servers":[]}"#,
            ),
            (
                "/v1/messages/count_tokens",
                r#"{"tools":[{"type":"web_search_1"}]}"#,
            ),
            (
                "/v1/responses",
                r#"{"tools":[{"type":"function","name":"f"}]}"#,
            ),
        ] {
            assert_eq!(run(&closed, path, body).unwrap().0, body);
        }
        let offered = r#"{"tools":[{"type":"function"},{"type":"web_search","external_web_access":false}],"model":"m"}"#;
        let (sent, asked) = run(&closed, "/v1/responses", offered).unwrap();
        assert_eq!(sent, r#"{"tools":[{"type":"function"}],"model":"m"}"#);
        assert_eq!(asked.notes, ["tools: web_search removed"]);
    }

    #[test]
    fn usage_is_requested_for_chat_streams() {
        let plain = Policy::default();
        let path = "/v1/chat/completions";
        let (sent, asked) = run(&plain, path, r#"{"stream":true}"#).unwrap();
        assert_eq!(
            sent,
            r#"{"stream_options":{"include_usage":true},"stream":true}"#
        );
        assert_eq!(asked.notes, ["stream_options.include_usage: added"]);
        let off = r#"{"stream":true,"stream_options":{"include_usage":false}}"#;
        assert_eq!(
            run(&plain, path, off).unwrap().0,
            off.replace("false", "true")
        );
        for same in [r#"{"stream":false}"#, &off.replace("false", "true")] {
            assert_eq!(run(&plain, path, same).unwrap().0, same);
        }
    }
}
