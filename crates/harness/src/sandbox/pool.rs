//! The places where the trials of a run execute: one sandbox, or several Docker engines that share
//! the trials by their free slots and memory. What an engine that dies was doing is done elsewhere.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use camino::Utf8Path;
use futures_util::future;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Sandbox,
    docker::{Address, Engine, EngineError},
};
use crate::{
    causes::chain,
    config::{Execution, Executor},
    host::Host,
};

/// How often engines are asked whether they live.
const LOOK: Duration = Duration::from_secs(5);
/// One that gives no answer so many times in a row is dead: its machine went dark, or it hangs.
const UNANSWERED: u32 = 3;

/// All places of a run.
#[derive(Debug)]
pub struct Pool {
    members: Vec<Member>,
    /// Engines that were not there from the start.
    absent: Vec<LostEngine>,
    /// Bytes of memory that one trial may take.
    needs: Option<u64>,
    /// How many trials each member has.
    trials: Mutex<Vec<u64>>,
    freed: Notify,
}

#[derive(Debug)]
struct Member {
    sandbox: Sandbox,
    capacity: Capacity,
    /// Cancelled when it is dead.
    dead: CancellationToken,
}

/// What an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Processors; at least one.
    pub processors: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// An engine whose trials were done by others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostEngine {
    /// Where it should listen.
    pub address: String,
    /// What was seen of it.
    pub reason: String,
}

/// A trial's place, until it is dropped.
#[derive(Debug)]
pub struct Seat<'a> {
    pool: &'a Pool,
    member: usize,
}

impl Pool {
    /// Make all places ready that `execution` names. Of several engines some may be away.
    pub async fn open(
        execution: &Execution,
        host: &Host,
        run_dir: &Utf8Path,
    ) -> Result<Pool, EngineError> {
        let Executor::Docker(hosts) = &execution.executor else {
            let only = Sandbox::open(execution, host, run_dir).await?;
            return Ok(Pool::of(vec![only], Vec::new(), execution));
        };
        let (mut sandboxes, mut absent, mut first) = (Vec::new(), Vec::new(), None);
        let own = Address::find(host).ok();
        for address in hosts {
            let host = host.with("DOCKER_HOST", address);
            match Sandbox::open(execution, &host, run_dir).await {
                Ok(mut sandbox) => {
                    if let Sandbox::Docker(docker) = &mut sandbox {
                        docker.own.clone_from(&own);
                    }
                    sandboxes.push(sandbox);
                }
                Err(error @ EngineError::Unreachable { .. }) => {
                    absent.push(LostEngine {
                        address: address.clone(),
                        reason: chain(&error),
                    });
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        match first {
            Some(error) if sandboxes.is_empty() => Err(error),
            _ => Ok(Pool::of(sandboxes, absent, execution)),
        }
    }

    fn of(sandboxes: Vec<Sandbox>, absent: Vec<LostEngine>, execution: &Execution) -> Pool {
        let engines: Vec<_> = sandboxes.iter().filter_map(Sandbox::engine).collect();
        let engines: Vec<_> = engines.into_iter().cloned().collect();
        let members = sandboxes.into_iter().map(|mut sandbox| {
            if let Sandbox::Docker(docker) = &mut sandbox {
                docker.peers.clone_from(&engines);
            }
            let capacity = sandbox.engine().map(Engine::capacity);
            Member {
                capacity: capacity.unwrap_or(Capacity {
                    processors: 1,
                    memory: u64::MAX,
                }),
                sandbox,
                dead: CancellationToken::new(),
            }
        });
        let members: Vec<Member> = members.collect();
        Pool {
            trials: Mutex::new(vec![0; members.len()]),
            absent,
            needs: execution.limits.memory,
            freed: Notify::new(),
            members,
        }
    }

    /// Wait for a place. With one sandbox there is always room: who runs it says how many trials
    /// there are at a time.
    pub async fn seat(&self) -> Seat<'_> {
        loop {
            // Before looking, so that what is freed in between is not missed.
            let freed = self.freed.notified();
            if let Some(member) = self.choose() {
                return Seat { pool: self, member };
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
            // Where all are dead, a trial may say so in its record.
            None if self.members.len() == 1 || !self.has_living() => 0,
            other => other?,
        };
        trials[member] += 1;
        Some(member)
    }

    fn has_living(&self) -> bool {
        self.members.iter().any(|one| !one.dead.is_cancelled())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watch the engines while `work` is done: one that is cut off tells nothing to those who wait for its answers.
    pub async fn watched<T>(&self, work: impl Future<Output = T>) -> T {
        let watched = async {
            // A single engine may come back, and nobody else could do what it has.
            if self.members.len() > 1 {
                future::join_all(self.members.iter().map(Member::watch)).await;
            }
            future::pending().await
        };
        tokio::select! {
            done = work => done,
            never = watched => never,
        }
    }

    /// The engines that were away, or died.
    pub fn lost(&self) -> Vec<LostEngine> {
        let died = self.members.iter().filter(|one| one.dead.is_cancelled());
        let died = died.filter_map(|member| {
            Some(LostEngine {
                address: member.sandbox.engine()?.address().to_string(),
                reason: "it died in mid-run".to_owned(),
            })
        });
        self.absent.iter().cloned().chain(died).collect()
    }

    /// Wait until nothing of them is left.
    pub async fn close(&self) {
        for member in &self.members {
            // What a dead one has left is removed by the next run, unless it is back by now.
            if !member.dead.is_cancelled() || member.answers().await {
                member.sandbox.close().await;
            }
        }
    }
}

impl Member {
    async fn answers(&self) -> bool {
        match self.sandbox.engine() {
            None => true,
            Some(engine) => engine.answers().await,
        }
    }

    /// Until it is dead.
    async fn watch(&self) {
        let mut unanswered = 0;
        while unanswered < UNANSWERED && !self.dead.is_cancelled() {
            tokio::time::sleep(LOOK).await;
            let answers = self.answers().await;
            unanswered = if answers { 0 } else { unanswered + 1 };
        }
        self.dead.cancel();
    }
}

/// A member, to whoever has to choose one.
#[derive(Clone, Copy, Debug)]
struct Offer {
    capacity: Capacity,
    trials: u64,
    is_dead: bool,
}

/// The living member with the fewest trials for what it has, and memory for one more. An engine that does nothing has
/// room for one: if that is too much for it, its record says so, and nobody waits for ever.
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

impl Seat<'_> {
    fn member(&self) -> &Member {
        &self.pool.members[self.member]
    }

    /// Where the trial executes.
    pub fn sandbox(&self) -> &Sandbox {
        &self.member().sandbox
    }

    /// Whether what became of the trial is that its engine died, and another can do it.
    pub async fn has_died(&self) -> bool {
        if self.pool.members.len() < 2 {
            return false;
        }
        let member = self.member();
        if !member.dead.is_cancelled() && !member.answers().await {
            member.dead.cancel();
        }
        member.dead.is_cancelled() && self.pool.has_living()
    }

    /// Until its engine is dead and another can do the trial.
    pub async fn died(&self) {
        self.member().dead.cancelled().await;
        if !self.pool.has_living() {
            future::pending::<()>().await;
        }
    }
}

impl Drop for Seat<'_> {
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
    fn trials_go_where_there_is_most_room() {
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
