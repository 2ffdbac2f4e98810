//! LiteLLM between Proctor's gateway and the providers: started and ended with a run, or already
//! running elsewhere. Trials keep their own keys and accounts, because LiteLLM has neither without
//! its database. It accepts one key and replaces it by the providers' keys.

mod account;
mod config;
mod server;

pub use self::account::LiteLlmAccount;
use self::server::LOG_FILE;
pub use self::server::{LiteLlm, LiteLlmError};
