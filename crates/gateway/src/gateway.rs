//! The public interface of a gateway: start and stop, keys and their ledgers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use proctor_model_api::Provider;
use proctor_scripted_model::{Playback, RecordedRequest, Script};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::allocator;
use crate::call_log::CallLogWriter;
use crate::error::GatewayError;
use crate::key::{Key, KeySpec, Keys, Playbacks};
use crate::ledger::Ledger;
use crate::pricing::Prices;
use crate::recording::{Recording, RecordingReport};
use crate::secrets::{Redactor, VirtualKey};
use crate::server::{ListenerAccess, Server};
use crate::state::{Counters, GatewayState, ModelBackend};
use crate::status::{Overview, Pages};
use crate::tls::Certificate;
use crate::upstream::DialConfig;
use crate::upstream::{Upstream, UpstreamEndpoint};

/// How long to wait for the calls of a revoked key to end.
const REVOKE_GRACE: Duration = Duration::from_secs(2);

/// The configuration of a gateway.
#[derive(Debug)]
pub struct GatewayConfig {
    /// The address to listen on. Default: loopback, any port.
    pub listen: SocketAddr,
    /// The upstream of each provider.
    pub upstreams: Vec<(Provider, Upstream)>,
    /// The prices of tokens.
    pub prices: Prices,
    /// Files with additional trusted root certificates.
    pub extra_roots: Vec<PathBuf>,
    /// Host names with fixed addresses.
    pub hosts: Vec<(String, IpAddr)>,
    /// The number of worker threads. Default: one per processor, up to eight.
    pub workers: Option<usize>,
    /// Whether the status page and the metrics are served.
    pub pages: Pages,
    /// The certificate for TLS. Without one, connections are not encrypted.
    pub certificate: Option<Certificate>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            upstreams: Vec::new(),
            prices: Prices::built_in(),
            extra_roots: Vec::new(),
            hosts: Vec::new(),
            workers: None,
            pages: Pages::default(),
            certificate: None,
        }
    }
}

/// A running gateway. Dropping it ends every connection.
#[derive(Debug)]
pub struct Gateway {
    state: Arc<GatewayState>,
    address: SocketAddr,
    /// `None` only during drop.
    server: Option<Server>,
}

/// A local socket that the gateway listens on. Dropping it closes and removes the socket.
#[derive(Debug)]
pub struct SocketGuard {
    path: PathBuf,
    _stop: DropGuard,
}

impl SocketGuard {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A port of loopback that the gateway listens on. Dropping it closes the port.
#[derive(Debug)]
pub struct PortGuard {
    address: SocketAddr,
    _stop: DropGuard,
}

impl PortGuard {
    /// The address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        let _ = fs_err::remove_file(&self.path);
    }
}

impl Gateway {
    /// Starts on threads of its own, so that other work in the process does not delay calls.
    pub fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        allocator::return_large_allocations();
        let mut redactor = Redactor::default();
        let mut upstreams = [const { None }; Provider::ALL.len()];
        for (provider, upstream) in config.upstreams {
            let backend = match upstream {
                Upstream::Script(script) => ModelBackend::Script(script),
                Upstream::Http(http) => {
                    http.key.iter().for_each(|key| redactor.add(key));
                    ModelBackend::Http(Box::new(UpstreamEndpoint::new(provider, &http)?))
                }
            };
            upstreams[provider as usize] = Some(backend);
        }
        let state = Arc::new(GatewayState {
            keys: Keys::default(),
            prices: config.prices,
            redactor,
            log: CallLogWriter::start()?,
            upstreams,
            dial: Arc::new(DialConfig::new(config.hosts, &config.extra_roots)?),
            stop: CancellationToken::new(),
            counters: Counters::default(),
            since: Timestamp::now(),
            began: Instant::now(),
            pages: config.pages,
            tls: config.certificate.map(Certificate::acceptor).transpose()?,
        });
        let processors = || {
            thread::available_parallelism()
                .map_or(1, usize::from)
                .min(8)
        };
        let server = Server::start(&state, config.workers.unwrap_or_else(processors).max(1))?;
        let stop = CancellationToken::new();
        let address = server.listen(config.listen, ListenerAccess::default(), stop)?;
        Ok(Self {
            state,
            address,
            server: Some(server),
        })
    }

    /// The address that the gateway listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.state.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// Creates a key.
    pub fn mint(&self, spec: KeySpec) -> Result<VirtualKey, GatewayError> {
        let key = Arc::new(Key::new(spec, self.playbacks(), &self.state.stop)?);
        let shown = key.secret.clone();
        self.state.keys.add(key);
        Ok(shown)
    }

    /// A new playback of every script. Providers with the same script share one.
    fn playbacks(&self) -> Playbacks {
        let mut begun: Vec<(&Arc<Script>, Arc<Playback>)> = Vec::new();
        self.state.upstreams.each_ref().map(|backend| {
            let Some(ModelBackend::Script(script)) = backend else {
                return None;
            };
            let same = begun.iter().find(|(known, _)| Arc::ptr_eq(known, script));
            if let Some((_, playback)) = same {
                return Some(Arc::clone(playback));
            }
            let playback = Playback::new((**script).clone());
            begun.push((script, Arc::clone(&playback)));
            Some(playback)
        })
    }

    /// Revokes a key: calls in flight are interrupted and further calls are refused. Returns the account, or
    /// `None` for an unknown key.
    pub async fn revoke(&self, key: &VirtualKey) -> Option<Ledger> {
        let key = self.state.keys.remove(key.expose())?;
        key.close();
        // A call that has not ended by then is missing in the account.
        let _ = tokio::time::timeout(REVOKE_GRACE, key.quiet()).await;
        self.state.log.flush();
        Some(key.account())
    }

    /// Revokes a key without waiting for its calls.
    pub fn cut_off(&self, key: &VirtualKey) {
        if let Some(key) = self.state.keys.remove(key.expose()) {
            key.close();
        }
    }

    /// The current account of a key.
    pub fn ledger(&self, key: &VirtualKey) -> Option<Ledger> {
        let key = self.state.keys.find(key.expose())?;
        Some(key.account())
    }

    /// The current report of a key's recording.
    pub fn recording_report(&self, key: &VirtualKey) -> Option<RecordingReport> {
        let key = self.state.keys.find(key.expose())?;
        key.recording.as_ref().map(Recording::report)
    }

    /// The requests with this key that a provider's script received.
    pub fn scripted_requests(&self, key: &VirtualKey, provider: Provider) -> Vec<RecordedRequest> {
        let key = self.state.keys.find(key.expose());
        let playback = key.and_then(|key| key.playbacks[provider as usize].clone());
        playback
            .map(|playback| playback.requests())
            .unwrap_or_default()
    }

    /// Also listens on a local socket, for clients without a network. Requests without a key,
    /// also those to the proxy, count as requests with `key`.
    pub fn listen_local(
        &self,
        path: &Path,
        key: Option<&VirtualKey>,
    ) -> Result<SocketGuard, GatewayError> {
        let failed = |source| GatewayError::Listen {
            address: path.display().to_string(),
            source,
        };
        let socket = proctor_local_socket::Bound::new(path).map_err(failed)?;
        let access = ListenerAccess {
            key: key.and_then(|key| self.state.keys.find(key.expose())),
            admits_keyless: true,
        };
        let stop = CancellationToken::new();
        if let Some(server) = &self.server {
            server.listen_local(socket, access, stop.clone());
        }
        Ok(SocketGuard {
            path: path.to_owned(),
            _stop: stop.drop_guard(),
        })
    }

    /// Listens on a loopback port for the client of `key` only. The client must send the key or one of its
    /// aliases.
    pub fn listen_port(&self, key: &VirtualKey) -> Result<PortGuard, GatewayError> {
        let access = ListenerAccess {
            key: self.state.keys.find(key.expose()),
            admits_keyless: false,
        };
        let stop = CancellationToken::new();
        let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        if let Some(server) = &self.server {
            address = server.listen(address, access, stop.clone())?;
        }
        Ok(PortGuard {
            address,
            _stop: stop.drop_guard(),
        })
    }

    /// Cancelled when the client of `key`, on its own listener, sends a key that the gateway does not know.
    /// `None` if `key` is unknown.
    pub fn unknown_key(&self, key: &VirtualKey) -> Option<CancellationToken> {
        let key = self.state.keys.find(key.expose())?;
        Some(key.unknown_key.clone())
    }

    /// Whether a model has a price. A budget in USD refuses models without one.
    pub fn knows_price(&self, model: &str) -> bool {
        self.state.prices.find(model).is_some()
    }

    /// The current status.
    pub fn overview(&self) -> Overview {
        self.state.overview()
    }

    /// Stops: ends every connection and flushes the logs.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.state.stop.cancel();
        if let Some(server) = self.server.take() {
            server.join();
        }
        self.state.log.flush();
    }
}
