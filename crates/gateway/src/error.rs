//! Why the gateway does not start or cannot do what it is asked for.

use std::io;
use std::path::PathBuf;

/// A failure of the gateway itself. What befalls single calls stands in the ledger.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// No place to listen.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address or path.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No thread or runtime.
    #[error("cannot start a thread to serve on")]
    Thread {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An upstream's base URL is none.
    #[error("{url:?} is no base URL: {reason}")]
    BaseUrl {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Extra certificates that cannot be read.
    #[error("cannot use the certificates in {path}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// A certificate of our own that cannot be made or used.
    #[error("cannot make a certificate for {names}: {reason}")]
    OwnCertificate {
        /// The names that it is for.
        names: String,
        /// What is wrong.
        reason: String,
    },
    /// A call log that cannot be opened.
    #[error("cannot write the call log {path}")]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A cassette that cannot be read or written.
    #[error("cannot use the cassette {path}")]
    Cassette {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// A rule for hosts that means nothing.
    #[error("{rule:?} is neither a host name, `*.name`, an address nor a network")]
    HostRule {
        /// The rule as given.
        rule: String,
    },
    /// No randomness for a key.
    #[error("the system gives no random bytes for a key")]
    Random,
}
