//! A self-signed certificate for a gateway that other machines connect to. It is created at the
//! start, and clients that received it trust it. It is discarded with the process.

use std::io;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto};
use tokio_rustls::server::TlsStream;

use crate::error::GatewayError;

/// A certificate and its private key, which never leaves the process.
pub struct Certificate {
    names: Vec<String>,
    chain: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    pem: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Makes one for these names and addresses.
    pub fn make(names: &[String]) -> Result<Self, GatewayError> {
        let made = generate_simple_self_signed(names);
        let CertifiedKey { cert, key_pair } =
            made.map_err(|error| refused(names, error.to_string()))?;
        Ok(Self {
            names: names.to_vec(),
            pem: cert.pem(),
            chain: cert.der().clone(),
            key: PrivatePkcs8KeyDer::from(key_pair.serialize_der()).into(),
        })
    }

    /// The certificate in PEM form, for clients to trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn acceptor(self) -> Result<Acceptor, GatewayError> {
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                let config = config.with_no_client_auth();
                config.with_single_cert(vec![self.chain], self.key)
            });
        let config = config.map_err(|error| refused(&self.names, error.to_string()))?;
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }
}

fn refused(names: &[String], reason: String) -> GatewayError {
    GatewayError::OwnCertificate {
        names: names.join(", "),
        reason,
    }
}

/// Takes connections that are encrypted.
pub(crate) struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Acceptor {
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
