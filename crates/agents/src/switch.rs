//! Changing `agent.type` alone: an option of another agent is refused, with the agents that have
//! it.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_document::{Fault, FaultKind};
use schemars::generate::SchemaSettings;

use crate::{
    ADAPTERS,
    agent::{Adapter, Agent, AgentSection},
};

/// Turns a section into an agent of this kind. Faults about options of other agents are explained.
pub fn configure(
    adapter: &'static dyn Adapter,
    section: &AgentSection<'_>,
) -> Result<Box<dyn Agent>, Vec<Fault>> {
    let configured = adapter.configure(section);
    configured.map_err(|faults| {
        let faults = faults.into_iter();
        faults.map(|fault| explain(adapter, fault)).collect()
    })
}

/// Explains a key that is unknown here but known in another agent: it is not a typo.
fn explain(adapter: &dyn Adapter, fault: Fault) -> Fault {
    let FaultKind::UnknownKey(key) = &fault.kind else {
        return fault;
    };
    let others = ADAPTERS.iter();
    let others = others.filter(|other| keys(**other).iter().any(|it| it == key));
    let others: Vec<String> = others.map(|other| format!("`{}`", other.name())).collect();
    if others.is_empty() {
        return fault;
    }
    let message = format!("`{}` has no option for `{key}`", adapter.name());
    let hint = format!("remove it: it is an option of {}", others.join(", "));
    Fault::new(fault.span, message).with_hint(hint)
}

/// The keys of an adapter's `config`, read once from its schema.
fn keys(adapter: &dyn Adapter) -> &'static [String] {
    static ALL: LazyLock<BTreeMap<&'static str, Vec<String>>> = LazyLock::new(|| {
        let all = ADAPTERS.iter().copied();
        all.map(|adapter| (adapter.name(), read_keys(adapter)))
            .collect()
    });
    ALL.get(adapter.name()).map_or(&[], Vec::as_slice)
}

fn read_keys(adapter: &dyn Adapter) -> Vec<String> {
    let inline = SchemaSettings::draft2020_12();
    let inline = inline.with(|settings| settings.inline_subschemas = true);
    let schema = adapter.schema(&mut inline.into_generator());
    let properties = schema.get("properties").and_then(|it| it.as_object());
    let properties = properties.into_iter();
    properties.flat_map(|it| it.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proctor_document::parse_yaml;

    use super::*;
    use crate::agent::{Endpoint, LaunchContext};
    use proctor_record::record::cli::Installed;

    /// Keys of every agent.
    const COMMON: &str = "prompt: Fix leap.sh.";

    /// Required keys of an agent.
    fn needed(kind: &str) -> &'static str {
        match kind {
            "command" => "command: [sh, \"{model}\"]",
            "adapter" => "adapter: run.sh",
            _ => "",
        }
    }

    fn agent(
        adapter: &'static dyn Adapter,
        model: Option<&str>,
        config: &str,
    ) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let folder = tempfile::tempdir().unwrap();
        let folder = camino::Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(folder.join("run.sh"), "").unwrap();
        std::fs::write(folder.join("mcp.json"), "{}").unwrap();
        let node = parse_yaml(&format!("type: {}", adapter.name())).unwrap();
        let config = &format!("{COMMON}\n{}\n{config}", needed(adapter.name()));
        let config = parse_yaml(config).unwrap();
        configure(
            adapter,
            &AgentSection {
                node: &node,
                agent_name: None,
                model,
                config: &config,
                folder,
                prompt: None,
            },
        )
    }

    /// SC-009: the section is unchanged, and each agent starts its own program with the prompt.
    #[test]
    fn all_agents_start_with_the_same_section() {
        let endpoint = Endpoint {
            base_url: "http://127.0.0.1:4000".to_owned(),
            key: "k".to_owned(),
        };
        for adapter in ADAPTERS.iter().copied() {
            let name = adapter.name();
            let agent = agent(adapter, Some("claude-sonnet-4-5"), "");
            let agent = agent.unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
            let cli = adapter.cli().map(|cli| Installed {
                path: format!("/bin/{}", cli.program).into(),
                version: None,
                help: String::new(),
            });
            let launch = agent.launch(&LaunchContext {
                workspace: "/w".into(),
                home: "/h".into(),
                scratch: "/s".into(),
                prompt: "Fix leap.sh.",
                cli: cli.as_ref(),
                env: &BTreeMap::new(),
                is_root: false,
                socket: None,
                reference: None,
                definitions: &BTreeMap::new(),
                endpoint: Some(&endpoint),
                script: None,
                mcp_servers: &serde_json::Map::new(),
            });
            let launch = match launch {
                Ok(launch) => launch,
                // This context has no reference solution.
                Err(_) if name == "oracle" => continue,
                Err(error) => panic!("{name}: {error}"),
            };
            if let Some(cli) = cli {
                assert!(
                    launch.argv.contains(&cli.path.to_string()),
                    "{name}: {:?}",
                    launch.argv
                );
            }
            let input = format!("{:?}", launch.input);
            let files = launch
                .files
                .iter()
                .map(|(_, bytes)| String::from_utf8_lossy(bytes));
            let all: String = files
                .chain([input.into(), launch.argv.join(" ").into()])
                .collect();
            let takes_prompt = agent.prompt().is_some();
            // The debug output of bytes is a list of numbers; a session sends the prompt itself.
            let bytes = format!("{:?}", "Fix leap.sh.".as_bytes());
            let bytes = bytes.trim_matches(['[', ']']);
            let is_sent = all.contains("Fix leap.sh.") || all.contains(bytes);
            assert!(
                is_sent || !takes_prompt || all.contains("Session"),
                "{name}: {all}"
            );
        }
    }

    /// The variables and arguments that bypass the gateway are refused for all agents.
    #[test]
    fn no_agent_can_be_led_past_the_gateway() {
        use crate::replay::{Start, endpoint};
        let start = Start {
            endpoint: Some(endpoint()),
            ..Start::default()
        };
        for adapter in ADAPTERS.iter().copied() {
            let name = adapter.name();
            if matches!(name, "null" | "oracle" | "adapter") {
                continue;
            }
            let config = |more: serde_json::Value| {
                let mut config = serde_json::json!({"prompt": "x"});
                if name == "command" {
                    config["command"] = serde_json::json!(["sh"]);
                } else if !matches!(name, "claude-code") {
                    config["model"] = serde_json::json!("openai/gpt-4o");
                }
                for (key, value) in more.as_object().unwrap() {
                    config[key] = value.clone();
                }
                config
            };
            for variable in ["OPENAI_BASE_URL", "ANTHROPIC_API_BASE", "https_proxy"] {
                let config = config(serde_json::json!({"env": {variable: "http://elsewhere"}}));
                let error = start.launch(adapter, config).err();
                let error = error.unwrap_or_else(|| panic!("{name} takes {variable}"));
                assert!(
                    error.message.contains("bypass the gateway"),
                    "{name}: {error}"
                );
            }
            if name != "command" {
                let args = serde_json::json!({"args": ["--openai-api-base", "http://elsewhere"]});
                let error = start.launch(adapter, config(args)).err().unwrap();
                assert!(
                    error.message.contains("bypass the gateway"),
                    "{name}: {error}"
                );
            }
            let config =
                config(serde_json::json!({"env": {"OPENAI_API_KEY": "own", "NO_PROXY": "x"}}));
            assert!(start.launch(adapter, config).is_ok(), "{name}");
        }
    }

    #[test]
    fn model_is_known_from_settings_arguments_and_variables() {
        use serde_json::json;
        for (name, config) in [
            ("codex", json!({"args": ["-m", "x-1"]})),
            ("codex", json!({"args": ["-c", "model=\"x-1\""]})),
            ("gemini-cli", json!({"env": {"GEMINI_MODEL": "x-1"}})),
            ("qwen-code", json!({"args": ["--model=x-1"]})),
            ("copilot-cli", json!({"env": {"COPILOT_MODEL": "x-1"}})),
            ("opencode", json!({"args": ["-m", "x-1"]})),
            ("aider", json!({"env": {"AIDER_MODEL": "x-1"}})),
        ] {
            let adapter = crate::find(name).unwrap();
            let agent = crate::replay::configure(adapter, &config).unwrap();
            assert_eq!(agent.model(), Some("x-1"), "{name} {config}");
        }
    }

    /// A prompt reaches the CLI byte for byte, or is refused.
    #[test]
    fn prompts_are_handed_over_verbatim_or_refused() {
        use crate::replay::Start;
        let prompts = [
            "/help me",
            "!ls",
            "#note",
            "@README.md",
            "-x",
            "\n\n  first\r\nsecond\r\n\n",
            "日本語 🦀 \u{7f}",
        ];
        for adapter in ADAPTERS.iter().copied() {
            let name = adapter.name();
            if matches!(
                name,
                "null" | "oracle" | "adapter" | "qwen-code" | "mini-swe-agent"
            ) {
                continue;
            }
            let mut config = serde_json::json!({"prompt": "x"});
            if name == "command" {
                config["command"] = serde_json::json!(["sh"]);
            } else if name != "claude-code" {
                config["model"] = serde_json::json!("openai/gpt-4o");
            }
            for prompt in prompts {
                let start = Start {
                    prompt,
                    ..Start::default()
                };
                let launch = match start.launch(adapter, config.clone()) {
                    Ok(launch) => launch,
                    Err(error) => {
                        assert!(error.message.contains("command"), "{name}: {error}");
                        continue;
                    }
                };
                let input = match &launch.input {
                    crate::agent::Input::Bytes(bytes) => Some(bytes.as_slice()),
                    _ => None,
                };
                let files = launch.files.iter().map(|(_, bytes)| bytes.as_slice());
                let mut places = files.chain(input);
                // A session sends it itself.
                let is_session = launch.input == crate::agent::Input::Session;
                let is_argument = launch.argv.iter().any(|word| word.ends_with(prompt));
                let is_there = is_argument || places.any(|bytes| bytes == prompt.as_bytes());
                assert!(is_there || is_session, "{name}: {prompt:?}");
            }
        }
    }

    /// Every option of every agent, passed to every agent: it works, or it is refused with advice.
    #[test]
    fn unsupported_options_are_refused_with_advice() {
        let common = ["prompt", "prompt_file"];
        let all: BTreeSet<String> = ADAPTERS.iter().flat_map(|it| keys(*it)).cloned().collect();
        assert!(all.len() > 30, "{all:?}");
        let mut refused = 0;
        for adapter in ADAPTERS.iter().copied() {
            let own = keys(adapter);
            let foreign = all.iter().filter(|key| !own.contains(key));
            for key in foreign.filter(|key| !common.contains(&key.as_str())) {
                let name = adapter.name();
                let Err(faults) = agent(adapter, Some("claude-sonnet-4-5"), &format!("{key}: 1"))
                else {
                    panic!("{name} accepts `{key}` without effect");
                };
                let reported = faults
                    .iter()
                    .find(|it| it.message.contains(&format!("`{key}`")));
                let reported = reported.unwrap_or_else(|| panic!("{name}, {key}: {faults:?}"));
                assert!(reported.hint.is_some(), "{name}, {key}: {reported:?}");
                refused += 1;
            }
        }
        assert!(refused > 100, "{refused}");
    }
}
