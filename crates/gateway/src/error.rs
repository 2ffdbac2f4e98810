//! Errors of the gateway itself.

use std::io;
use std::path::PathBuf;

/// A failure of the gateway itself. Failures of single calls are in the ledger.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address or path cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address or path.
        address: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A thread or runtime cannot be started.
    #[error("cannot start a worker thread")]
    Thread {
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The base URL of an upstream is not valid.
    #[error("invalid base URL {url:?}: {reason}")]
    BaseUrl {
        /// The URL as given.
        url: String,
        /// The reason.
        reason: &'static str,
    },
    /// Additional certificates cannot be read.
    #[error("cannot use the certificates in {path}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The gateway's own certificate cannot be created.
    #[error("cannot create a certificate for {names}: {reason}")]
    OwnCertificate {
        /// The names that it is for.
        names: String,
        /// The reason.
        reason: String,
    },
    /// A call log cannot be opened.
    #[error("cannot write the call log {path}")]
    Log {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A recording cannot be read or written.
    #[error("cannot use the recording {path}")]
    Recording {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A host rule is not valid.
    #[error("invalid host rule {rule:?}: expected a host name, `*.name`, an address or a network")]
    HostRule {
        /// The rule as given.
        rule: String,
    },
    /// The system provides no random bytes.
    #[error("cannot get random bytes for a key")]
    Random,
}
