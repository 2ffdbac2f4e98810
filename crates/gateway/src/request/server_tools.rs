//! Tools that a provider runs itself: searches, fetches, remote MCP servers, hosted interpreters. They
//! reach the Internet from the provider's machines, even if the client has no network.
//!
//! Known tools of the client pass; everything else counts as the provider's, so that a tool that is new
//! there does not open a closed network.

use std::borrow::Cow;
use std::collections::BTreeMap;

use proctor_model_api::Wire;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// How requests with server tools, which the provider runs, are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerTools {
    /// They pass.
    #[default]
    Allow,
    /// They are refused with an error that names the tool.
    Refuse,
}

/// The server tools in a list of tools.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundTools {
    Nothing,
    /// The list without a search of the provider's cache. Codex offers that in every request, so that
    /// a refusal would end it.
    Without(String),
    Tool(String),
}

/// Tools of Anthropic's API that the client runs, without the date at their end.
const ANTHROPIC_CLIENT: &[&str] = &[
    "bash_",
    "text_editor_",
    "computer_",
    "memory_",
    "tool_search_tool_",
];

/// Tools of OpenAI's APIs that the client runs.
const OPENAI_CLIENT: &[&str] = &[
    "function",
    "custom",
    "local_shell",
    "apply_patch",
    "computer",
    "computer_use_preview",
    "tool_search",
    "namespace",
];

/// Tools of Gemini's API that the client runs.
const GEMINI_CLIENT: &[&str] = &[
    "functionDeclarations",
    "function_declarations",
    "computerUse",
    "computer_use",
];

#[derive(Deserialize)]
struct ToolDeclaration<'a> {
    #[serde(borrow, default)]
    r#type: Option<Cow<'a, str>>,
    external_web_access: Option<bool>,
    environment: Option<ToolEnvironment<'a>>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolEnvironment<'a> {
    #[serde(borrow, default)]
    r#type: Option<Cow<'a, str>>,
}

/// Looks through the `tools` of a request.
pub(crate) fn look(wire: Wire, tools: &[u8]) -> FoundTools {
    let Ok(entries) = serde_json::from_slice::<Option<Vec<&RawValue>>>(tools) else {
        return FoundTools::Tool("tools".to_owned());
    };
    let entries = entries.unwrap_or_default();
    let mut kept = Vec::with_capacity(entries.len());
    for entry in &entries {
        match look_at(wire, entry.get()) {
            FoundTools::Nothing => kept.push(entry.get()),
            FoundTools::Without(_) => {}
            found @ FoundTools::Tool(_) => return found,
        }
    }
    if kept.len() == entries.len() {
        return FoundTools::Nothing;
    }
    FoundTools::Without(format!("[{}]", kept.join(",")))
}

fn look_at(wire: Wire, entry: &str) -> FoundTools {
    if wire == Wire::Gemini {
        return look_at_gemini(entry);
    }
    let Ok(tool) = serde_json::from_str::<ToolDeclaration<'_>>(entry) else {
        return FoundTools::Tool("tools".to_owned());
    };
    let kind = tool.r#type.as_deref().unwrap_or("custom");
    let is_client = match wire {
        Wire::Anthropic => {
            kind == "custom" || ANTHROPIC_CLIENT.iter().any(|name| kind.starts_with(name))
        }
        _ => OPENAI_CLIENT.contains(&kind) || is_local_shell(kind, tool.environment.as_ref()),
    };
    if wire == Wire::OpenAiResponses
        && kind == "web_search"
        && tool.external_web_access == Some(false)
    {
        return FoundTools::Without(String::new());
    }
    if !is_client {
        return FoundTools::Tool(kind.to_owned());
    }
    // A namespace holds a list of its own.
    match tool.tools.map(|tools| look(wire, tools.get().as_bytes())) {
        None | Some(FoundTools::Nothing) => FoundTools::Nothing,
        Some(FoundTools::Without(_)) => FoundTools::Tool("web_search".to_owned()),
        Some(found) => found,
    }
}

fn is_local_shell(kind: &str, environment: Option<&ToolEnvironment<'_>>) -> bool {
    let place = environment.and_then(|environment| environment.r#type.as_deref());
    kind == "shell" && place == Some("local")
}

/// An entry is an object with a member for each kind of tool.
fn look_at_gemini(entry: &str) -> FoundTools {
    let Ok(kinds) = serde_json::from_str::<BTreeMap<String, Option<IgnoredAny>>>(entry) else {
        return FoundTools::Tool("tools".to_owned());
    };
    let mut present = kinds.into_iter().filter(|(_, value)| value.is_some());
    match present.find(|(kind, _)| !GEMINI_CLIENT.contains(&kind.as_str())) {
        Some((kind, _)) => FoundTools::Tool(kind),
        None => FoundTools::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tools of the provider, and the names that refusals have for them.
    const PROVIDER_TOOLS: &[(Wire, &str, &str)] = &[
        (
            Wire::Anthropic,
            r#"[{"name":"Bash"},{"type":"web_search_20250305","name":"web_search"}]"#,
            "web_search_20250305",
        ),
        (
            Wire::Anthropic,
            r#"[{"type":"web_fetch_20250910"}]"#,
            "web_fetch_20250910",
        ),
        (
            Wire::Anthropic,
            r#"[{"type":"mcp_toolset","mcp_server_name":"x"}]"#,
            "mcp_toolset",
        ),
        (
            Wire::Anthropic,
            r#"[{"type":"code_execution_20250825"}]"#,
            "code_execution_20250825",
        ),
        (
            Wire::Anthropic,
            r#"[{"t\u0079pe":"web_\u0073earch_1"}]"#,
            "web_search_1",
        ),
        (
            Wire::Anthropic,
            r#"[{"type":"custom","type":"web_search_1"}]"#,
            "tools",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"web_search"}]"#,
            "web_search",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"web_search","external_web_access":true}]"#,
            "web_search",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"web_search_preview","external_web_access":false}]"#,
            "web_search_preview",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"mcp","server_url":"https://x"}]"#,
            "mcp",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"code_interpreter"}]"#,
            "code_interpreter",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"shell","environment":{"type":"container_auto"}}]"#,
            "shell",
        ),
        (
            Wire::OpenAiResponses,
            r#"[{"type":"namespace","tools":[{"type":"mcp"}]}]"#,
            "mcp",
        ),
        (Wire::OpenAiChat, r#"[{"type":"web_search"}]"#, "web_search"),
        (
            Wire::Gemini,
            r#"[{"functionDeclarations":[]},{"google_search":{}}]"#,
            "google_search",
        ),
        (
            Wire::Gemini,
            r#"[{"functionDeclarations":[],"urlContext":{}}]"#,
            "urlContext",
        ),
        (Wire::Gemini, r#"{"googleSearch":{}}"#, "tools"),
    ];

    #[track_caller]
    fn check(wire: Wire, tools: &str, expected: &FoundTools) {
        assert_eq!(look(wire, tools.as_bytes()), *expected, "{wire:?} {tools}");
    }

    #[test]
    fn client_tools_are_allowed() {
        let anthropic = r#"[{"name":"Bash","input_schema":{"type":"web_search"}},{"type":"custom","name":"web_fetch"},
            {"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"e"},{"type":null,"name":"n"}]"#;
        check(Wire::Anthropic, anthropic, &FoundTools::Nothing);
        let responses = r#"[{"type":"function","name":"web_search"},{"type":"custom","name":"apply_patch"},
            {"type":"local_shell"},{"type":"tool_search"},{"type":"shell","environment":{"type":"local"}},
            {"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]"#;
        check(Wire::OpenAiResponses, responses, &FoundTools::Nothing);
        let chat = r#"[{"type":"function","function":{"name":"f"}}]"#;
        check(Wire::OpenAiChat, chat, &FoundTools::Nothing);
        let gemini = r#"[{"functionDeclarations":[{"name":"google_search"}],"googleSearch":null}]"#;
        check(Wire::Gemini, gemini, &FoundTools::Nothing);
        for wire in [Wire::Anthropic, Wire::OpenAiResponses, Wire::Gemini] {
            check(wire, "[]", &FoundTools::Nothing);
            check(wire, "null", &FoundTools::Nothing);
        }
    }

    #[test]
    fn server_tools_are_named() {
        for (wire, tools, name) in PROVIDER_TOOLS {
            check(*wire, tools, &FoundTools::Tool((*name).to_owned()));
        }
    }

    #[test]
    fn optional_cached_search_is_removed() {
        let tools = r#"[{"type":"function", "name":"f"}, {"type":"web_search","external_web_access":false}]"#;
        let rest = r#"[{"type":"function", "name":"f"}]"#;
        check(
            Wire::OpenAiResponses,
            tools,
            &FoundTools::Without(rest.to_owned()),
        );
    }
}
