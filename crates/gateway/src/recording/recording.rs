//! Records responses of providers, and replays them without the providers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use fs_err::File;
use hyper::{HeaderMap, Response};
use serde::Serialize;

use super::exchange::{self, Exchange, Pace, RecordedBody, RecordedPiece};
use super::fingerprint::{self, Difference, RequestFingerprint};
use crate::error::GatewayError;
use crate::secrets::Redactor;

/// The number of misses that are reported with their differences.
const MOST_MISSES: usize = 50;

/// The recording of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingSpec {
    /// Append every call to this file.
    Record(PathBuf),
    /// Answer calls from this file.
    Replay {
        /// The file.
        path: PathBuf,
        /// The handling of a request that was not recorded.
        on_miss: OnMiss,
        /// The timing of responses.
        pace: Pace,
    },
}

/// The handling of a request that was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMiss {
    /// Refuse it.
    Refuse,
    /// Send it to the provider.
    PassOn,
}

/// The result of recording or replaying.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecordingReport {
    /// Calls that were recorded.
    pub recorded: usize,
    /// Requests that were answered from the recording.
    pub hits: usize,
    /// Requests that were not recorded.
    pub missed: usize,
    /// The first misses, with their differences.
    pub misses: Vec<Miss>,
    /// Recorded calls that were not requested.
    pub unused: usize,
}

/// A request that was not recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Miss {
    /// The path of the request.
    pub path: String,
    /// The differences from the next unused recorded request.
    pub differences: Vec<Difference>,
}

/// An open recording.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    mode: RecordingState,
    report: Mutex<RecordingReport>,
}

#[derive(Debug)]
enum RecordingState {
    Record(Mutex<File>),
    Replay {
        exchanges: Vec<Exchange>,
        used: Mutex<Vec<bool>>,
        on_miss: OnMiss,
        pace: Pace,
    },
}

impl Recording {
    pub(crate) fn open(spec: RecordingSpec) -> Result<Self, GatewayError> {
        let (path, mode) = match spec {
            RecordingSpec::Record(path) => {
                let file = fs_err::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&path);
                let file = file.map_err(|source| failed(&path, source))?;
                (path, RecordingState::Record(Mutex::new(file)))
            }
            RecordingSpec::Replay {
                path,
                on_miss,
                pace,
            } => {
                let exchanges = exchange::read(&path).map_err(|source| failed(&path, source))?;
                let used = Mutex::new(vec![false; exchanges.len()]);
                (
                    path,
                    RecordingState::Replay {
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

    /// The recorded response to a request. An error if a missing request is refused, `None` if the request
    /// goes to the provider.
    pub(crate) fn replay(
        &self,
        request: &RequestFingerprint,
    ) -> Option<Result<Response<RecordedBody>, String>> {
        let RecordingState::Replay {
            exchanges,
            used,
            on_miss,
            pace,
        } = &self.mode
        else {
            return None;
        };
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(_, exchange): &(usize, &Exchange)| exchange.fingerprint == request.fingerprint;
        let known: Vec<usize> = exchanges
            .iter()
            .enumerate()
            .filter(same)
            .map(|(i, _)| i)
            .collect();
        // A request that is repeated more often than recorded gets the last response again.
        let index = known.iter().find(|index| !used[**index]).or(known.last());
        let mut report = self.lock();
        if let Some(index) = index {
            used[*index] = true;
            report.hits += 1;
            return Some(Ok(exchanges[*index].play(*pace)));
        }
        let nearest = exchanges.iter().enumerate().find(|(i, exchange)| {
            !used[*i] && exchange.wire == request.wire && exchange.path == request.path
        });
        let differences =
            nearest.map(|(_, exchange)| fingerprint::differences(&exchange.body, &request.body));
        let differences = differences.unwrap_or_default();
        report.missed += 1;
        if report.misses.len() < MOST_MISSES {
            report.misses.push(Miss {
                path: request.path.clone(),
                differences,
            });
        }
        match on_miss {
            OnMiss::PassOn => None,
            OnMiss::Refuse => Some(Err(format!(
                "request not found in the recording {}",
                self.name()
            ))),
        }
    }

    /// Starts to record a response, if this key records.
    pub(crate) fn record(
        &self,
        request: RequestFingerprint,
        status: u16,
        headers: &HeaderMap,
    ) -> Option<AnswerRecorder> {
        matches!(self.mode, RecordingState::Record(_)).then(|| AnswerRecorder {
            exchange: Exchange::new(request, status, headers),
            began: Instant::now(),
            raw: Vec::new(),
        })
    }

    /// The report so far.
    pub(crate) fn report(&self) -> RecordingReport {
        let mut report = self.lock().clone();
        if let RecordingState::Replay { used, .. } = &self.mode {
            let used = used.lock().unwrap_or_else(PoisonError::into_inner);
            report.unused = used.iter().filter(|used| !**used).count();
        }
        report
    }

    /// Adds a complete or cut answer to the file.
    pub(crate) fn add(&self, recorder: AnswerRecorder, redactor: &Redactor, cut: bool) {
        if let RecordingState::Record(file) = &self.mode {
            let exchange = recorder.finish(redactor, cut);
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // A call that could not be written is reported as a miss during replay.
            if exchange::append(&mut file, &exchange).is_ok() {
                self.lock().recorded += 1;
            }
        }
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, RecordingReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(path: &Path, source: io::Error) -> GatewayError {
    GatewayError::Recording {
        path: path.to_owned(),
        source,
    }
}

/// A response that is being recorded.
#[derive(Debug)]
pub(crate) struct AnswerRecorder {
    exchange: Exchange,
    began: Instant,
    raw: Vec<(u64, Bytes)>,
}

impl AnswerRecorder {
    /// Takes the next bytes of the response.
    pub(crate) fn push(&mut self, bytes: &Bytes) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.raw.push((ms, bytes.clone()));
    }

    fn finish(mut self, redactor: &Redactor, cut: bool) -> Exchange {
        self.exchange.cut = cut;
        let pieces = self
            .raw
            .iter()
            .map(|(ms, bytes)| RecordedPiece::new(*ms, bytes, redactor));
        self.exchange.pieces = pieces.collect();
        self.exchange
    }
}
