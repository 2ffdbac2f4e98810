//! The sandboxes of a run: one sandbox, or several Docker engines that share the trials by their
//! free slots and memory. Trials of an engine that dies run on other engines.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use camino::Utf8Path;
use futures_util::future;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Sandbox, SandboxSettings,
    docker::{Address, Capacity, Engine, EngineError},
    peer::Peer,
};
use crate::host::Host;

/// The interval between pings of engines.
const LOOK: Duration = Duration::from_secs(5);
/// The number of consecutive unanswered pings after which an engine is dead, if another answers.
const UNANSWERED: u32 = 3;
/// The delay of a ping after a failed trial.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long a trial waits for the state of its engine if no engine answers.
const PATIENCE: Duration = Duration::from_mins(1);

/// All sandboxes of a run.
#[derive(Debug)]
pub struct Pool {
    members: Vec<PoolMember>,
    /// Engines that were unavailable at the start.
    absent: Vec<LostEngine>,
    /// The maximum memory of one trial in bytes.
    needs: Option<u64>,
    /// The number of trials of each member.
    trials: Mutex<Vec<u64>>,
    freed: Notify,
    /// Notified when a trial fails, so that engines are pinged soon.
    suspected: Arc<Notify>,
}

#[derive(Debug)]
struct PoolMember {
    sandbox: Sandbox,
    capacity: Capacity,
    /// Cancelled when the engine is dead. At least one engine is never declared dead.
    dead: CancellationToken,
}

/// A lost engine, whose trials other engines ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostEngine {
    /// Its address.
    pub address: String,
    /// Its observed state.
    pub reason: String,
}

/// The slot of a trial, until it is dropped.
#[derive(Debug)]
pub struct EngineSlot<'a> {
    pool: &'a Pool,
    member: usize,
}

impl Pool {
    /// Opens all sandboxes of the settings. Some of several engines may be unavailable.
    pub async fn open(
        settings: &SandboxSettings,
        host: &Host,
        run_dir: &Utf8Path,
    ) -> Result<Pool, EngineError> {
        if settings.engines.is_empty() {
            let only = Sandbox::open(settings, host, run_dir).await?;
            return Ok(Pool::of(vec![only], Vec::new(), settings));
        }
        let hosts = &settings.engines;
        let own = Address::find(host).ok();
        let opened = hosts.iter().map(async |address| {
            let host = host.with("DOCKER_HOST", address);
            Sandbox::open(settings, &host, run_dir).await
        });
        let opened = future::join_all(opened).await;
        let (mut sandboxes, mut absent, mut first) = (Vec::new(), Vec::new(), None);
        for (address, opened) in hosts.iter().zip(opened) {
            match opened {
                Ok(mut sandbox) => {
                    if let Sandbox::Docker(docker) = &mut sandbox {
                        docker.own.clone_from(&own);
                    }
                    sandboxes.push(sandbox);
                }
                Err(
                    ref error @ (EngineError::Unreachable { ref reason, .. }
                    | EngineError::Gone { ref reason, .. }),
                ) => {
                    absent.push(LostEngine {
                        address: address.clone(),
                        reason: format!("unavailable at the start ({reason})"),
                    });
                    first.get_or_insert(error.clone());
                }
                Err(error) => return Err(error),
            }
        }
        match first {
            Some(error) if sandboxes.is_empty() => Err(error),
            _ => Ok(Pool::of(sandboxes, absent, settings)),
        }
    }

    fn of(sandboxes: Vec<Sandbox>, absent: Vec<LostEngine>, settings: &SandboxSettings) -> Pool {
        let members = sandboxes.into_iter().map(|sandbox| PoolMember {
            capacity: sandbox.engine().map_or(
                Capacity {
                    processors: 1,
                    memory: u64::MAX,
                },
                Engine::capacity,
            ),
            sandbox,
            dead: CancellationToken::new(),
        });
        let mut members: Vec<PoolMember> = members.collect();
        let peers: Vec<Peer> = members.iter().filter_map(PoolMember::peer).collect();
        for member in &mut members {
            if let Sandbox::Docker(docker) = &mut member.sandbox {
                docker.peers.clone_from(&peers);
            }
        }
        Pool {
            trials: Mutex::new(vec![0; members.len()]),
            absent,
            needs: settings.limits.memory,
            freed: Notify::new(),
            suspected: Arc::default(),
            members,
        }
    }

    /// Waits for a slot. With one sandbox there is always a slot: the caller limits the number of
    /// concurrent trials.
    pub async fn engine_slot(&self) -> EngineSlot<'_> {
        loop {
            // Before looking, so that what is freed in between is not missed.
            let freed = self.freed.notified();
            if let Some(member) = self.choose() {
                return EngineSlot { pool: self, member };
            }
            freed.await;
        }
    }

    fn choose(&self) -> Option<usize> {
        let mut trials = self.lock();
        let offers = self.members.iter().zip(trials.iter());
        let offers = offers.map(|(member, trials)| Offer {
            capacity: member.capacity,
            trials: *trials,
            is_dead: member.dead.is_cancelled(),
        });
        let member = match choose(&offers.collect::<Vec<_>>(), self.needs) {
            None if self.members.len() == 1 => 0,
            other => other?,
        };
        trials[member] += 1;
        Some(member)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Monitors the engines while `work` runs: waiting for the answers of a disconnected engine
    /// would not reveal its state.
    pub async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        let over = CancellationToken::new();
        let _until_then = over.clone().drop_guard();
        let peers: Vec<Peer> = self.members.iter().filter_map(PoolMember::peer).collect();
        // A single engine may come back, and there is no other to run its trials.
        if peers.len() > 1 {
            let suspected = Arc::clone(&self.suspected);
            tokio::task::spawn_blocking(move || watch(&peers, &suspected, &over));
        }
        work.await
    }

    /// The engines that were unavailable, or died.
    pub fn lost(&self) -> Vec<LostEngine> {
        let died = self.members.iter().filter(|one| one.dead.is_cancelled());
        let died = died.filter_map(|member| {
            Some(LostEngine {
                address: member.sandbox.engine()?.address().to_string(),
                reason: "lost during the run".to_owned(),
            })
        });
        self.absent.iter().cloned().chain(died).collect()
    }

    /// Waits until all resources are removed.
    pub async fn close(&self) {
        future::join_all(self.members.iter().map(PoolMember::close)).await;
    }
}

impl PoolMember {
    fn peer(&self) -> Option<Peer> {
        Some(Peer {
            engine: self.sandbox.engine()?.clone(),
            dead: self.dead.clone(),
        })
    }

    async fn close(&self) {
        // Leftovers of a dead engine are removed by the next run, unless it is back by now.
        let is_dead = self.dead.is_cancelled();
        match self.sandbox.engine() {
            Some(engine) if is_dead && !engine.answers().await => {}
            Some(_) if is_dead => self.sandbox.close().await,
            _ => tokio::select! {
                () = self.sandbox.close() => {}
                () = self.dead.cancelled() => {}
            },
        }
    }
}

/// Monitors engines on its own thread: trials may keep theirs busy for longer than the ping
/// timeout.
fn watch(peers: &[Peer], suspected: &Notify, over: &CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        tokio::select! {
            () = find_dead(peers, suspected) => {}
            () = over.cancelled() => {}
        }
    });
}

/// The only function that declares an engine dead.
async fn find_dead(peers: &[Peer], suspected: &Notify) {
    let mut unanswered = vec![0; peers.len()];
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = suspected.notified() => tokio::time::sleep(ASK_AGAIN).await,
        }
        let answers = future::join_all(peers.iter().map(Peer::answers)).await;
        for dead in dead(&mut unanswered, &answers) {
            peers[dead].dead.cancel();
        }
    }
}

/// The engines that have left too many pings unanswered.
fn dead(unanswered: &mut [u32], answers: &[bool]) -> Vec<usize> {
    for (count, answers) in unanswered.iter_mut().zip(answers) {
        *count = if *answers { 0 } else { *count + 1 };
    }
    // If no engine responds, this machine is probably disconnected.
    let can_tell = answers.contains(&true);
    let silent = unanswered.iter().enumerate();
    let silent = silent.filter(|(_, count)| can_tell && **count >= UNANSWERED);
    silent.map(|(index, _)| index).collect()
}

/// A member as a candidate for a trial.
#[derive(Clone, Copy, Debug)]
struct Offer {
    capacity: Capacity,
    trials: u64,
    is_dead: bool,
}

/// The live member with the lowest load and memory for one more trial. An idle engine always
/// accepts a trial: if it needs too much, its record shows that, and no trial waits forever.
fn choose(offers: &[Offer], needs: Option<u64>) -> Option<usize> {
    let has_room = |offer: &Offer| {
        let wanted = needs.map(|needs| needs.saturating_mul(offer.trials + 1));
        let fits = wanted.is_none_or(|wanted| wanted <= offer.capacity.memory);
        !offer.is_dead && (fits || offer.trials == 0)
    };
    let offers = offers.iter().enumerate();
    let offers = offers.filter(|(_, offer)| has_room(offer));
    // Trials per processor, compared without dividing.
    let best = offers.min_by(|(_, one), (_, other)| {
        let here = (one.trials + 1) * other.capacity.processors;
        let there = (other.trials + 1) * one.capacity.processors;
        here.cmp(&there)
    });
    best.map(|(member, _)| member)
}

impl EngineSlot<'_> {
    fn member(&self) -> &PoolMember {
        &self.pool.members[self.member]
    }

    /// The sandbox of the trial.
    pub fn sandbox(&self) -> &Sandbox {
        &self.member().sandbox
    }

    /// Whether the trial ended because its engine died, so that another engine can run it.
    pub async fn has_died(&self) -> bool {
        let us = self.member().peer().filter(|_| self.pool.members.len() > 1);
        let Some(us) = us else { return false };
        let answered = async {
            while !us.answers().await {
                self.pool.suspected.notify_one();
                tokio::time::sleep(ASK_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            () = self.died() => true,
            () = answered => false,
            // No engine is declared dead when none responds.
            () = tokio::time::sleep(PATIENCE) => false,
        }
    }

    /// Waits until its engine is dead.
    pub async fn died(&self) {
        self.member().dead.cancelled().await;
    }
}

impl Drop for EngineSlot<'_> {
    fn drop(&mut self) {
        self.pool.lock()[self.member] -= 1;
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn engine_is_dead_only_if_others_answer() {
        let mut unanswered = [0; 2];
        let mut asked = |answers: [bool; 2]| dead(&mut unanswered, &answers);
        let (both, first, none) = ([true, true], [true, false], [false, false]);
        for answers in [first, first, both, first, first, none, none] {
            assert_eq!(asked(answers), Vec::<usize>::new(), "{answers:?}");
        }
        assert_eq!(asked(first), [1]);
        assert_eq!(asked(both), Vec::<usize>::new());
    }

    #[test]
    fn trials_are_assigned_to_the_least_loaded_engine() {
        let offer = |processors, trials| Offer {
            capacity: Capacity {
                processors,
                memory: 8 * GIB,
            },
            trials,
            is_dead: false,
        };
        let choose =
            |trials: [u64; 2], needs| choose(&[offer(4, trials[0]), offer(8, trials[1])], needs);
        assert_eq!(choose([0, 0], None), Some(1));
        assert_eq!(choose([0, 2], None), Some(0));
        assert_eq!(choose([2, 3], None), Some(1));
        assert_eq!(choose([0, 4], Some(2 * GIB)), Some(0), "memory");
        assert_eq!(choose([4, 4], Some(2 * GIB)), None);
        assert_eq!(choose([0, 0], Some(100 * GIB)), Some(1));
        assert_eq!(choose([1, 1], Some(100 * GIB)), None);
        let dead = Offer {
            is_dead: true,
            ..offer(8, 0)
        };
        assert_eq!(super::choose(&[offer(4, 9), dead], None), Some(0));
    }
}
