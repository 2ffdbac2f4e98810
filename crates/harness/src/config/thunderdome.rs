//! Keys of Thunderdome's suite file: `orchestrators` with adapter scripts, `proxy` and `secrets`.

use std::collections::BTreeMap;

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault, Node, Span, Value, keys_of, nearest, unknown_name};
use proctor_record::{fs::named, usage::Usd};
use proctor_sandbox::Network;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    agent::{AgentSpec, AgentType},
    execution::{AllowlistAsWritten, Execution, GatewaySettings},
    interpolate, litellm,
    policy::PolicySpec,
    remarks::Remarks,
    source::Source,
    suite::{ResultsSection, Suite, SuiteAgent, agent_name},
    task_entry::TaskEntry,
    treatment::Treatment,
};

/// Unknown keys that could affect agents or judging. A remark is not enough for them: the results
/// would not match the file.
const TELLING: [&str; 30] = [
    "args",
    "cmd",
    "command",
    "cpu_limit",
    "cpus",
    "disabled",
    "enabled",
    "entrypoint",
    "env",
    "env_file",
    "image",
    "limits",
    "max_turns",
    "memory",
    "memory_limit",
    "model",
    "mounts",
    "network",
    "prompt",
    "retries",
    "seed",
    "setup_cmd",
    "skip",
    "system_prompt",
    "temperature",
    "timeout",
    "timeout_minutes",
    "timeout_seconds",
    "user",
    "volumes",
];

/// `proxy` in Thunderdome's format.
// For the schema only: reading it by hand gives better error messages.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "its keys count; the values are read one by one for better faults"
)]
pub(super) struct ProxyAsWritten {
    /// The gateway between agents and providers; with `none` containers have an open network.
    gateway: Option<ProxyKind>,
    /// The budget of one trial, in dollars; 0 means no limit.
    #[schemars(range(min = 0))]
    budget_per_trial_usd: Option<f64>,
    /// A directory for copies of the trials' call logs, relative to the suite.
    log_dir: Option<String>,
    /// The model that judges a `rubric` without a model of its own.
    judge_model: Option<String>,
}

/// The gateway between agents and providers.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ProxyKind {
    None,
    Proctor,
    LiteLlm,
}

/// `secrets`.
// For the schema only: it is read before the rest, which may depend on it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "its keys count; the values are read one by one for better faults"
)]
pub(super) struct SecretsAsWritten {
    /// A file with `NAME=value` on each line, relative to the suite. The environment takes
    /// precedence.
    env_file: Option<String>,
    /// Variables that agents get unchanged: they can use, print and leak them.
    unsafe_pass_through: Option<Vec<String>>,
}

/// An adapter script.
#[derive(Deserialize, JsonSchema)]
#[expect(
    dead_code,
    reason = "its keys count; the values are read one by one for better faults"
)]
pub(super) struct Orchestrator {
    /// The agent's name in results and filters.
    name: String,
    /// The script, relative to the suite.
    adapter: String,
    /// The image of its containers.
    image: Option<String>,
    /// Additional environment variables.
    env: Option<BTreeMap<String, String>>,
}

/// Whether a file is in Thunderdome's format.
pub(super) fn is_own_file(root: &Node) -> bool {
    root.get("orchestrators").is_some()
}

/// Removes keys that Thunderdome ignores, too, with a remark. Keys that look misspelled, or that
/// could affect results, are kept and refused later.
pub(super) fn tolerate(root: &mut Node, known: &[&str], remarks: &mut Remarks) {
    ignore_unknown(root, known, "", remarks);
    let task_keys = TaskEntry::keys();
    let Value::Map(entries) = &mut root.value else {
        return;
    };
    for (_, section, node) in entries {
        let known: &[&str] = match section.as_str() {
            "proxy" => keys_of::<ProxyAsWritten>(),
            "secrets" => keys_of::<SecretsAsWritten>(),
            "results" => keys_of::<ResultsSection>(),
            "network" => keys_of::<AllowlistAsWritten>(),
            "orchestrators" => keys_of::<Orchestrator>(),
            "tasks" => &task_keys,
            _ => continue,
        };
        match &mut node.value {
            Value::List(items) => {
                for item in items {
                    ignore_unknown(item, known, section, remarks);
                }
            }
            _ => ignore_unknown(node, known, section, remarks),
        }
    }
}

fn ignore_unknown(node: &mut Node, known: &[&str], section: &str, remarks: &mut Remarks) {
    let Value::Map(entries) = &mut node.value else {
        return;
    };
    let name_of = |(_, key, node): &(Span, String, Node)| match key.as_str() {
        "name" | "id" => node.as_str().map(str::to_owned),
        _ => None,
    };
    let name = entries.iter().find_map(name_of);
    let given: Vec<String> = entries.iter().map(|(_, key, _)| key.clone()).collect();
    entries.retain(|(_, key, _)| {
        let is_known = known.contains(&key.as_str()) || nearest(key, &TELLING).is_some();
        let meant = nearest(key, known);
        let is_misspelled = meant.is_some_and(|meant| !given.iter().any(|key| key == meant));
        if is_known || is_misspelled {
            return true;
        }
        let place = match section {
            "" => String::new(),
            section => format!(" of `{section}`"),
        };
        let text = format!("the key `{key}`{place} is unknown and has no effect");
        match &name {
            Some(name) => remarks.add_about(text, name),
            None => remarks.add(text),
        }
        false
    });
}

/// The agents under `orchestrators`: agents of the kind `adapter`.
pub(super) fn orchestrators(
    items: Option<&[Node]>,
    source: &Source,
    faults: &mut Vec<Fault>,
) -> Vec<(usize, SuiteAgent)> {
    let mut found = Vec::new();
    for (number, item) in items.unwrap_or_default().iter().enumerate() {
        match orchestrator(item, source) {
            Ok(agent) => found.push((number, agent)),
            Err(fault) => faults.push(fault),
        }
    }
    found
}

fn orchestrator(item: &Node, source: &Source) -> Result<SuiteAgent, Fault> {
    let Value::Map(entries) = &item.value else {
        return Err(Fault::new(
            item.span,
            format!("expected a map, found {}", item.value),
        ));
    };
    if let Some((span, key, _)) = entries
        .iter()
        .find(|(_, key, _)| !keys_of::<Orchestrator>().contains(&key.as_str()))
    {
        return Err(unknown_name(*span, "key", key, keys_of::<Orchestrator>()));
    }
    let Some(written) = item.get("name") else {
        return Err(Fault::new(item.span, "missing key `name`"));
    };
    let name = agent_name(written)?;
    let mut config = item.clone();
    config.remove("name");
    as_text(&mut config, "env", source);
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
        unset: Vec::new(),
        is_orchestrator: true,
        treatment: Treatment::default(),
        variant_of: None,
    })
}

/// Reads numbers and other values in the map `key` as their source text, as Thunderdome does. An
/// empty map counts as missing.
fn as_text(config: &mut Node, key: &str, source: &Source) {
    if config
        .get(key)
        .is_some_and(|node| node.value == Value::Null)
    {
        config.remove(key);
    }
    let Value::Map(entries) = &mut config.value else {
        return;
    };
    let found = entries.iter_mut().find(|(_, name, _)| name == key);
    let Some((_, _, node)) = found else { return };
    let Value::Map(variables) = &mut node.value else {
        return;
    };
    for (_, _, value) in variables {
        let text = source.text().get(value.span.start..value.span.end);
        match value.value {
            Value::Null => value.value = Value::String(String::new()),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                value.value = Value::String(text.unwrap_or_default().to_owned());
            }
            Value::String(_) | Value::List(_) | Value::Map(_) => {}
        }
    }
}

/// Reads `proxy` and `secrets`. Returns the model that judges a `rubric` without a model of its
/// own.
pub(super) fn settings(
    (root, suite): (&Node, &Suite),
    folder: &Utf8Path,
    execution: &mut Execution,
    (faults, remarks): (&mut Vec<Fault>, &mut Remarks),
) -> Option<String> {
    let mut judge_model = None;
    if let Some(node) = &suite.proxy {
        judge_model = proxy(node, folder, execution, (faults, remarks));
        let gateway = execution.gateway.as_ref();
        if let Some(why) = gateway.and_then(GatewaySettings::conflict) {
            faults.push(Fault::new(root.key_span_of("proxy"), why).with_hint(litellm::HINT));
        }
    }
    if let Some(node) = &suite.secrets {
        secrets(node, execution, faults);
    }
    judge_model
}

fn secrets(node: &Node, execution: &mut Execution, faults: &mut Vec<Fault>) {
    let Value::Map(entries) = &node.value else {
        let message = format!("expected a map, found {}", node.value);
        faults.push(Fault::new(node.span, message));
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
            other => faults.push(unknown_name(
                *span,
                "key",
                other,
                keys_of::<SecretsAsWritten>(),
            )),
        }
    }
}

/// Names of variables that agents get unchanged.
fn pass_through(node: &Node) -> Result<Vec<String>, Fault> {
    let names: Vec<String> = node.read()?;
    match names.iter().find(|name| !interpolate::is_name(name)) {
        None => Ok(names),
        Some(name) => {
            let message = format!("invalid variable name `{name}`");
            Err(Fault::new(node.span, message))
        }
    }
}

/// Reads `proxy`. Returns its `judge_model`.
fn proxy(
    node: &Node,
    folder: &Utf8Path,
    execution: &mut Execution,
    (faults, remarks): (&mut Vec<Fault>, &mut Remarks),
) -> Option<String> {
    let Value::Map(entries) = &node.value else {
        let message = format!("expected a map, found {}", node.value);
        faults.push(Fault::new(node.span, message));
        return None;
    };
    let gateway = node.get("gateway").and_then(Node::as_str);
    let mut judge_model = None;
    for (span, key, value) in entries {
        let text = value.as_str();
        match (key.as_str(), text, number(value)) {
            ("gateway", Some("none"), _) => execution.gateway = None,
            ("gateway", Some("proctor"), _) => {
                execution.gateway.get_or_insert_default();
            }
            ("gateway", Some("litellm"), _) => {
                let gateway = execution.gateway.get_or_insert_default();
                gateway.litellm.get_or_insert_default();
            }
            // Calls are only counted by a gateway.
            ("budget_per_trial_usd", _, Some(usd)) if usd > 0.0 && gateway == Some("none") => {
                remarks.add("`budget_per_trial_usd` has no effect with `gateway: none`");
            }
            ("log_dir", Some(_), _) if gateway == Some("none") => {
                remarks.add("`log_dir` has no effect with `gateway: none`");
            }
            ("budget_per_trial_usd", _, Some(usd)) if usd > 0.0 => {
                execution.gateway.get_or_insert_default().budget_usd = Usd::from_dollars(usd);
            }
            ("log_dir", Some(dir), _) if !dir.is_empty() => {
                execution.log_dir = Some(named::absolute(&folder.join(dir)));
            }
            ("judge_model", Some(model), _) if !model.is_empty() => {
                judge_model = Some(model.to_owned());
            }
            // Empty values and 0 count as missing.
            ("log_dir" | "judge_model", Some(_), _) | ("budget_per_trial_usd", _, Some(0.0)) => {}
            (known, _, _) if keys_of::<ProxyAsWritten>().contains(&known) => {
                let message = format!("`{key}` cannot be {}", value.value);
                faults.push(Fault::new(value.span, message));
            }
            _ => faults.push(unknown_name(*span, "key", key, keys_of::<ProxyAsWritten>())),
        }
    }
    judge_model
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Int(whole) => Some(whole as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

/// Applies `proxy: {gateway: none}` to the remaining settings. Thunderdome's containers then
/// connect to the providers directly; settings that need a gateway are refused.
pub(super) fn without_gateway(root: &Node, execution: &mut Execution, faults: &mut Vec<Fault>) {
    if !execution.refuses_gateway {
        return;
    }
    // Thunderdome's own files get a remark instead.
    let proxy = root.get("proxy").filter(|_| !is_own_file(root));
    if let Some(proxy) = proxy.filter(|proxy| proxy.get("budget_per_trial_usd").is_some()) {
        let message = "`budget_per_trial_usd` requires a gateway, but `gateway` is `none`";
        let fault = proxy.fault("budget_per_trial_usd", message);
        faults.push(fault.with_hint("use `gateway: proctor`, or remove the budget"));
    }
    if root.get("gateway").is_some() {
        let message = "`gateway` contradicts `proxy: {gateway: none}`";
        faults.push(
            root.fault("gateway", message)
                .with_hint("remove one of them"),
        );
    }
    execution.gateway = None;
    let names_no_host = |network: &Node| network.get("allowlist").is_some();
    match &execution.network {
        // Thunderdome's files contain an empty list as a placeholder.
        Some(Network::Gateway) if root.get("network").is_some_and(names_no_host) => {
            execution.network = None;
        }
        Some(network @ (Network::Gateway | Network::Allowlist(_))) => {
            let message = format!(
                "`network: {}` requires a gateway, but `proxy.gateway` is `none`",
                network.as_str()
            );
            let hint = "remove `network`, or use `network: open` or `network: none`";
            faults.push(root.fault("network", message).with_hint(hint));
        }
        _ => {}
    }
}

/// The environment for the variables of a suite.
pub(super) struct SuiteEnv {
    pub(super) env: BTreeMap<String, String>,
    /// The variables that `secrets.env_file` sets.
    pub(super) secret_names: Vec<String>,
    pub(super) remarks: Remarks,
}

/// The environment with the variables of `secrets.env_file`; the environment takes precedence. In
/// Thunderdome's own files a missing file is a remark, not an error.
pub(super) fn with_secrets(
    root: &Node,
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
) -> Result<SuiteEnv, ConfigError> {
    let mut all = SuiteEnv {
        env: env.clone(),
        secret_names: Vec::new(),
        remarks: Remarks::default(),
    };
    let named = root.get("secrets").and_then(|it| it.get("env_file"));
    let Some(named) = named.and_then(Node::as_str) else {
        return Ok(all);
    };
    let file = path.parent().unwrap_or(Utf8Path::new("")).join(named);
    if is_own_file(root) && !file.exists() {
        all.remarks.add(format!(
            "`secrets.env_file` {named} does not exist: variables come from the environment alone"
        ));
        return Ok(all);
    }
    all.secret_names = add_env_file(&mut all.env, &file)?;
    Ok(all)
}

/// Adds the variables of a file; existing ones take precedence. Returns their names.
pub fn add_env_file(
    env: &mut BTreeMap<String, String>,
    file: &Utf8Path,
) -> Result<Vec<String>, ConfigError> {
    let text =
        std::fs::read_to_string(file).map_err(|error| ConfigError::unreadable(file, &error))?;
    let read = variables(&text).map_err(|faults| ConfigError {
        path: file.to_owned(),
        // The line is not shown because it may contain a secret.
        text: None,
        faults,
    })?;
    let names = read.iter().map(|(name, _)| name.clone()).collect();
    for (name, value) in read {
        env.entry(name).or_insert(value);
    }
    Ok(names)
}

/// Parses lines of `NAME=value`, optionally with `export` and quotes around the value.
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
                format!("line {} is not in the form NAME=value", number + 1),
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
    use super::*;
    use proctor_document::parse_yaml;

    #[test]
    fn unknown_keys_are_remarks_unless_misspelled_or_relevant() {
        let yaml = "{orchestrators: [{name: a, adapter: x, notes: y, modle: z, model: m}, {name: b, adaptor: x, notes: y}], tasks: [{id: T, repo: r, tag: v, tags: [x], time_limit_minute: 5}], proxy: {port: 1}, dashboard: {}}";
        let mut root = parse_yaml(yaml).unwrap();
        let mut remarks = Remarks::default();
        tolerate(
            &mut root,
            &["orchestrators", "tasks", "proxy"],
            &mut remarks,
        );
        assert_eq!(
            remarks.lines(),
            [
                "the key `dashboard` is unknown and has no effect",
                "the key `notes` of `orchestrators` is unknown and has no effect (a, b)",
                "the key `tags` of `tasks` is unknown and has no effect (T)",
                "the key `port` of `proxy` is unknown and has no effect",
            ]
        );
        let left: serde_json::Value = root.read().unwrap();
        assert_eq!(left["orchestrators"][0]["model"], "m");
        assert_eq!(left["orchestrators"][0]["modle"], "z");
        assert_eq!(left["orchestrators"][1]["adaptor"], "x");
        assert_eq!(left["tasks"][0]["time_limit_minute"], 5);
    }

    #[test]
    fn env_file_is_parsed_line_by_line() {
        let text = "# keys\nexport A=1\nB = \"x y\"\n\nC='z'\nD=\n";
        let owned = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        let expect: Vec<_> = [("A", "1"), ("B", "x y"), ("C", "z"), ("D", "")]
            .map(owned)
            .into();
        assert_eq!(variables(text), Ok(expect));
        let faults = variables("A=1\nsecret-without-a-name\n").unwrap_err();
        assert_eq!(faults[0].message, "line 2 is not in the form NAME=value");
    }
}
