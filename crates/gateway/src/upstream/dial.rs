//! Opens connections to providers and other hosts: names are resolved without the C library, TLS is
//! checked against well-known roots and those that were given.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use tokio_util::either::Either;

use crate::error::GatewayError;

/// How long opening a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(15);

/// The settings that all dialers of a gateway share.
#[derive(Debug, Default)]
pub(crate) struct DialConfig {
    hosts: Vec<(String, IpAddr)>,
    extra_roots: Vec<CertificateDer<'static>>,
    tls: OnceLock<Arc<ClientConfig>>,
}

impl DialConfig {
    /// Reads the extra roots.
    pub(crate) fn new(
        hosts: Vec<(String, IpAddr)>,
        root_files: &[PathBuf],
    ) -> Result<Self, GatewayError> {
        let mut extra_roots = Vec::new();
        for path in root_files {
            extra_roots.extend(certificates(path)?);
        }
        Ok(Self {
            hosts,
            extra_roots,
            tls: OnceLock::new(),
        })
    }

    /// Built when the first TLS connection needs it, because that takes time.
    fn tls(&self) -> Arc<ClientConfig> {
        let build = || {
            let mut roots = RootCertStore::empty();
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            roots.add_parsable_certificates(self.extra_roots.iter().cloned());
            let provider = Arc::new(crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the provider supports the default versions")
                .with_root_certificates(roots)
                .with_no_client_auth();
            Arc::new(config)
        };
        Arc::clone(self.tls.get_or_init(build))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    let failed = |source| GatewayError::Certificates {
        path: path.to_owned(),
        source,
    };
    let text = fs_err::read(path).map_err(failed)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| failed(io::Error::other(error.to_string())))?;
    if found.is_empty() {
        return Err(failed(io::Error::other("no certificate in it")));
    }
    Ok(found)
}

/// Opens connections, on the runtime of one worker.
#[derive(Debug)]
pub(crate) struct Dialer {
    config: Arc<DialConfig>,
    resolver: OnceLock<TokioResolver>,
}

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

impl Dialer {
    pub(crate) fn new(config: Arc<DialConfig>) -> Self {
        Self {
            config,
            resolver: OnceLock::new(),
        }
    }

    /// Opens a connection, with TLS if the target wants it.
    pub(crate) async fn connect(&self, target: &Target) -> io::Result<UpstreamConnection> {
        let opening = async {
            let addresses = self.resolve(&target.host).await?;
            let tcp = open(&addresses, target.port).await?;
            if !target.tls {
                return Ok(Either::Left(tcp));
            }
            let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
            let tls = TlsConnector::from(self.config.tls())
                .connect(name, tcp)
                .await?;
            Ok(Either::Right(Box::new(tls)))
        };
        within(opening).await
    }

    /// Opens a plain connection to one of these addresses.
    pub(crate) async fn open(&self, addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
        within(open(addresses, port)).await
    }

    /// The addresses of a host.
    pub(crate) async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse() {
            return Ok(vec![address]);
        }
        let known = self
            .config
            .hosts
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(host));
        let known: Vec<IpAddr> = known.map(|(_, address)| *address).collect();
        if !known.is_empty() {
            return Ok(known);
        }
        if host.eq_ignore_ascii_case("localhost") {
            return Ok(vec![IpAddr::from([127, 0, 0, 1])]);
        }
        let found = self
            .resolver()?
            .lookup_ip(host)
            .await
            .map_err(io::Error::other)?;
        Ok(found.iter().collect())
    }

    fn resolver(&self) -> io::Result<&TokioResolver> {
        if let Some(resolver) = self.resolver.get() {
            return Ok(resolver);
        }
        let builder = TokioResolver::builder_tokio().map_err(io::Error::other)?;
        let resolver = builder.build().map_err(io::Error::other)?;
        Ok(self.resolver.get_or_init(|| resolver))
    }
}

async fn within<T>(opening: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
    tokio::time::timeout(CONNECT_TIME, opening)
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

async fn open(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(*address, port)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// An open connection, without or with TLS.
pub(crate) type UpstreamConnection = Either<TcpStream, Box<TlsStream<TcpStream>>>;
