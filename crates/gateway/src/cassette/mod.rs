//! Records what providers answered, and plays it again without them.

mod fingerprint;
mod tape;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use fs_err::File;
use hyper::Response;
use serde::Serialize;

pub(crate) use fingerprint::Asking;
pub use fingerprint::Difference;
use tape::{Exchange, Piece};

use crate::body::Body;
use crate::error::GatewayError;
use crate::key::Key;
use crate::ledger::Ended;
use crate::redact::Redactor;

/// So many misses are told with their differences.
const MOST_MISSES: usize = 50;

/// What a key does with a cassette.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CassetteSpec {
    /// Every call is added to this file.
    Record(PathBuf),
    /// Calls are answered from this file.
    Replay {
        /// The file.
        path: PathBuf,
        /// What happens to a request that is not in it.
        on_miss: OnMiss,
        /// How fast answers come.
        pace: Pace,
    },
}

/// What happens to a request that a cassette does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMiss {
    /// It is refused.
    Refuse,
    /// It goes to the provider.
    PassOn,
}

/// How fast a cassette plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it was recorded.
    Recorded,
    /// As fast as it can.
    AtOnce,
}

/// What a cassette was used for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CassetteReport {
    /// Calls that were recorded.
    pub recorded: usize,
    /// Requests that were found.
    pub hits: usize,
    /// Requests that were not.
    pub missed: usize,
    /// The first of them, with what differed.
    pub misses: Vec<Miss>,
    /// Recorded calls that nobody asked for.
    pub unused: usize,
}

/// A request that a cassette does not have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Miss {
    /// The path it asked for.
    pub path: String,
    /// Where it differs from the next recorded request that nobody has asked for yet.
    pub differences: Vec<Difference>,
}

/// An open cassette.
#[derive(Debug)]
pub(crate) struct Cassette {
    path: PathBuf,
    mode: Mode,
    report: Mutex<CassetteReport>,
}

#[derive(Debug)]
enum Mode {
    Record(Mutex<File>),
    Replay {
        exchanges: Vec<Exchange>,
        used: Mutex<Vec<bool>>,
        on_miss: OnMiss,
        pace: Pace,
    },
}

impl Cassette {
    pub(crate) fn open(spec: CassetteSpec) -> Result<Self, GatewayError> {
        let (path, mode) = match spec {
            CassetteSpec::Record(path) => {
                let file = fs_err::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&path);
                let file = file.map_err(|source| failed(&path, source))?;
                (path, Mode::Record(Mutex::new(file)))
            }
            CassetteSpec::Replay {
                path,
                on_miss,
                pace,
            } => {
                let exchanges = tape::read(&path).map_err(|source| failed(&path, source))?;
                let used = Mutex::new(vec![false; exchanges.len()]);
                (
                    path,
                    Mode::Replay {
                        exchanges,
                        used,
                        on_miss,
                        pace,
                    },
                )
            }
        };
        Ok(Self {
            path,
            mode,
            report: Mutex::default(),
        })
    }

    /// The recorded answer to a request; an error if it must not go on without one; nothing if it goes
    /// to the provider.
    pub(crate) fn replay(&self, asking: &Asking) -> Option<Result<Response<Body>, String>> {
        let Mode::Replay {
            exchanges,
            used,
            on_miss,
            pace,
        } = &self.mode
        else {
            return None;
        };
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(_, exchange): &(usize, &Exchange)| exchange.fingerprint == asking.fingerprint;
        let known: Vec<usize> = exchanges
            .iter()
            .enumerate()
            .filter(same)
            .map(|(i, _)| i)
            .collect();
        // A request that comes more often than it was recorded gets the last answer again.
        let index = known.iter().find(|index| !used[**index]).or(known.last());
        let mut report = self.lock();
        if let Some(index) = index {
            used[*index] = true;
            report.hits += 1;
            return Some(Ok(exchanges[*index].play(*pace)));
        }
        let nearest = exchanges.iter().enumerate().find(|(i, exchange)| {
            !used[*i] && exchange.wire == asking.wire && exchange.path == asking.path
        });
        let differences =
            nearest.map(|(_, exchange)| fingerprint::differences(&exchange.body, &asking.body));
        let differences = differences.unwrap_or_default();
        report.missed += 1;
        if report.misses.len() < MOST_MISSES {
            report.misses.push(Miss {
                path: asking.path.clone(),
                differences,
            });
        }
        match on_miss {
            OnMiss::PassOn => None,
            OnMiss::Refuse => Some(Err(format!(
                "the cassette {} has no such request",
                self.name()
            ))),
        }
    }

    /// Begins to record an answer, if this cassette records.
    pub(crate) fn record(&self, asking: Asking, response: &Response<Body>) -> Option<Recording> {
        matches!(self.mode, Mode::Record(_)).then(|| Recording {
            exchange: Exchange::new(asking, response.status().as_u16(), response.headers()),
            began: Instant::now(),
            raw: Vec::new(),
        })
    }

    /// What happened so far.
    pub(crate) fn report(&self) -> CassetteReport {
        let mut report = self.lock().clone();
        if let Mode::Replay { used, .. } = &self.mode {
            let used = used.lock().unwrap_or_else(PoisonError::into_inner);
            report.unused = used.iter().filter(|used| !**used).count();
        }
        report
    }

    fn write(&self, exchange: &Exchange) {
        if let Mode::Record(file) = &self.mode {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // A cassette that cannot be written replays as a miss, which is told.
            if tape::append(&mut file, exchange).is_ok() {
                self.lock().recorded += 1;
            }
        }
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, CassetteReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(path: &Path, source: io::Error) -> GatewayError {
    GatewayError::Cassette {
        path: path.to_owned(),
        source,
    }
}

/// An answer that is being recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    exchange: Exchange,
    began: Instant,
    raw: Vec<(u64, Bytes)>,
}

impl Recording {
    /// Takes the next bytes of the answer.
    pub(crate) fn push(&mut self, bytes: &Bytes) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.raw.push((ms, bytes.clone()));
    }

    /// The answer is over.
    pub(crate) fn finish(mut self, key: &Key, redactor: &Redactor, ended: Ended) {
        // Whoever left did not hear the rest: that would be no answer to replay.
        if ended == Ended::ClientGone {
            return;
        }
        self.exchange.cut = ended == Ended::Cut;
        let pieces = self
            .raw
            .iter()
            .map(|(ms, bytes)| Piece::new(*ms, bytes, redactor));
        self.exchange.pieces = pieces.collect();
        if let Some(cassette) = &key.cassette {
            cassette.write(&self.exchange);
        }
    }
}
