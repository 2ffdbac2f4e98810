//! The state of a run that goes on, for all its viewers at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use camino::Utf8PathBuf;
use proctor_record::{
    record::{
        control::RunRequests,
        follow::{RunWatch, TrialState, TrialView},
    },
    usage::Usd,
};
use serde::Serialize;
use tokio::sync::watch;

/// The time between two looks at a run.
const BEAT: Duration = Duration::from_secs(1);

/// The running trials that are named.
const MOST_NAMED: usize = 20;

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pulse {
    is_running: bool,
    is_paused: bool,
    /// Whether the run accepts requests.
    can_control: bool,
    trials: usize,
    active: usize,
    ended: usize,
    /// The known cost so far; null if none is known.
    cost_usd: Option<Usd>,
    /// The first running trials.
    running: Vec<RunningTrial>,
}

/// A running trial, with its phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RunningTrial {
    name: String,
    /// Its directory in the run.
    folder: String,
    text: &'static str,
}

impl Pulse {
    fn of(watch: &RunWatch) -> Pulse {
        let view = watch.view();
        let requests = RunRequests::read(&view.run_dir).filter(|_| view.is_running);
        let active = view.trials.iter().filter_map(|it| match it.state {
            TrialState::Active(phase) => Some((it, phase)),
            _ => None,
        });
        let named = active
            .clone()
            .take(MOST_NAMED)
            .map(|(it, phase)| RunningTrial {
                name: format!("{}/{}#{}", it.agent, it.task, it.trial),
                folder: it
                    .folder
                    .strip_prefix(&view.run_dir)
                    .map_or_else(|_| it.folder.to_string(), ToString::to_string),
                text: phase.as_str(),
            });
        let costs: Vec<Usd> = view.trials.iter().filter_map(|it| it.cost).collect();
        let is_ended = |it: &&TrialView| matches!(it.state, TrialState::Ended(..));
        Pulse {
            is_running: view.is_running,
            is_paused: requests.as_ref().is_some_and(|it| it.paused),
            can_control: requests.is_some(),
            trials: view.expected,
            active: active.clone().count(),
            ended: view.trials.iter().filter(is_ended).count(),
            cost_usd: (!costs.is_empty()).then(|| costs.into_iter().sum()),
            running: named.collect(),
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
        let is_running = pulse.is_running;
        sender.send_if_modified(|last| {
            let is_new = last.as_ref() != Some(&pulse);
            *last = Some(pulse);
            is_new
        });
        if !is_running || sender.receiver_count() <= 1 {
            return;
        }
        std::thread::sleep(BEAT);
        watch.refresh();
    }
}
