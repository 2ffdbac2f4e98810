//! Arguments of `view` and `watch`.

use std::net::IpAddr;

use camino::Utf8PathBuf;
use clap::Parser;

/// `proctor view`.
#[derive(Debug, Parser)]
pub struct ViewArgs {
    /// Directory or id of a run, or directory of runs [default: all runs of the project]
    #[arg(value_name = "RUN")]
    pub runs: Vec<Utf8PathBuf>,
    /// Address to listen on; other addresses than those of this machine need a token, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Port to listen on [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
}

/// `proctor watch`.
#[derive(Debug, Parser)]
pub struct WatchArgs {
    /// Directory or id of a run [default: the latest run of the project]
    #[arg(value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Print lines instead of the live view
    #[arg(long)]
    pub no_tui: bool,
}
