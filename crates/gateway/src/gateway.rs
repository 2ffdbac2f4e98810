//! The gateway as its owner sees it: started, keys minted and revoked, ledgers read, stopped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::calllog::LogWriter;
use crate::cassette::{Cassette, CassetteReport};
use crate::dial::DialConfig;
use crate::error::GatewayError;
use crate::handler::Door;
use crate::hub::{Answerer, Counters, Hub};
use crate::key::{Key, KeySpec, Keys, Playbacks, VirtualKey};
use crate::ledger::Ledger;
use crate::local;
use crate::pricing::Prices;
use crate::redact::Redactor;
use crate::script::{Playback, Recorded, Script};
use crate::server::Server;
use crate::status::{Overview, Pages};
use crate::tls::Certificate;
use crate::upstream::{Ready, Upstream};
use crate::wire::Provider;

/// How long calls of a revoked key may take to end. They are told at once.
const REVOKE_GRACE: Duration = Duration::from_secs(2);

/// How to run a gateway.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Where to listen: loopback, any port, unless given.
    pub listen: SocketAddr,
    /// Who answers, by provider.
    pub upstreams: Vec<(Provider, Upstream)>,
    /// What tokens cost.
    pub prices: Prices,
    /// Files with certificates to trust besides the well-known roots.
    pub extra_roots: Vec<PathBuf>,
    /// Names that are not looked up but known.
    pub hosts: Vec<(String, IpAddr)>,
    /// How many threads serve: as many as there are processors, up to eight, unless given.
    pub workers: Option<usize>,
    /// Whether it shows what it does.
    pub pages: Pages,
    /// The certificate that it shows; without one it is not encrypted.
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
    hub: Arc<Hub>,
    address: SocketAddr,
    /// `None` only while it is dropped.
    server: Option<Server>,
}

/// A local socket that the gateway listens on. Dropping it closes and removes the socket.
#[derive(Debug)]
pub struct SocketGuard {
    path: PathBuf,
    _stop: DropGuard,
}

impl SocketGuard {
    /// Where the socket is.
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
    /// Where the port is.
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
    /// Starts on threads of its own, so that nothing else in the program slows calls down.
    pub fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let mut redactor = Redactor::default();
        let mut upstreams = [const { None }; Provider::ALL.len()];
        for (provider, upstream) in config.upstreams {
            let answerer = match upstream {
                Upstream::Script(script) => Answerer::Script(script),
                Upstream::Http(http) => {
                    http.key.iter().for_each(|key| redactor.add(key));
                    Answerer::Http(Box::new(Ready::new(provider, &http)?))
                }
            };
            upstreams[provider as usize] = Some(answerer);
        }
        let hub = Arc::new(Hub {
            keys: Keys::default(),
            prices: config.prices,
            redactor,
            log: LogWriter::start()?,
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
        let server = Server::start(&hub, config.workers.unwrap_or_else(processors).max(1))?;
        let stop = CancellationToken::new();
        let address = server.listen(config.listen, Door::default(), stop)?;
        Ok(Self {
            hub,
            address,
            server: Some(server),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.hub.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// Makes a key.
    pub fn mint(&self, spec: KeySpec) -> Result<VirtualKey, GatewayError> {
        let key = Arc::new(Key::new(spec, self.playbacks(), &self.hub.stop)?);
        let shown = VirtualKey(key.secret.clone());
        self.hub.keys.add(key);
        Ok(shown)
    }

    /// A performance from the beginning of every script. Providers with the same script share one.
    fn playbacks(&self) -> Playbacks {
        let mut begun: Vec<(&Arc<Script>, Arc<Playback>)> = Vec::new();
        self.hub.upstreams.each_ref().map(|answerer| {
            let Some(Answerer::Script(script)) = answerer else {
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

    /// Ends a key: calls under way are cut off, and all that follow are refused. Gives its account, or
    /// nothing if there is no such key.
    pub async fn revoke(&self, key: &VirtualKey) -> Option<Ledger> {
        let key = self.hub.keys.remove(key.expose())?;
        key.close();
        // Calls end when a worker notices; what has not ended by then is missing in the account.
        let _ = tokio::time::timeout(REVOKE_GRACE, key.quiet()).await;
        self.hub.log.flush();
        Some(key.account())
    }

    /// The same for a key whose account nobody asks for.
    pub fn cut_off(&self, key: &VirtualKey) {
        if let Some(key) = self.hub.keys.remove(key.expose()) {
            key.close();
        }
    }

    /// The account of a key so far.
    pub fn ledger(&self, key: &VirtualKey) -> Option<Ledger> {
        let key = self.hub.keys.find(key.expose())?;
        Some(key.account())
    }

    /// What a key's cassette was used for so far.
    pub fn cassette_report(&self, key: &VirtualKey) -> Option<CassetteReport> {
        let key = self.hub.keys.find(key.expose())?;
        key.cassette.as_ref().map(Cassette::report)
    }

    /// The requests that a provider's script got with this key.
    pub fn scripted_requests(&self, key: &VirtualKey, provider: Provider) -> Vec<Recorded> {
        let key = self.hub.keys.find(key.expose());
        let playback = key.and_then(|key| key.playbacks[provider as usize].clone());
        playback
            .map(|playback| playback.requests())
            .unwrap_or_default()
    }

    /// Listens on a [local](crate::local) socket too, for clients without a network. Whoever comes through it
    /// without a key, or as a proxy's client, is taken for `key`.
    pub fn listen_local(
        &self,
        path: &Path,
        key: Option<&VirtualKey>,
    ) -> Result<SocketGuard, GatewayError> {
        let failed = |source| GatewayError::Listen {
            address: path.display().to_string(),
            source,
        };
        let socket = local::Bound::new(path).map_err(failed)?;
        let door = Door {
            key: key.and_then(|key| self.hub.keys.find(key.expose())),
            admits_keyless: true,
        };
        let stop = CancellationToken::new();
        if let Some(server) = &self.server {
            server.listen_local(socket, door, stop.clone());
        }
        Ok(SocketGuard {
            path: path.to_owned(),
            _stop: stop.drop_guard(),
        })
    }

    /// Listens on a port of loopback for the client of `key` alone, who has to show it or one of
    /// its aliases.
    pub fn listen_port(&self, key: &VirtualKey) -> Result<PortGuard, GatewayError> {
        let door = Door {
            key: self.hub.keys.find(key.expose()),
            admits_keyless: false,
        };
        let stop = CancellationToken::new();
        let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        if let Some(server) = &self.server {
            address = server.listen(address, door, stop.clone())?;
        }
        Ok(PortGuard {
            address,
            _stop: stop.drop_guard(),
        })
    }

    /// Cancelled when the client of `key`, on a listener of its own, shows a key that the gateway
    /// does not know; `None` when there is no such key.
    pub fn unknown_key(&self, key: &VirtualKey) -> Option<CancellationToken> {
        let key = self.hub.keys.find(key.expose())?;
        Some(key.unknown_key.clone())
    }

    /// Whether a model has a price. A budget in USD for one without is never let through.
    pub fn knows_price(&self, model: &str) -> bool {
        self.hub.prices.find(model).is_some()
    }

    /// What it is doing.
    pub fn overview(&self) -> Overview {
        Overview::of(&self.hub)
    }

    /// Stops: every connection ends, and logs are written to the end.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.hub.stop.cancel();
        if let Some(server) = self.server.take() {
            server.join();
        }
        self.hub.log.flush();
    }
}
