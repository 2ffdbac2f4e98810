//! `proctor log`.

use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use proctor_agents::{self as agents, ADAPTERS};
use proctor_harness::trial::export::{self, Exchange};
use proctor_record::{
    VERSION,
    transcript::{self, AgentContext, Format, Found, Recording},
};

use crate::{
    args::{ExportArgs, ExportFormat, NormalizeArgs, NormalizeFormat},
    commands::replay::trial_folder,
    error::{CliError, Exit},
    host, ui,
};

/// Large reads: a session may be hundreds of megabytes.
const BUFFER_BYTES: usize = 1 << 18;

pub fn normalize(args: &NormalizeArgs) -> Result<Exit, CliError> {
    let adapter = agents::find(&args.agent);
    let session = adapter.and_then(|adapter| Some((adapter, adapter.recorded_session()?)));
    let Some((adapter, session)) = session else {
        let known = ADAPTERS
            .iter()
            .filter(|adapter| adapter.recorded_session().is_some());
        return Err(CliError::NoSession {
            agent: args.agent.clone(),
            known: known.map(|adapter| adapter.name()).collect(),
        });
    };
    let input: Box<dyn Read> = match args.file.as_str() {
        "-" => Box::new(io::stdin()),
        path => Box::new(fs_err::File::open(path)?),
    };
    let recording = Recording {
        exit_code: args.exit_code,
        format: match args.format {
            NormalizeFormat::Log => Format::Log,
            NormalizeFormat::Atif => Format::Atif,
        },
        truncated_code: adapter.cli().map(|cli| cli.truncated_code),
        agent: AgentContext {
            name: adapter.name(),
            adapter_version: VERSION,
            provider: adapter.provider(),
            ..AgentContext::default()
        },
        ..Recording::default()
    };
    // Whether there is a session at all is known at the end.
    let mut log = tempfile::tempfile()?;
    let input = BufReader::with_capacity(BUFFER_BYTES, input);
    let found = transcript::normalize(session, input, &log, recording)?;
    if found == Found::NoSession {
        return Err(CliError::NotASession {
            file: args.file.clone(),
            agent: args.agent.clone(),
        });
    }
    log.rewind()?;
    ui::stream(|out| io::copy(&mut log, out).map(drop))?;
    Ok(Exit::Success)
}

pub fn export(args: &ExportArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let folder = trial_folder(&host.cwd.join(&args.trial));
    let format = match args.format {
        ExportFormat::Atif => Exchange::Atif,
        ExportFormat::OtlpJson => Exchange::OtlpJson,
    };
    match &args.output {
        None => ui::stream(|out| export::export(&folder, format, out))?,
        Some(path) => {
            // Written to a temporary file first, so that an incomplete file is never visible.
            let path = host.cwd.join(path);
            let parent = path.parent().unwrap_or(&host.cwd);
            let file = tempfile::NamedTempFile::new_in(parent)?;
            let mut out = BufWriter::new(&file);
            export::export(&folder, format, &mut out)?;
            out.flush()?;
            drop(out);
            file.persist(&path).map_err(|error| error.error)?;
        }
    }
    Ok(Exit::Success)
}
