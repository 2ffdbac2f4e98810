//! What only Thunderdome's suite file has: `orchestrators` with adapter scripts, `proxy` and
//! `secrets`.

use std::collections::BTreeMap;

use camino::Utf8Path;
use schemars::JsonSchema;

use super::{
    agent::{AgentSpec, AgentType},
    error::{ConfigError, Fault},
    execution::{Execution, GatewaySettings},
    interpolate, litellm,
    node::{Node, Span, Value},
    parse::{self, Format},
    policy::PolicySpec,
    suite::{SuiteAgent, agent_name},
};

/// Keys of an orchestrator.
const KEYS: [&str; 4] = ["name", "adapter", "image", "env"];

/// `proxy`, as Thunderdome writes it.
// For the schema: reading it by hand gives better complaints.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) struct ProxyAsWritten {
    /// Who stands between agents and providers.
    gateway: Option<ProxyKind>,
    /// What one trial may spend, in dollars.
    #[schemars(extend("exclusiveMinimum" = 0))]
    budget_per_trial_usd: Option<f64>,
}

/// Who stands between agents and providers.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "stands for its schema")]
enum ProxyKind {
    None,
    Proctor,
    LiteLlm,
}

/// `secrets`.
// For the schema: it is read before the rest, for the rest may need it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) struct SecretsAsWritten {
    /// A file with `NAME=value` on each line, relative to the suite; the environment itself wins.
    env_file: Option<String>,
    /// Variables that agents get as they are: they can use, print and leak them.
    unsafe_pass_through: Option<Vec<String>>,
}

/// The contenders under `orchestrators`: agents of the kind `adapter`.
pub(super) fn orchestrators(root: &Node, faults: &mut Vec<Fault>) -> Vec<SuiteAgent> {
    let Some(node) = root.get("orchestrators") else {
        return Vec::new();
    };
    let Value::List(items) = &node.value else {
        let message = format!("expected a list, found {}", node.value);
        faults.push(root.fault("orchestrators", message));
        return Vec::new();
    };
    let mut found = Vec::new();
    for item in items {
        match orchestrator(item) {
            Ok(agent) => found.push(agent),
            Err(fault) => faults.push(fault),
        }
    }
    found
}

fn orchestrator(item: &Node) -> Result<SuiteAgent, Fault> {
    let Value::Map(entries) = &item.value else {
        return Err(Fault::new(
            item.span,
            format!("expected a map, found {}", item.value),
        ));
    };
    if let Some((span, key, _)) = entries
        .iter()
        .find(|(_, key, _)| !KEYS.contains(&key.as_str()))
    {
        return Err(super::suggest::unknown_name(*span, "key", key, &KEYS));
    }
    let Some(written) = item.get("name") else {
        return Err(Fault::new(item.span, "missing key `name`"));
    };
    let name = agent_name(written)?;
    let mut config = item.clone();
    config.remove("name");
    Ok(SuiteAgent {
        name,
        spec: AgentSpec {
            kind: AgentType::Named("adapter".to_owned()),
            kind_span: item.span_of("adapter"),
            agent_name: None,
            model: None,
            version: None,
            default_model: None,
            order: Vec::new(),
            policy: PolicySpec::default(),
            node: item.clone(),
            config,
        },
    })
}

/// Take out `proxy` and `secrets`; what of them does not work is refused by name.
pub(super) fn settings(root: &mut Node, execution: &mut Execution, faults: &mut Vec<Fault>) {
    if let Some((span, _, node)) = root.remove("proxy") {
        let Value::Map(entries) = &node.value else {
            let message = format!("expected a map, found {}", node.value);
            faults.push(Fault::new(span, message));
            return;
        };
        for (span, key, node) in entries {
            proxy(execution, *span, key, node, faults);
        }
        let gateway = execution.gateway.as_ref();
        if let Some(why) = gateway.and_then(GatewaySettings::conflict) {
            faults.push(Fault::new(span, why).with_hint(litellm::HINT));
        }
    }
    if let Some((span, _, node)) = root.remove("secrets") {
        let Value::Map(entries) = &node.value else {
            let message = format!("expected a map, found {}", node.value);
            faults.push(Fault::new(span, message));
            return;
        };
        for (span, key, node) in entries {
            match key.as_str() {
                "env_file" if node.as_str().is_some() => {}
                "env_file" => {
                    let message = format!("expected a string, found {}", node.value);
                    faults.push(Fault::new(node.span, message));
                }
                "unsafe_pass_through" => match pass_through(node) {
                    Ok(names) => execution.pass_through = names,
                    Err(fault) => faults.push(fault),
                },
                other => faults.push(super::suggest::unknown_name(
                    *span,
                    "key",
                    other,
                    &["env_file", "unsafe_pass_through"],
                )),
            }
        }
    }
}

/// Names of variables that agents get as they are.
fn pass_through(node: &Node) -> Result<Vec<String>, Fault> {
    let names: Vec<String> = node.read()?;
    match names.iter().find(|name| !interpolate::is_name(name)) {
        None => Ok(names),
        Some(name) => {
            let message = format!("`{name}` is not the name of a variable");
            Err(Fault::new(node.span, message))
        }
    }
}

/// One key of `proxy`.
fn proxy(execution: &mut Execution, span: Span, key: &str, node: &Node, faults: &mut Vec<Fault>) {
    let budget = match node.value {
        Value::Int(whole) => Some(whole as f64),
        Value::Float(number) => Some(number),
        _ => None,
    };
    match (key, node.as_str(), budget) {
        ("gateway", Some("none"), _) => execution.gateway = None,
        ("gateway", Some("proctor"), _) => {
            execution.gateway.get_or_insert_default();
        }
        ("budget_per_trial_usd", _, Some(usd)) if usd > 0.0 => {
            execution.gateway.get_or_insert_default().budget_usd = Some(usd);
        }
        ("gateway", Some("litellm"), _) => {
            let gateway = execution.gateway.get_or_insert_default();
            gateway.litellm.get_or_insert_default();
        }
        ("log_dir", Some(_), _) => {
            let message = "`log_dir` is not supported: each trial's calls are in its own folder";
            faults.push(Fault::new(span, message).with_hint("remove it; see `calls.ndjson`"));
        }
        ("gateway" | "log_dir" | "budget_per_trial_usd", _, _) => {
            let message = format!("`{key}` cannot be {}", node.value);
            faults.push(Fault::new(node.span, message));
        }
        _ => faults.push(super::suggest::unknown_name(
            span,
            "key",
            key,
            &["gateway", "log_dir", "budget_per_trial_usd"],
        )),
    }
}

/// The environment with the variables of `secrets.env_file`, and their names; the environment
/// itself wins.
pub(super) fn with_secrets(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
) -> Result<(BTreeMap<String, String>, Vec<String>), ConfigError> {
    let mut all = env.clone();
    let format = match path.extension() {
        Some("json") => Format::Json,
        _ => Format::Yaml,
    };
    // What cannot be read here is told when the suite itself is.
    let root = std::fs::read_to_string(path)
        .ok()
        .and_then(|text| parse::parse(&text, format).ok());
    let file = root
        .as_ref()
        .and_then(|root| root.get("secrets")?.get("env_file")?.as_str());
    let Some(file) = file else {
        return Ok((all, Vec::new()));
    };
    let file = path.parent().unwrap_or(Utf8Path::new("")).join(file);
    let names = add_env_file(&mut all, &file)?;
    Ok((all, names))
}

/// Add the variables of a file to those that there are, which win. Gives their names.
pub fn add_env_file(
    env: &mut BTreeMap<String, String>,
    file: &Utf8Path,
) -> Result<Vec<String>, ConfigError> {
    let text =
        std::fs::read_to_string(file).map_err(|error| ConfigError::unreadable(file, &error))?;
    let read = variables(&text).map_err(|faults| ConfigError {
        path: file.to_owned(),
        // The line is not shown: it may hold a secret.
        text: None,
        faults,
    })?;
    let names = read.iter().map(|(name, _)| name.clone()).collect();
    for (name, value) in read {
        env.entry(name).or_insert(value);
    }
    Ok(names)
}

/// Lines of `NAME=value`, with `export` before and quotes around the value as one likes.
fn variables(text: &str) -> Result<Vec<(String, String)>, Vec<Fault>> {
    let mut found = Vec::new();
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let pair = line
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()));
        match pair.filter(|(name, _)| interpolate::is_name(name)) {
            Some((name, value)) => found.push((name.to_owned(), unquoted(value).to_owned())),
            None => faults.push(Fault::new(
                Span::default(),
                format!("line {} is not written as NAME=value", number + 1),
            )),
        }
    }
    if faults.is_empty() {
        Ok(found)
    } else {
        Err(faults)
    }
}

fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn a_file_of_secrets_has_a_name_and_a_value_on_each_line() {
        let text = "# keys\nexport A=1\nB = \"x y\"\n\nC='z'\nD=\n";
        let owned = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        let expect: Vec<_> = [("A", "1"), ("B", "x y"), ("C", "z"), ("D", "")]
            .map(owned)
            .into();
        assert_eq!(variables(text), Ok(expect));
        let faults = variables("A=1\nsecret-without-a-name\n").unwrap_err();
        assert_eq!(faults[0].message, "line 2 is not written as NAME=value");
    }
}
