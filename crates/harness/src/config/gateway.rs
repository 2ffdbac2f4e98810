//! The structured parts of `gateway`: numbers that are set or clamped, limits of providers, faults,
//! prices.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault, Node, Value, parse_yaml, unknown_name};
use proctor_gateway::{
    Fault as GatewayFault, Faults, NumberSetting, Price, Prices, Provider, Script, Throttle,
};
use proctor_record::{fs::named, usage::Usd};
use schemars::JsonSchema;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::{
    either::Either,
    execution::{GatewaySettings, gateway_without_suite},
    interpolate::Variables,
    recording::Recordings,
    settings::Settings,
    source::Source,
};

/// The longest delay that can be injected: longer than any client waits.
const LONGEST_LATENCY_MS: u64 = 600_000;

/// A number that is set or clamped, when it is a map.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NumberAsWritten<T> {
    /// The value of every request.
    set: Option<T>,
    /// The maximum; lower values of the agent are kept.
    at_most: Option<T>,
}

/// `gateway.faults`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultsAsWritten {
    /// The fraction of calls with a fault, from 0 to 1.
    rate: f64,
    /// The seed that selects the calls; the same seed selects the same calls.
    #[serde(default)]
    seed: u64,
    /// The delay of an answer in milliseconds.
    latency: Option<u64>,
    /// The HTTP statuses of refused calls, such as 429, 500 or 529.
    #[schemars(with = "Option<Either<u16, Vec<u16>>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    status: Option<IgnoredAny>,
    /// The number of bytes after which an answer is cut off.
    cut: Option<u64>,
}

/// A plain number, or a map with `set` or `at_most`. A plain number means `alone`.
pub(super) fn number<T: DeserializeOwned>(
    node: &Node,
    key: &str,
    alone: fn(T) -> NumberSetting<T>,
) -> Result<Option<NumberSetting<T>>, Fault> {
    let Some(value) = node.get(key) else {
        return Ok(None);
    };
    let Value::Map(_) = value.value else {
        return Ok(Some(alone(value.read()?)));
    };
    let written: NumberAsWritten<T> = value.read()?;
    match (written.set, written.at_most) {
        (Some(number), None) => Ok(Some(NumberSetting::Set(number))),
        (None, Some(number)) => Ok(Some(NumberSetting::AtMost(number))),
        _ => {
            let message = format!("`{key}` requires exactly one of `set` and `at_most`");
            Err(node.fault(key, message))
        }
    }
}

/// The values of `rate` and `concurrency` for each provider.
pub(super) fn throttles(
    node: &Node,
    rate: &BTreeMap<String, u32>,
    concurrency: &BTreeMap<String, usize>,
) -> Result<BTreeMap<&'static str, Throttle>, Fault> {
    let mut throttles: BTreeMap<&'static str, Throttle> = BTreeMap::new();
    for (name, per_minute) in rate {
        let provider = provider(node, "rate", name)?;
        at_least_one(node, "rate", name, *per_minute > 0)?;
        throttles.entry(provider).or_default().per_minute = Some(*per_minute);
    }
    for (name, concurrent) in concurrency {
        let provider = provider(node, "concurrency", name)?;
        at_least_one(node, "concurrency", name, *concurrent > 0)?;
        throttles.entry(provider).or_default().concurrent = Some(*concurrent);
    }
    Ok(throttles)
}

fn provider(node: &Node, key: &str, name: &str) -> Result<&'static str, Fault> {
    let names = Provider::ALL.map(Provider::name);
    names
        .into_iter()
        .find(|known| *known == name)
        .ok_or_else(|| {
            let span = node.get(key).map_or(node.span, |map| map.key_span_of(name));
            unknown_name(span, "provider", name, &names)
        })
}

fn at_least_one(node: &Node, key: &str, name: &str, is_good: bool) -> Result<(), Fault> {
    if is_good {
        return Ok(());
    }
    let map = node.get(key).unwrap_or(node);
    Err(map.fault(name, format!("`{key}` must be at least 1")))
}

/// Models and their replacements. Full names match before prefixes, longer prefixes before shorter
/// ones.
pub(super) fn renames(written: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut renames: Vec<_> = written.clone().into_iter().collect();
    renames.sort_by_key(|(from, _)| (from.ends_with('*'), std::cmp::Reverse(from.len())));
    renames
}

/// Reads `faults`.
pub(super) fn faults(node: &Node) -> Result<Option<Faults>, Fault> {
    let Some(node) = node.get("faults") else {
        return Ok(None);
    };
    let written: FaultsAsWritten = node.read()?;
    if !(0.0..=1.0).contains(&written.rate) {
        return Err(node.fault("rate", "`rate` must be from 0 to 1"));
    }
    let mut kinds = Vec::new();
    if let Some(ms) = written.latency {
        if ms == 0 || ms > LONGEST_LATENCY_MS {
            let message = format!("`latency` must be from 1 to {LONGEST_LATENCY_MS} milliseconds");
            return Err(node.fault("latency", message));
        }
        kinds.push(GatewayFault::Latency(std::time::Duration::from_millis(ms)));
    }
    kinds.extend(statuses(node)?.into_iter().map(GatewayFault::Status));
    kinds.extend(written.cut.map(GatewayFault::CutAfter));
    if kinds.is_empty() {
        let message = "`faults` injects nothing";
        let hint = "add `latency`, `status` or `cut`";
        return Err(Fault::new(node.span, message).with_hint(hint));
    }
    Ok(Some(Faults {
        seed: written.seed,
        rate: written.rate,
        kinds,
    }))
}

fn statuses(node: &Node) -> Result<Vec<u16>, Fault> {
    let statuses: Vec<u16> = match node.get("status") {
        None => Vec::new(),
        Some(list) if matches!(list.value, Value::List(_)) => list.read()?,
        Some(one) => vec![one.read()?],
    };
    if statuses.iter().all(|status| (400..600).contains(status)) {
        return Ok(statuses);
    }
    Err(node.fault("status", "`status` must be an error status from 400 to 599"))
}

/// The settings of the standalone gateway: common ones, and those of each key.
#[derive(Clone, Debug, Default)]
pub struct Gateways {
    /// The settings of the gateway itself.
    pub common: GatewaySettings,
    /// The keys by name: the common settings with the overrides of each key.
    pub keys: Vec<(String, GatewaySettings)>,
}

/// The settings of `gateway` that can differ by key.
const OF_A_KEY: [&str; 8] = [
    "budget_usd",
    "budget_tokens",
    "budget_calls",
    "models",
    "rename",
    "temperature",
    "max_tokens",
    "faults",
];

/// Reads a file for the standalone gateway: the keys of `gateway`, and `keys` with overrides for
/// each name.
pub fn load_gateways(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Gateways, ConfigError> {
    let variables = Variables {
        project: &settings.variables,
        env,
    };
    let (source, mut root) = Source::read(path, &variables)?;
    let folder = named::absolute(path.parent().unwrap_or(Utf8Path::new("")));
    read_gateways(&mut root, &folder).map_err(|fault| source.error(vec![fault]))
}

fn read_gateways(root: &mut Node, folder: &Utf8Path) -> Result<Gateways, Fault> {
    if root.value == Value::Null {
        return Ok(Gateways::default());
    }
    let own = root.remove("keys");
    let common = gateway_without_suite(root, folder)?;
    let Some((_, _, keys)) = own else {
        return Ok(Gateways {
            common,
            keys: Vec::new(),
        });
    };
    let Value::Map(entries) = &keys.value else {
        let message = format!("expected a map of names, found {}", keys.value);
        return Err(Fault::new(keys.span, message));
    };
    let mut read = Vec::new();
    for (_, name, node) in entries {
        read.push((
            name.clone(),
            gateway_without_suite(&with_overrides(root, node)?, folder)?,
        ));
    }
    Ok(Gateways { common, keys: read })
}

/// The common section with the overrides of one key.
fn with_overrides(common: &Node, own: &Node) -> Result<Node, Fault> {
    let entries = match &own.value {
        Value::Null => return Ok(common.clone()),
        Value::Map(entries) => entries,
        other => {
            let message = format!("expected a map, found {other}");
            return Err(Fault::new(own.span, message));
        }
    };
    let mut merged = common.clone();
    for (span, key, node) in entries {
        if !OF_A_KEY.contains(&key.as_str()) {
            return Err(unknown_name(*span, "key", key, &OF_A_KEY));
        }
        merged.remove(key);
        if let Value::Map(all) = &mut merged.value {
            all.push((*span, key.clone(), node.clone()));
        }
    }
    Ok(merged)
}

/// Parses faults from the command line, in the syntax of `faults:` in a file.
pub fn parse_faults(text: &str) -> Result<Faults, String> {
    let root = parse_yaml(&format!("faults: {text}"));
    let root =
        root.map_err(|faults| faults.first().map_or(String::new(), |f| f.message.clone()))?;
    let found = faults(&root).map_err(|fault| fault.message)?;
    found.ok_or_else(|| "`faults` injects nothing".to_owned())
}

/// The gateway settings of the command line, which take precedence over files.
#[derive(Clone, Debug, Default)]
pub struct GatewayOverrides {
    /// A script of answers instead of a provider.
    pub script: Option<Arc<Script>>,
    /// Whether model calls are recorded or replayed.
    pub recordings: Option<Recordings>,
    /// The budget of all trials together, in dollars.
    pub run_budget_usd: Option<Usd>,
    /// Prices that override all others.
    pub prices: Vec<Price>,
}

impl GatewayOverrides {
    /// Applies these settings to the gateway of a suite or a test case, and enables it if
    /// necessary. Prices are ordered: project settings, file, command line.
    pub fn apply(&self, gateway: &mut Option<GatewaySettings>, settings: &Settings) {
        if self.script.is_some() || self.recordings.is_some() || self.run_budget_usd.is_some() {
            gateway.get_or_insert_default();
        }
        let Some(gateway) = gateway else {
            return;
        };
        gateway.script = self.script.clone().or(gateway.script.take());
        gateway.recordings = self.recordings.clone().or(gateway.recordings.take());
        gateway.run_budget_usd = self.run_budget_usd.or(gateway.run_budget_usd);
        gateway.prices.splice(0..0, settings.prices.iter().cloned());
        gateway.prices.extend(self.prices.iter().cloned());
    }
}

/// Reads a file of prices.
pub fn read_prices(path: &Utf8Path) -> Result<Vec<Price>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Prices::read_file(&text).map_err(|error| {
        let cause = std::error::Error::source(&error);
        let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
        format!("{path}: {error}{cause}")
    })
}

#[cfg(test)]
mod tests {
    use proctor_document::parse_yaml;

    use super::*;

    #[test]
    fn numbers_are_set_or_clamped() {
        let node =
            parse_yaml("a: 0.5\nb: {set: 1}\nc: {at_most: 2}\nd: {}\ne: {set: 1, at_most: 2}")
                .unwrap();
        let read = |key| number::<f64>(&node, key, NumberSetting::Set);
        assert_eq!(read("a"), Ok(Some(NumberSetting::Set(0.5))));
        assert_eq!(read("b"), Ok(Some(NumberSetting::Set(1.0))));
        assert_eq!(read("c"), Ok(Some(NumberSetting::AtMost(2.0))));
        assert_eq!(read("x"), Ok(None));
        for key in ["d", "e"] {
            let message = read(key).unwrap_err().message;
            assert_eq!(
                message,
                format!("`{key}` requires exactly one of `set` and `at_most`")
            );
        }
    }

    #[test]
    fn full_model_names_match_before_prefixes() {
        let pairs = [
            ("claude-*", "x"),
            ("claude-opus-*", "y"),
            ("claude-opus-5", "z"),
        ];
        let written = pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        let order: Vec<String> = renames(&written)
            .into_iter()
            .map(|(from, _)| from)
            .collect();
        assert_eq!(order, ["claude-opus-5", "claude-opus-*", "claude-*"]);
    }

    #[test]
    fn faults_are_parsed_and_validated() {
        let read = |yaml: &str| faults(&parse_yaml(&format!("faults: {yaml}")).unwrap());
        let found = read("{rate: 0.5, seed: 7, latency: 20, status: [429, 529], cut: 9}");
        let found = found.unwrap().unwrap();
        assert_eq!((found.seed, found.rate, found.kinds.len()), (7, 0.5, 4));
        assert_eq!(
            read("{rate: 1, status: 500}").unwrap().unwrap().kinds.len(),
            1
        );
        for (yaml, message) in [
            ("{rate: 2, cut: 1}", "`rate` must be from 0 to 1"),
            ("{rate: 1}", "`faults` injects nothing"),
            (
                "{rate: 1, status: 200}",
                "`status` must be an error status from 400 to 599",
            ),
            (
                "{rate: 1, latency: 0}",
                "`latency` must be from 1 to 600000 milliseconds",
            ),
        ] {
            assert_eq!(read(yaml).unwrap_err().message, message);
        }
    }
}
