//! The places where the trials of a run execute: one sandbox, or several Docker engines that share
//! the trials by their free slots and memory. What an engine that dies was doing is done elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

use camino::Utf8Path;
use tokio::sync::Notify;

use super::{Sandbox, docker::EngineError};
use crate::{
    config::{Execution, Executor},
    host::Host,
};

/// All places of a run.
#[derive(Debug)]
pub struct Pool {
    members: Vec<Member>,
    /// Bytes of memory that one trial may take.
    needs: Option<u64>,
    load: Mutex<Vec<Load>>,
    freed: Notify,
}

#[derive(Debug)]
struct Member {
    sandbox: Sandbox,
    capacity: Capacity,
}

/// What an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Processors; at least one.
    pub processors: u64,
    /// Bytes of memory.
    pub memory: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    trials: u64,
    is_dead: bool,
}

/// A trial's place, until it is dropped.
#[derive(Debug)]
pub struct Seat<'a> {
    pool: &'a Pool,
    member: usize,
}

impl Pool {
    /// Make all places ready that `execution` names.
    pub async fn open(
        execution: &Execution,
        host: &Host,
        run_dir: &Utf8Path,
    ) -> Result<Pool, EngineError> {
        let mut sandboxes = Vec::new();
        if let Executor::Docker(hosts) = &execution.executor {
            for address in hosts {
                let host = host.with("DOCKER_HOST", address);
                sandboxes.push(Sandbox::open(execution, &host, run_dir).await?);
            }
        } else {
            sandboxes.push(Sandbox::open(execution, host, run_dir).await?);
        }
        let engines: Vec<_> = sandboxes.iter().filter_map(Sandbox::engine).collect();
        let engines: Vec<_> = engines.into_iter().cloned().collect();
        let members = sandboxes.into_iter().map(|mut sandbox| {
            if let Sandbox::Docker(docker) = &mut sandbox {
                docker.peers.clone_from(&engines);
            }
            let capacity = sandbox.engine().map(super::docker::Engine::capacity);
            Member {
                capacity: capacity.unwrap_or(Capacity {
                    processors: 1,
                    memory: u64::MAX,
                }),
                sandbox,
            }
        });
        let members: Vec<Member> = members.collect();
        Ok(Pool {
            load: Mutex::new(vec![Load::default(); members.len()]),
            needs: execution.limits.memory,
            freed: Notify::new(),
            members,
        })
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
        let mut load = self.lock();
        let capacities: Vec<Capacity> = self.members.iter().map(|one| one.capacity).collect();
        let member = match choose(&capacities, &load, self.needs) {
            // Where all are dead, a trial may say so in its record.
            None if self.members.len() == 1 || load.iter().all(|load| load.is_dead) => 0,
            other => other?,
        };
        load[member].trials += 1;
        Some(member)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Load>> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until nothing of them is left.
    pub async fn close(&self) {
        for member in &self.members {
            member.sandbox.close().await;
        }
    }
}

/// The living member with the fewest trials for what it has, and memory for one more. An engine that does nothing has
/// room for one: if that is too much for it, its record says so, and nobody waits for ever.
fn choose(capacities: &[Capacity], load: &[Load], needs: Option<u64>) -> Option<usize> {
    let has_room = |(capacity, load): &(&Capacity, &Load)| {
        let wanted = needs.map(|needs| needs.saturating_mul(load.trials + 1));
        let fits = wanted.is_none_or(|wanted| wanted <= capacity.memory);
        !load.is_dead && (fits || load.trials == 0)
    };
    let members = capacities.iter().zip(load).enumerate();
    let members = members.filter(|(_, member)| has_room(member));
    // Trials per processor, compared without dividing.
    let best = members.min_by(|(_, (one, here)), (_, (other, there))| {
        let (one, other) = (
            (here.trials + 1) * other.processors,
            (there.trials + 1) * one.processors,
        );
        one.cmp(&other)
    });
    best.map(|(member, _)| member)
}

impl Seat<'_> {
    /// Where the trial executes.
    pub fn sandbox(&self) -> &Sandbox {
        &self.pool.members[self.member].sandbox
    }

    /// Whether what became of the trial is that its engine died, and another can do it.
    pub async fn has_died(&self) -> bool {
        if self.pool.members.len() < 2 {
            return false;
        }
        let is_dead = match self.sandbox().engine() {
            None => false,
            Some(engine) => !engine.answers().await,
        };
        let mut load = self.pool.lock();
        load[self.member].is_dead |= is_dead;
        load[self.member].is_dead && load.iter().any(|load| !load.is_dead)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.pool.lock()[self.member].trials -= 1;
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn capacity(processors: u64, memory: u64) -> Capacity {
        Capacity { processors, memory }
    }

    fn load(trials: u64) -> Load {
        Load {
            trials,
            is_dead: false,
        }
    }

    #[test]
    fn trials_go_where_there_is_most_room() {
        let engines = [capacity(4, 8 * GIB), capacity(8, 8 * GIB)];
        let choose = |loads: [Load; 2], needs| choose(&engines, &loads, needs);
        assert_eq!(choose([load(0), load(0)], None), Some(1));
        assert_eq!(choose([load(0), load(2)], None), Some(0));
        assert_eq!(choose([load(2), load(3)], None), Some(1));
        assert_eq!(choose([load(0), load(4)], Some(2 * GIB)), Some(0), "memory");
        assert_eq!(choose([load(4), load(4)], Some(2 * GIB)), None);
        let dead = Load {
            trials: 0,
            is_dead: true,
        };
        assert_eq!(choose([load(9), dead], None), Some(0));
        assert_eq!(choose([load(0), load(0)], Some(100 * GIB)), Some(1));
        assert_eq!(choose([load(1), load(1)], Some(100 * GIB)), None);
    }
}
