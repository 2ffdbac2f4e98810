//! Runs the hooks of a test case: scripts before the agent starts; scripts, webhooks and a results
//! file after judging. They are the user's own programs and run on this machine.

mod database;
mod redact;
mod run;
mod script;
mod webhook;

pub use self::run::HookContext;
use self::run::HookResult;
