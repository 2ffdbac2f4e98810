//! Command-line options for model access, shared by suites, test cases and the standalone gateway.

use proctor_gateway::OnMiss;
use proctor_harness::config::{
    GatewayOverrides, GatewaySettings, RecordingMode, Recordings, read_prices, read_script,
};
use proctor_sandbox::host::Host;

use crate::{
    args::{MissArg, ModelArgs},
    error::CliError,
};

/// Reads the options and the files that they name.
pub fn overrides(args: &ModelArgs, host: &Host) -> Result<GatewayOverrides, CliError> {
    let script = args.model_script.as_ref();
    let script = script.map(|file| read_script(&host.cwd.join(file)));
    let prices = args.prices.as_ref();
    let prices = prices.map(|file| read_prices(&host.cwd.join(file)));
    Ok(GatewayOverrides {
        script: script
            .transpose()
            .map_err(|error| CliError::Config(vec![error]))?,
        recordings: recordings(args, host)?,
        run_budget_usd: args.max_cost,
        prices: prices
            .transpose()
            .map_err(CliError::Prices)?
            .unwrap_or_default(),
    })
}

fn recordings(args: &ModelArgs, host: &Host) -> Result<Option<Recordings>, CliError> {
    let on_miss = match args.on_miss {
        None | Some(MissArg::Strict) => OnMiss::Refuse,
        Some(MissArg::FallThrough) => OnMiss::PassOn,
    };
    let recorded = args.record_models.as_ref();
    let recorded = recorded.map(|folder| (RecordingMode::Record, folder));
    let replayed = args.replay_models.as_ref();
    let replayed = replayed.map(|folder| (RecordingMode::Replay(on_miss), folder));
    let Some((mode, folder)) = recorded.or(replayed) else {
        return Ok(None);
    };
    let recordings = Recordings {
        mode,
        folder: host.cwd.join(folder),
    };
    if recordings.replays() && !recordings.folder.is_dir() {
        let message = format!("no recordings: {folder} is not a directory");
        let hint = format!("record the calls first, with: proctor run --record-models {folder}");
        return Err(CliError::input(message, hint));
    }
    Ok(Some(recordings))
}

/// Refuses `--prices` without a gateway, where it would have no effect.
pub fn check_prices(args: &ModelArgs, gateway: Option<&GatewaySettings>) -> Result<(), CliError> {
    if args.prices.is_some() && gateway.is_none() {
        return Err(CliError::UnusedPrices);
    }
    Ok(())
}
