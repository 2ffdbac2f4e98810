//! Tasks from the history of a git repository, without a model. A commit that changes source and
//! tests becomes a task if its tests fail on the parent, pass on the commit, and do so every time.

mod detect;
mod error;
mod harbor;
mod history;
mod leaks;
mod ledger;
mod miner;
mod options;
mod output;
mod plan;
mod prompt;
mod reject;
mod select;
mod sets;
mod split;
mod states;
mod strength;
mod trees;

pub use self::{
    detect::TestCommand,
    error::MineError,
    ledger::{Entry, LEDGER_FILE, Ledger, MinedTask, Skipped, Status},
    miner::{Miner, MiningEvent},
    options::{MinerOptions, Selection, TaskFormat},
    output::SUITE_FILE,
    plan::{Plan, detect_test_command},
    prompt::PromptTier,
    reject::Reject,
    strength::Strength,
};
