//! `proctor log`.

use std::io::{self, BufReader, Read};

use proctor_harness::{
    agents::{self, ADAPTERS},
    log::{self, Contender, Recording},
    trial::VERSION,
};

use crate::{
    args::NormalizeArgs,
    error::{CliError, Exit},
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
        contender: Contender {
            name: adapter.name(),
            adapter_version: VERSION,
            provider: adapter.provider(),
            ..Contender::default()
        },
    };
    log::normalize(
        session,
        BufReader::with_capacity(BUFFER_BYTES, input),
        io::stdout().lock(),
        recording,
    )?;
    Ok(Exit::Success)
}
