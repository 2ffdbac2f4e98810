//! `proctor gateway`: the standalone gateway, until a signal stops it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
};

use camino::Utf8PathBuf;
use fs_err as fs;

use proctor_gateway::NumberSetting;
use proctor_harness::{
    config::{GatewaySettings, Gateways, add_env_file, load_gateways},
    model_access::{
        providers,
        standalone::{self, StandaloneGateway},
    },
};
use proctor_record::{fs::is_safe_name, record::GatewayRecord};
use proctor_sandbox::host::Host;
use serde_json::json;

use super::models;
use crate::{
    args::{GatewayArgs, RuleArgs},
    error::{CliError, Exit},
    host,
    platform::{StopSignals, private_file},
    ui,
};

pub fn gateway(args: &GatewayArgs) -> Result<Exit, CliError> {
    let mut host = host::host()?;
    if let Some(file) = &args.env_file {
        let file = host.cwd.join(file);
        add_env_file(&mut host.env, &file).map_err(|error| CliError::Config(vec![error]))?;
    }
    let gateways = gateways(args, &host)?;
    if !standalone::has_answers(&gateways.common, &host.env) {
        return Err(CliError::NoUpstream);
    }
    let log = args.log.as_ref().map(|file| host.cwd.join(file));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before any output: the process that reads it may send a signal at once.
        let mut signals = StopSignals::listen()?;
        let running = StandaloneGateway::start(&gateways, &host.env, args.listen, log.as_deref())?;
        let keys_file = args.keys_file.as_ref().map(|file| host.cwd.join(file));
        let keys_file = keys_file.map(|file| KeysFile::write(file, &running));
        let _keys_file = keys_file.transpose()?;
        greet(args, &running, &host.env)?;
        signals.next().await;
        let records = running.stop().await;
        sum_up(args, &records)?;
        Ok(Exit::Success)
    })
}

/// The settings of all keys: from the file, then from the options.
fn gateways(args: &GatewayArgs, host: &Host) -> Result<Gateways, CliError> {
    let settings = super::settings(host)?;
    let mut gateways = match &args.config {
        None => Gateways::default(),
        Some(file) => load_gateways(&host.cwd.join(file), &host.env, &settings)
            .map_err(|error| CliError::Config(vec![error]))?,
    };
    let overrides = models::overrides(&args.models, host)?;
    let mut common = Some(gateways.common);
    overrides.apply(&mut common, &settings);
    gateways.common = common.unwrap_or_default();
    let mut names = args.key_name.clone();
    if names.is_empty() && gateways.keys.is_empty() {
        names.push("default".to_owned());
    }
    let more = names
        .into_iter()
        .map(|name| (name, gateways.common.clone()));
    gateways.keys.extend(more);
    let mut seen = BTreeSet::new();
    for (name, settings) in &mut gateways.keys {
        // Names become files.
        if !is_safe_name(name) || !seen.insert(name.clone()) {
            return Err(CliError::KeyName { name: name.clone() });
        }
        settings.recordings.clone_from(&gateways.common.recordings);
        apply_rules(&args.rules, settings);
    }
    if let Some(retries) = args.rules.retries {
        gateways.common.retries = retries;
    }
    Ok(gateways)
}

fn apply_rules(rules: &RuleArgs, settings: &mut GatewaySettings) {
    settings.budget_usd = rules.budget_usd.or(settings.budget_usd);
    settings.budget_tokens = rules.budget_tokens.or(settings.budget_tokens);
    settings.budget_calls = rules.budget_calls.or(settings.budget_calls);
    if !rules.allow_model.is_empty() {
        settings.models.clone_from(&rules.allow_model);
    }
    // Options take precedence.
    settings.rename.splice(0..0, rules.rename.iter().cloned());
    let temperature = rules.temperature.map(NumberSetting::Set);
    settings.temperature = temperature.or(settings.temperature);
    let longest = rules.max_tokens.map(NumberSetting::AtMost);
    settings.max_tokens = longest.or(settings.max_tokens);
    settings.faults = rules.faults.clone().or(settings.faults.take());
}

/// The file with the keys, which is removed when the gateway stops and the keys become invalid.
struct KeysFile(Utf8PathBuf);

impl KeysFile {
    fn write(path: Utf8PathBuf, running: &StandaloneGateway) -> std::io::Result<KeysFile> {
        let mut file = private_file(&path)?;
        let keys: BTreeMap<_, _> = running.keys().collect();
        writeln!(file, "{}", json!({"url": running.url(), "keys": keys}))?;
        Ok(KeysFile(path))
    }
}

impl Drop for KeysFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn greet(
    args: &GatewayArgs,
    running: &StandaloneGateway,
    env: &BTreeMap<String, String>,
) -> std::io::Result<()> {
    let url = running.url();
    if !args.listen.ip().is_loopback() {
        ui::note(
            "warning: the status page shows key names and usage to all clients that can connect to this address",
        );
    }
    let keys: BTreeMap<_, _> = running.keys().collect();
    let shown = args.keys_file.is_none();
    if args.json {
        let keys = if shown {
            json!(keys)
        } else {
            json!(keys.keys().collect::<Vec<_>>())
        };
        return ui::print_json(&json!({"url": url, "keys": keys}));
    }
    let mut text = format!("gateway    {url} (status page; metrics at {url}/metrics)\n");
    for (name, base_url) in providers(env) {
        let _ = writeln!(text, "{name:<10} {base_url}");
    }
    for (name, key) in &keys {
        let key = if shown { key } else { "in the keys file" };
        let _ = writeln!(text, "key        {name} {key}");
    }
    if let (true, Some(key)) = (shown, keys.values().next()) {
        let _ = write!(
            text,
            "\nexport ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={key}\n\
             export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key}\n\
             export GOOGLE_GEMINI_BASE_URL={url} GEMINI_API_KEY={key}\n"
        );
    }
    ui::print(&text)
}

fn sum_up(args: &GatewayArgs, records: &[(String, GatewayRecord)]) -> std::io::Result<()> {
    if args.json {
        let records: BTreeMap<_, _> = records.iter().map(|(name, r)| (name, r)).collect();
        return ui::print_json(&json!({"keys": records}));
    }
    let mut text = format!(
        "\n{:<20} {:>7} {:>7} {:>8} {:>12} {:>12} {:>10}\n",
        "key", "calls", "failed", "refused", "input", "output", "cost"
    );
    let figure = |number: Option<u64>| number.map_or("–".to_owned(), ui::count);
    for (name, record) in records {
        let total = &record.total;
        let cost = total.cost_usd;
        let _ = writeln!(
            text,
            "{name:<20} {:>7} {:>7} {:>8} {:>12} {:>12} {:>10}",
            record.calls,
            record.calls_failed,
            record.calls_refused,
            figure(total.input_tokens),
            figure(total.output_tokens),
            cost.map_or("–".to_owned(), |cost| format!("${:.4}", cost.dollars())),
        );
        text.push_str(&ui::replay_report(name, record.replay.as_ref()));
    }
    ui::print(&text)
}
