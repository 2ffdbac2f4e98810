//! `proctor replay`: plays back a trial's session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::record::{EVENTS_FILE, Entry, Event, Tail};
use tokio::sync::Notify;

use crate::{
    args::ReplayArgs,
    error::{CliError, Exit},
    host,
    platform::StopSignals,
    ui,
};

pub fn replay(args: &ReplayArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let folder = trial_folder(&host.cwd.join(&args.trial));
    let events = folder.join("artifacts").join(EVENTS_FILE);
    if !events.is_file() {
        let trial = args.trial.clone();
        return Err(CliError::NoEvents { trial });
    }
    if !args.no_tui && ui::is_possible() {
        in_view(folder, args.speed.unwrap_or(1.0))?;
    } else {
        in_lines(events, args.speed)?;
    }
    Ok(Exit::Success)
}

/// The trial's directory, given the directory, its artifacts or its event log.
pub(super) fn trial_folder(named: &Utf8Path) -> Utf8PathBuf {
    let folder = match named.file_name() {
        Some(EVENTS_FILE) => named.parent().and_then(Utf8Path::parent),
        Some("artifacts") => named.parent(),
        _ => None,
    };
    folder.unwrap_or(named).to_owned()
}

fn in_view(folder: Utf8PathBuf, speed: f64) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let left = Arc::new(Notify::new());
    let played = std::thread::spawn({
        let (is_over, left) = (Arc::clone(&is_over), Arc::clone(&left));
        move || {
            let played = ui::replay(&folder, speed, &|| is_over.load(Ordering::SeqCst));
            left.notify_one();
            played
        }
    });
    runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        tokio::select! {
            () = left.notified() => {}
            () = signals.next() => {}
        }
        Ok::<_, CliError>(())
    })?;
    is_over.store(true, Ordering::SeqCst);
    // The thread restores the terminal and prints the message if it panics.
    played.join().unwrap_or(Ok(()))?;
    Ok(())
}

fn in_lines(events: Utf8PathBuf, speed: Option<f64>) -> Result<(), CliError> {
    let mut tail = Tail::new(events);
    let mut at = 0;
    loop {
        let entries = tail.read();
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries {
            if ui::reader_is_gone() {
                return Ok(());
            }
            if let Some(speed) = speed {
                let pause = entry.t.saturating_sub(at) as f64 / 1000.0 / speed;
                std::thread::sleep(Duration::try_from_secs_f64(pause).unwrap_or_default());
                at = entry.t;
            }
            if let Some(line) = line_of(&entry) {
                ui::print(&line)?;
            }
        }
    }
}

/// The text of an event with its time.
pub(super) fn line_of(entry: &Entry) -> Option<String> {
    let text = shown(&entry.event)?;
    let text = text.trim_end().replace('\n', "\n        ");
    Some(format!("[{}] {text}\n", ui::clock(entry.t)))
}

fn shown(event: &Event) -> Option<String> {
    let text = ui::tame(&ui::line(event)?);
    Some(match event {
        // The whole message follows.
        Event::Saying(_) => return None,
        Event::Said(_) => format!("“{}”", text.trim_end()),
        Event::Thought(_) => format!("~ {text}"),
        Event::Note(_) => format!("! {text}"),
        _ => text,
    })
}
