//! The model side of Proctor: what agents talk to instead of a provider.
//!
//! [`Gateway`] stands between agents and models. It knows keys, not trials: each key that is
//! [minted](Gateway::mint) has its budget, its policy, its log and its [`Ledger`]. What comes and goes
//! passes unchanged, byte for byte, and is metered while it passes by.
//!
//! [`ScriptedModel`] is a model that plays a script, so that a real agent CLI runs without a network, a
//! key or a bill; a gateway can have one as its [`Upstream`].

mod abandoned;
mod answer;
mod body;
mod bounds;
mod budget;
mod calllog;
mod cassette;
mod client;
mod connect;
mod context;
mod decode;
mod dial;
mod error;
mod faults;
mod fetch;
mod gateway;
mod handler;
mod headers;
mod hub;
mod key;
mod ledger;
mod live;
pub mod local;
mod meter;
mod metrics;
mod pages;
mod policy;
mod pool;
mod pricing;
mod redact;
mod scan;
mod script;
mod secret;
mod server;
mod server_tools;
mod sse;
mod status;
mod throttle;
mod tls;
mod tokens;
mod upstream;
mod wire;

pub use budget::{Budget, Exhausted, Limits};
pub use cassette::{CassetteReport, CassetteSpec, Difference, Miss, OnMiss, Pace};
pub use client::{Client, Outgoing, Reply};
pub use context::ModelContext;
pub use error::GatewayError;
pub use faults::{Fault, Faults};
pub use gateway::{Gateway, GatewayConfig, PortGuard, SocketGuard};
pub use key::{KeySpec, VirtualKey};
pub use ledger::{Call, Ended, Ledger, Totals};
pub use policy::{Policy, Setting};
pub use pricing::{LongPrice, NanoUsd, Price, PriceError, Prices};
pub use script::{
    Act, Answer, ApiError, Block, Message, Recorded, Repeat, RequestKind, Script, ScriptError,
    ScriptedModel, StartError, ToolUse, Usage, WriteFile,
};
pub use secret::Secret;
pub use server_tools::ServerTools;
pub use status::{KeyStatus, Overview, Pages, Times};
pub use throttle::Throttle;
pub use tls::Certificate;
pub use tokens::Tokens;
pub use upstream::{Auth, HttpUpstream, Upstream};
pub use wire::{Kind, Provider, Wire};
