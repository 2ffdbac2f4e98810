//! Changing `agent.type` alone: an option that the new agent does not have, and another one has, is
//! refused by name, with who has it.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_document::{Fault, FaultKind};
use schemars::generate::SchemaSettings;

use crate::{
    ADAPTERS,
    agent::{Adapter, Agent, AgentSection},
};

/// Turn a section into an agent of this kind. Complaints about options of other agents say so.
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

/// A key that is unknown here but known elsewhere is not a typo.
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
    let hint = format!("leave it out: it is one of {}", others.join(", "));
    Fault::new(fault.span, message).with_hint(hint)
}

/// The keys of an adapter's `config`, read from its schema once.
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
    const COMMON: &str = "prompt: Mend leap.sh.";

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

    /// SC-009: the section stays as it is, and each agent starts its own program with the prompt.
    #[test]
    fn changing_the_type_alone_makes_every_agent_start() {
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
                prompt: "Mend leap.sh.",
                cli: cli.as_ref(),
                env: &BTreeMap::new(),
                is_root: false,
                socket: None,
                reference: None,
                definitions: &BTreeMap::new(),
                endpoint: Some(&endpoint),
                script: None,
            });
            let launch = match launch {
                Ok(launch) => launch,
                // It applies what this context does not have.
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
            // A number for each byte is how bytes are shown; a session sends it itself.
            let bytes = format!("{:?}", "Mend leap.sh.".as_bytes());
            let bytes = bytes.trim_matches(['[', ']']);
            let is_sent = all.contains("Mend leap.sh.") || all.contains(bytes);
            assert!(
                is_sent || !takes_prompt || all.contains("Session"),
                "{name}: {all}"
            );
        }
    }

    /// Every option of every agent, given to every agent: it works, or it is refused by its name with
    /// what to do.
    #[test]
    fn an_option_that_an_agent_cannot_honour_is_refused_by_name_with_what_to_do() {
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
                    panic!("{name} takes `{key}` and does nothing with it");
                };
                let told = faults
                    .iter()
                    .find(|it| it.message.contains(&format!("`{key}`")));
                let told = told.unwrap_or_else(|| panic!("{name}, {key}: {faults:?}"));
                assert!(told.hint.is_some(), "{name}, {key}: {told:?}");
                refused += 1;
            }
        }
        assert!(refused > 100, "{refused}");
    }
}
