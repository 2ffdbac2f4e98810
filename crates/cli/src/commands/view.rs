//! `proctor view`: a local web server for the pages of runs.

use std::net::SocketAddr;

use camino::Utf8PathBuf;
use proctor_record::record::list;
use proctor_view::{Access, Library, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    args::ViewArgs,
    error::{CliError, Exit},
    host,
    platform::StopSignals,
    ui,
};

pub fn view(args: &ViewArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let places = if args.runs.is_empty() {
        super::results_places(&host, None)?
    } else {
        let found = args.runs.iter().map(|run| {
            let folder = host.cwd.join(run);
            let has_runs = folder.is_dir() && !list::find(&folder).is_empty();
            if has_runs {
                Ok(folder)
            } else {
                super::find_run(run, &host)
            }
        });
        found.collect::<Result<Vec<Utf8PathBuf>, CliError>>()?
    };
    // The page of a single run is the first one to look at.
    let path = match places.as_slice() {
        [run] if list::is_run(run) => {
            format!("/runs/{}/", run.file_name().unwrap_or_default())
        }
        _ => "/".to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve_until_stopped(args, places, &path))
}

async fn serve_until_stopped(
    args: &ViewArgs,
    places: Vec<Utf8PathBuf>,
    path: &str,
) -> Result<Exit, CliError> {
    let address = SocketAddr::new(args.bind, args.port);
    let listener = TcpListener::bind(address).await.map_err(|error| {
        CliError::input(
            format!("cannot listen on {address}: {error}"),
            "choose another port with --port, or an address of this machine with --bind",
        )
    })?;
    let access = Access::new(listener.local_addr()?)?;
    let mut signals = StopSignals::listen()?;
    ui::print(&format!("{}\n", access.url(path)))?;
    ui::note("open this address in a browser; Ctrl-C stops the server");
    let cancel = CancellationToken::new();
    let serving = serve(listener, Library::new(places), access, cancel.clone());
    let stopping = async {
        signals.next().await;
        cancel.cancel();
    };
    tokio::join!(serving, stopping);
    Ok(Exit::Success)
}
