//! Arguments of `ab` and `experiment`.

use clap::Parser;
use proctor_harness::config::{ExperimentSettings, StopRule};

use super::RunArgs;

/// `proctor ab`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor ab [OPTIONS] --b <KEY=VALUE> <PATH>...\n       proctor ab [OPTIONS] --b <KEY=VALUE> --prompt <TEXT> --check <COMMAND>",
    after_help = "Keys of --a and --b: a path in the repository (`CLAUDE.md=./new.md`, `CLAUDE.md=git:main`), `model`, `version`, `agent`, `skill`, `mcp`, `ref`, `prompt_prefix`, `prompt_suffix`, `prompt_template`, `env.NAME`, `config.KEY`\n\nExit codes: 0 B is better or equivalent · 1 B is worse · 2 usage or configuration error · 3 infrastructure failure · 4 undecided · 130 interrupted"
)]
pub struct AbArgs {
    /// Setting of A, the baseline; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub a: Vec<String>,
    /// Setting of B, the candidate; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub b: Vec<String>,
    /// File or directory that B does not have; repeatable
    #[arg(long, value_name = "PATH")]
    pub without: Vec<String>,
    /// Names of the two variants in results
    #[arg(long, value_names = ["A", "B"], num_args = 2, default_values = ["a", "b"])]
    pub names: Vec<String>,
    /// Prompt of a single task on this repository, judged by --check
    #[arg(long, value_name = "TEXT", requires = "check", conflicts_with_all = ["paths", "config"])]
    pub prompt: Option<String>,
    /// Command that judges the work of --prompt: exit code 0 means passed
    #[arg(long, value_name = "COMMAND", requires = "prompt")]
    pub check: Option<String>,
    #[command(flatten)]
    pub decision: DecisionArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

/// `proctor experiment`.
#[derive(Debug, Parser)]
#[command(
    override_usage = "proctor experiment [OPTIONS] <SUITE>",
    after_help = "Exit codes: 0 every candidate is better or equivalent · 1 a candidate is worse · 2 usage or configuration error · 3 infrastructure failure · 4 undecided · 130 interrupted"
)]
pub struct ExperimentArgs {
    #[command(flatten)]
    pub decision: DecisionArgs,
    #[command(flatten)]
    pub run: RunArgs,
}

/// When the answer of an experiment is clear. Overrides `experiment` of a suite.
#[derive(Clone, Debug, Default, Parser)]
#[command(next_help_heading = "Decision")]
pub struct DecisionArgs {
    /// Stop as soon as the answer is clear, or no answer can be expected any more
    #[arg(long)]
    pub until_settled: bool,
    /// Scores that differ by less than this are equivalent, such as 0.05 for 5 points
    #[arg(long, value_name = "MARGIN", value_parser = margin)]
    pub equivalent: Option<f64>,
    /// A candidate that loses less than this is accepted
    #[arg(long, value_name = "MARGIN", value_parser = margin, conflicts_with = "equivalent")]
    pub not_worse: Option<f64>,
    /// With --until-settled and fewer than 20 tasks, run more trials of tasks with varying results
    #[arg(long)]
    pub adaptive: bool,
    /// Maximum number of trials of all agents; reduces the trials of each task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_trials: Option<u32>,
    /// Whether the number of trials is chosen if it is not set
    #[arg(skip)]
    pub chooses_trials: bool,
}

impl DecisionArgs {
    /// Overrides the settings of a suite.
    pub fn apply(&self, settings: &mut ExperimentSettings) {
        if self.until_settled {
            settings.stop = StopRule::Settled;
        }
        settings.adaptive |= self.adaptive;
        settings.max_trials = self.max_trials.or(settings.max_trials);
        if self.equivalent.is_some() || self.not_worse.is_some() {
            settings.equivalent = self.equivalent;
            settings.not_worse = self.not_worse;
        }
    }
}

pub(super) fn margin(text: &str) -> Result<f64, String> {
    let margin = text.parse().ok();
    let margin = margin.filter(|margin| *margin > 0.0 && *margin < 1.0);
    margin.ok_or_else(|| "expected a number between 0 and 1, such as 0.05".to_owned())
}
