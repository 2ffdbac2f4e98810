//! A task: its prompt, its environment, and how it is judged. Tasks come from three sources (a
//! Harbor folder, a git repo at a tag, a test case) and have one type from here on. A `Task` is
//! validated.

pub mod case;
mod definition;
pub mod existing;
pub mod find;
pub mod folder;
pub mod harbor;
mod harbor_compose;
mod harbor_reader;
mod harbor_steps;
mod harbor_toml;
pub mod import;
pub mod judge_script;
pub mod repo_task;
mod step;
pub mod swebench;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod task;
pub mod terminal_bench;
#[cfg(test)]
mod tests;
mod tools;

pub use self::step::{Step, StepStrategy, Steps};
pub use self::task::{Asks, Files, RunFolder, Task, TaskLimits};
pub use self::tools::TaskTools;
