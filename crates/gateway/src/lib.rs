//! The model gateway: agents send their model requests to it instead of to a provider.
//!
//! [`Gateway`] knows keys, not trials. Each key that is [minted](Gateway::mint) has a budget, a policy, a call
//! log and a [`Ledger`]. Requests and responses pass through unchanged, byte for byte, and are metered on
//! the way.

mod allocator;
mod budget;
mod call;
mod call_log;
mod client;
mod error;
mod faults;
mod gateway;
mod key;
mod ledger;
mod metering;
mod pricing;
mod recording;
mod request;
mod secrets;
mod server;
mod state;
mod status;
mod tls;
mod upstream;

pub use budget::{Budget, Exhausted, Limits};
pub use client::{Client, Outgoing, Reply};
pub use error::GatewayError;
pub use faults::{Fault, Faults};
pub use gateway::{Gateway, GatewayConfig, PortGuard, SocketGuard};
pub use key::KeySpec;
pub use ledger::{Call, CallEnd, Ledger, Totals};
pub use metering::Tokens;
pub use pricing::{LongPrice, NanoUsd, Price, PriceError, Prices};
pub use recording::{Difference, Miss, OnMiss, Pace, RecordingReport, RecordingSpec};
pub use request::{
    ModelContext, NumberSetting, Observation, RequestPart, RequestPolicy, ServerTools, Sighting,
    TextProbe, Watch, Watcher,
};
pub use secrets::{Secret, VirtualKey};
pub use status::{KeyStatus, Overview, Pages, Times};
pub use tls::Certificate;
pub use upstream::{Auth, HttpUpstream, Throttle, Upstream};

// Types of other crates that are part of this API.
pub use proctor_model_api::{Kind, Provider, Wire};
pub use proctor_scripted_model::{RecordedRequest, Script};
