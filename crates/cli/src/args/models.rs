//! Arguments for models: access of agents to models, the standalone gateway and prices.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};
use proctor_record::usage::Usd;

/// Options for the access of agents to models.
#[derive(Debug, Default, Parser)]
#[command(next_help_heading = "Models")]
pub struct ModelArgs {
    /// Answer model calls from this script, without a real model or cost
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<Utf8PathBuf>,
    /// Record the model calls of each trial in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "replay_models")]
    pub record_models: Option<Utf8PathBuf>,
    /// Answer model calls from the recordings in this directory
    #[arg(long, value_name = "DIR")]
    pub replay_models: Option<Utf8PathBuf>,
    /// How to handle calls that were not recorded
    #[arg(long, value_enum, value_name = "HOW", requires = "replay_models")]
    pub on_miss: Option<MissArg>,
    /// Budget for all trials together, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub max_cost: Option<Usd>,
    /// Price file that overrides all other prices; see `proctor prices`
    #[arg(long, value_name = "FILE")]
    pub prices: Option<Utf8PathBuf>,
}

impl ModelArgs {
    /// The first given option that has no effect on other machines.
    pub fn here_only(&self) -> Option<&'static str> {
        let given = [
            ("--model-script", self.model_script.is_some()),
            ("--record-models", self.record_models.is_some()),
            ("--replay-models", self.replay_models.is_some()),
            ("--prices", self.prices.is_some()),
        ];
        let found = given.into_iter().find(|(_, is_given)| *is_given);
        found.map(|(option, _)| option)
    }
}

/// How to handle calls that were not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissArg {
    /// Refuse the call
    Strict,
    /// Forward the call to the provider
    FallThrough,
}

/// `proctor gateway`.
#[derive(Debug, Parser)]
#[command(
    after_help = "API keys are read from ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY; ANTHROPIC_BASE_URL etc. set the upstream URLs. The status page is at /, Prometheus metrics at /metrics. Ctrl-C stops the gateway and prints a summary."
)]
pub struct GatewayArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4000")]
    pub listen: std::net::SocketAddr,
    /// File with the settings of a suite's `gateway` section, and `keys` with overrides per key
    /// name
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// File of NAME=value lines with API keys; the environment takes precedence
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<Utf8PathBuf>,
    /// Create a key with this name; repeatable [default: `default`]
    #[arg(long, value_name = "NAME")]
    pub key_name: Vec<String>,
    /// Write the keys to this private file instead of printing them
    #[arg(long, value_name = "FILE")]
    pub keys_file: Option<Utf8PathBuf>,
    /// Append one line of JSON per call to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<Utf8PathBuf>,
    /// Print one JSON object with the keys at the start, and one at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rules: RuleArgs,
    #[command(flatten)]
    pub models: ModelArgs,
}

/// Limits and settings of each key of `proctor gateway`.
#[derive(Debug, Parser)]
#[command(next_help_heading = "Each key")]
pub struct RuleArgs {
    /// Budget in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub budget_usd: Option<Usd>,
    /// Budget in tokens
    #[arg(long, value_name = "N", value_parser = super::whole_number)]
    pub budget_tokens: Option<u64>,
    /// Maximum number of calls
    #[arg(long, value_name = "N", value_parser = super::whole_number)]
    pub budget_calls: Option<u64>,
    /// Allow only this model; a trailing `*` matches any suffix; repeatable
    #[arg(long, value_name = "MODEL")]
    pub allow_model: Vec<String>,
    /// Replace a model in requests; repeatable
    #[arg(long, value_name = "FROM=TO", value_parser = pair)]
    pub rename: Vec<(String, String)>,
    /// Temperature of all requests
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// Maximum length of a response, in tokens
    #[arg(long, value_name = "N", value_parser = super::whole_number)]
    pub max_tokens: Option<u64>,
    /// Number of retries after a provider error
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10))]
    pub retries: Option<u32>,
    /// Inject faults, such as '{rate: 0.2, seed: 7, status: [429, 529]}'
    #[arg(long, value_name = "FAULTS", value_parser = proctor_harness::config::parse_faults)]
    pub faults: Option<proctor_gateway::Faults>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (from, to) = text
        .split_once('=')
        .ok_or_else(|| "expected FROM=TO".to_owned())?;
    Ok((from.to_owned(), to.to_owned()))
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|t| (0.0..=2.0).contains(t));
    number.ok_or_else(|| "expected a number from 0 to 2".to_owned())
}

/// `proctor prices`.
#[derive(Debug, Parser)]
pub struct PricesArgs {
    /// Only this model, with the source of its price
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// Suite or test case whose `gateway.prices` apply as well
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// Price file that overrides all other prices
    #[arg(long, value_name = "FILE")]
    pub prices: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An amount of dollars above 0.
fn dollars(text: &str) -> Result<Usd, String> {
    let amount = text.parse().ok().and_then(Usd::from_dollars);
    amount
        .filter(|amount| *amount > Usd::default())
        .ok_or_else(|| "expected an amount of dollars above 0".to_owned())
}
