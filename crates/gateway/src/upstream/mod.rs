//! Upstreams: providers and scripts, connections to providers, and their rate limits.

mod dial;
mod endpoint;
mod pool;
mod response;
mod throttle;

pub(crate) use dial::{DialConfig, Dialer, Target};
pub(crate) use endpoint::UpstreamEndpoint;
pub use endpoint::{Auth, HttpUpstream, Upstream};
pub(crate) use pool::{ConnectionPool, PooledLease};
pub(crate) use response::UpstreamBody;
pub use throttle::Throttle;
pub(crate) use throttle::{LimiterPermit, retry_after};
