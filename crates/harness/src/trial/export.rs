//! Exports a recorded trial: as an ATIF trajectory, read from the raw output so that nothing is
//! truncated, or as OpenTelemetry spans, from the events and their times.

use std::io::{self, BufReader, Write};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents as agents;
use proctor_gateway::ModelContext;
use proctor_record::{
    record::{COLLECTED_DIR, EVENTS_FILE, PROMPT_FILE, Record, Tail},
    transcript::{self, AgentContext, Format, Recording, SessionInfo},
};
use serde_json::Value;
use thiserror::Error;

use crate::model_access::CALLS_FILE;

/// The system prompt and tools of the agent's first call, in the trial's artifacts.
pub const CONTEXT_FILE: &str = "model-context.json";

/// A large buffer, because a session may have hundreds of megabytes.
const BUFFER_BYTES: usize = 1 << 18;

/// The export formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// An ATIF v1.8 trajectory.
    Atif,
    /// OpenTelemetry spans in OTLP's JSON.
    OtlpJson,
}

/// Why a trial cannot be exported.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages document the variants")]
pub enum ExportError {
    #[error("no trial record in `{folder}`")]
    NoRecord {
        folder: Utf8PathBuf,
        source: io::Error,
    },
    #[error("invalid record `{path}`")]
    BadRecord {
        path: Utf8PathBuf,
        source: serde_json::Error,
    },
    #[error("the output of the agent `{agent}` cannot be exported as a session")]
    NoSession { agent: String },
    #[error("cannot read the trial or write the export")]
    Io(#[from] io::Error),
}

/// Writes the trial in `folder` to `out`.
pub fn export(folder: &Utf8Path, format: Exchange, out: &mut dyn Write) -> Result<(), ExportError> {
    let artifacts = folder.join("artifacts");
    let record = read_record(&artifacts)?;
    match format {
        Exchange::Atif => trajectory(&artifacts, &record, out),
        Exchange::OtlpJson => {
            let mut tail = Tail::new(artifacts.join(EVENTS_FILE));
            let mut events = Vec::new();
            loop {
                let more = tail.read();
                if more.is_empty() {
                    break;
                }
                events.extend(more);
            }
            let spans = transcript::spans(&record, &events, &calls(&artifacts));
            serde_json::to_writer(&mut *out, &spans).map_err(io::Error::from)?;
            Ok(out.write_all(b"\n")?)
        }
    }
}

fn read_record(artifacts: &Utf8Path) -> Result<Record, ExportError> {
    let path = artifacts.join("record.json");
    let text = fs_err::read(&path).map_err(|source| ExportError::NoRecord {
        folder: artifacts.parent().unwrap_or(artifacts).to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|source| ExportError::BadRecord { path, source })
}

fn trajectory(
    artifacts: &Utf8Path,
    record: &Record,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let adapter = agents::find(&record.agent.kind);
    let session = adapter.and_then(|adapter| Some((adapter, adapter.recorded_session()?)));
    let Some((adapter, session)) = session else {
        let agent = record.agent.kind.clone();
        return Err(ExportError::NoSession { agent });
    };
    let context: ModelContext = fs_err::read(artifacts.join(CONTEXT_FILE))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let raw = artifacts.join("raw");
    let recording = Recording {
        files: collected(&raw),
        exit_code: record
            .process
            .as_ref()
            .and_then(|process| process.exit_code),
        agent: AgentContext {
            name: &record.agent.kind,
            version: record.agent.version.as_deref(),
            adapter_version: &record.agent.adapter_version,
            provider: adapter.provider(),
            model: record.agent.model_requested.as_deref(),
            ..AgentContext::default()
        },
        format: Format::Atif,
        truncated_code: None,
        known: SessionInfo {
            prompt: fs_err::read_to_string(artifacts.join(PROMPT_FILE)).ok(),
            system: context.system,
            tools: context.tools,
        },
    };
    let reader = BufReader::with_capacity(BUFFER_BYTES, fs_err::File::open(raw.join("stdout"))?);
    transcript::normalize(session, reader, out, recording)?;
    Ok(())
}

/// Files that the session read in addition to the output.
fn collected(raw: &Utf8Path) -> Vec<Vec<u8>> {
    let Ok(folder) = fs_err::read_dir(raw.join(COLLECTED_DIR)) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let files = paths.iter().filter_map(|path| fs_err::read(path).ok());
    files.collect()
}

/// The gateway's calls; empty without a gateway.
fn calls(artifacts: &Utf8Path) -> Vec<Value> {
    let text = fs_err::read_to_string(artifacts.join(CALLS_FILE)).unwrap_or_default();
    let calls = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    calls.collect()
}
