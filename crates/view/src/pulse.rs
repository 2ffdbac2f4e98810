//! The state of a run that goes on, for all its viewers at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use camino::Utf8PathBuf;
use proctor_record::record::follow::{RunWatch, TrialState};
use serde::Serialize;
use tokio::sync::watch;

/// The time between two looks at a run.
const BEAT: Duration = Duration::from_secs(1);

/// The state of a run in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pulse {
    is_running: bool,
    trials: usize,
    active: usize,
    ended: usize,
}

impl Pulse {
    fn of(watch: &RunWatch) -> Pulse {
        let view = watch.view();
        let count = |is: fn(&TrialState) -> bool| {
            let states = view.trials.iter().map(|it| &it.state);
            states.filter(|it| is(it)).count()
        };
        Pulse {
            is_running: view.is_running,
            trials: view.expected,
            active: count(|it| matches!(it, TrialState::Active(_))),
            ended: count(|it| matches!(it, TrialState::Ended(..))),
        }
    }
}

/// The followed runs. One task follows a run as long as it has viewers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulses(Arc<Mutex<BTreeMap<Utf8PathBuf, watch::Receiver<Option<Pulse>>>>>);

impl Pulses {
    /// Follows a run; `None` until the first look at it.
    pub(crate) fn follow(&self, run: Utf8PathBuf) -> watch::Receiver<Option<Pulse>> {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|_, receiver| receiver.has_changed().is_ok());
        if let Some(receiver) = followed.get(&run) {
            return receiver.clone();
        }
        let (sender, receiver) = watch::channel(None);
        // The map's own receiver is not a viewer.
        followed.insert(run.clone(), receiver.clone());
        tokio::task::spawn_blocking(move || follow(&run, &sender));
        receiver
    }
}

/// Looks at a run until it has ended, or only the map follows it.
fn follow(run: &Utf8PathBuf, sender: &watch::Sender<Option<Pulse>>) {
    let Ok(mut watch) = RunWatch::open(run) else {
        return;
    };
    loop {
        if !watch.view().is_running {
            // Trials that do not run are looked at less often: the last look is a whole one.
            watch = RunWatch::open(run).unwrap_or(watch);
        }
        let pulse = Pulse::of(&watch);
        sender.send_if_modified(|last| last.replace(pulse) != Some(pulse));
        if !pulse.is_running || sender.receiver_count() <= 1 {
            return;
        }
        std::thread::sleep(BEAT);
        watch.refresh();
    }
}
