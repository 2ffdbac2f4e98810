//! Model access of trials: through a gateway of the run, with a key for each trial. Provider keys
//! stay in the gateway, whose counts are a second, independent source of usage.

mod account;
mod call_files;
pub mod litellm;
mod models;
mod nodes;
mod providers;
mod reconcile;
pub mod standalone;

pub use self::account::{KeyAccount, compare};
pub(crate) use self::call_files::{CALLS_FILE, calls_below, copy_calls, spent_in};
pub(crate) use self::models::{ListenOptions, relay};
pub use self::models::{Models, Needs, PORT_INSIDE, SOCKET, TrialModels, sockets};
pub(crate) use self::nodes::{CoordinatorGateway, is_provider_key, stand_in_for_keys};
use self::providers::PROVIDERS;
pub use self::providers::{prices, providers};
pub(crate) use self::reconcile::failed_call::FailedCall;
