//! What the command line takes where it is about models: how agents reach them, the gateway alone, and
//! prices.

use camino::Utf8PathBuf;
use clap::{Parser, ValueEnum};

/// Options for how agents reach models.
#[derive(Debug, Default, Parser)]
#[command(next_help_heading = "Models")]
pub struct ModelArgs {
    /// Answer the agents' calls from this file: no model is asked, and nothing is paid
    #[arg(long, value_name = "FILE")]
    pub model_script: Option<Utf8PathBuf>,
    /// Record each trial's calls to models below this folder
    #[arg(long, value_name = "DIR", conflicts_with = "replay_models")]
    pub record_models: Option<Utf8PathBuf>,
    /// Answer the agents' calls from what was recorded below this folder
    #[arg(long, value_name = "DIR")]
    pub replay_models: Option<Utf8PathBuf>,
    /// What becomes of a call that was not recorded
    #[arg(long, value_enum, value_name = "HOW", requires = "replay_models")]
    pub on_miss: Option<MissArg>,
    /// What all trials may spend together, in dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub max_cost: Option<u64>,
    /// A file with prices that win over all others; `proctor prices` shows them
    #[arg(long, value_name = "FILE")]
    pub prices: Option<Utf8PathBuf>,
}

impl ModelArgs {
    /// An option that only the machine knows on which it is given.
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

/// What becomes of a call that was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissArg {
    /// It is refused
    Strict,
    /// It goes to the provider
    FallThrough,
}

/// `proctor gateway`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Real keys come from the environment: ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY (ANTHROPIC_BASE_URL and the like say where the providers are). The status page is at /, metrics for Prometheus at /metrics. Ctrl-C ends it with a summary."
)]
pub struct GatewayArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4000")]
    pub listen: std::net::SocketAddr,
    /// A file with the keys of a suite's `gateway`, and `keys` with some of them for each key's name
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// A file of NAME=value lines with real keys; the environment wins
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<Utf8PathBuf>,
    /// Make a key of this name; may be given more than once; `default` when there is none
    #[arg(long, value_name = "NAME")]
    pub key_name: Vec<String>,
    /// Write the keys to this file, which only you can read, instead of showing them
    #[arg(long, value_name = "FILE")]
    pub keys_file: Option<Utf8PathBuf>,
    /// Add a line of JSON for every call to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<Utf8PathBuf>,
    /// Print one JSON object at the start, with the keys, and one at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rules: RuleArgs,
    #[command(flatten)]
    pub models: ModelArgs,
}

/// What each key of `proctor gateway` may do.
#[derive(Debug, Parser)]
#[command(next_help_heading = "Each key")]
pub struct RuleArgs {
    /// The most dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub budget_usd: Option<u64>,
    /// The most tokens
    #[arg(long, value_name = "N")]
    pub budget_tokens: Option<u64>,
    /// The most calls
    #[arg(long, value_name = "N")]
    pub budget_calls: Option<u64>,
    /// Only this model, `*` at the end for any ending; may be given more than once
    #[arg(long, value_name = "MODEL")]
    pub allow_model: Vec<String>,
    /// Send another model; may be given more than once
    #[arg(long, value_name = "FROM=TO", value_parser = pair)]
    pub rename: Vec<(String, String)>,
    /// The temperature of every request
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// The longest answer, in tokens
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// How often to ask a provider again when it fails
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10))]
    pub retries: Option<u32>,
    /// Put faults in on purpose, such as '{rate: 0.2, seed: 7, status: [429, 529]}'
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
    /// Only this model, and whose word its price is
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// A suite or test case whose `gateway.prices` counts too
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<Utf8PathBuf>,
    /// A file with prices that win over all others
    #[arg(long, value_name = "FILE")]
    pub prices: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An amount of dollars, in nano-dollars.
fn dollars(text: &str) -> Result<u64, String> {
    let amount = text
        .parse()
        .ok()
        .and_then(proctor_harness::usage::Usd::from_dollars)
        .and_then(|amount| u64::try_from(amount.nanos()).ok());
    amount
        .filter(|nanos| *nanos > 0)
        .ok_or_else(|| "expected an amount of dollars above 0".to_owned())
}
