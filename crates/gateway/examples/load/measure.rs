//! The table: every load on every target, one after the other in rounds, so that a bad moment of the
//! machine hits all alike.

use std::net::SocketAddr;
use std::time::Duration;

use super::client::{self, Load};
use super::process;

/// The measured gateways.
pub struct Target {
    name: String,
    address: SocketAddr,
    key: String,
    pid: u32,
}

/// A cell shows the value of the median round.
const ROUNDS: usize = 3;
const CLIENTS: [usize; 3] = [1, 16, 64];
const LOADS: [Load; 4] = [
    Load {
        name: "JSON",
        stream: false,
        paced: false,
        size: 0,
    },
    Load {
        name: "JSON, 200 KB",
        stream: false,
        paced: false,
        size: 200 << 10,
    },
    Load {
        name: "SSE, 200 deltas",
        stream: true,
        paced: false,
        size: 0,
    },
    Load {
        name: "SSE, 200 KB",
        stream: true,
        paced: false,
        size: 200 << 10,
    },
];
const PACED: Load = Load {
    name: "SSE, paced over 2.0 s",
    stream: true,
    paced: true,
    size: 0,
};

/// `NAME=ADDRESS=KEY=PID`.
pub fn target(text: &str) -> Target {
    let parts: Vec<&str> = text.split('=').collect();
    let [name, address, key, pid] = parts.as_slice() else {
        panic!("not NAME=ADDRESS=KEY=PID: {text}");
    };
    Target {
        name: (*name).to_owned(),
        address: address.parse().unwrap(),
        key: (*key).to_owned(),
        pid: pid.parse().unwrap(),
    }
}

/// One round of one target.
struct Round {
    rate: f64,
    p50: f64,
    p99: f64,
    /// Microseconds of processor time for a request.
    cpu: f64,
}

pub fn all(time: Duration, targets: &[Target]) {
    println!("| load, clients | | requests/s | p50 ms | p99 ms | added p50 ms | CPU µs/request |");
    println!("|---|---|---|---|---|---|---|");
    for load in LOADS {
        for clients in CLIENTS {
            compare(&load, clients, time, targets);
        }
    }
    println!();
    compare_paced(targets);
}

fn compare(load: &Load, clients: usize, time: Duration, targets: &[Target]) {
    let mut rounds: Vec<Vec<Round>> = targets.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (target, rounds) in targets.iter().zip(&mut rounds) {
            rounds.push(round(load, clients, time, target));
        }
    }
    let medians: Vec<Round> = rounds.into_iter().map(median).collect();
    let direct = medians[0].p50;
    for (target, seen) in targets.iter().zip(&medians) {
        println!(
            "| {}, {clients} | {} | {:.0} | {:.3} | {:.3} | {:.3} | {:.0} |",
            load.name,
            target.name,
            seen.rate,
            seen.p50,
            seen.p99,
            seen.p50 - direct,
            seen.cpu
        );
    }
}

fn round(load: &Load, clients: usize, time: Duration, target: &Target) -> Round {
    let request = load.request(&target.key);
    let before = process::cpu(target.pid);
    let mut seen = client::run(target.address, &request, clients, time);
    let cpu = process::cpu(target.pid).saturating_sub(before);
    seen.times.sort_unstable();
    let count = seen.times.len();
    let at = |share: usize| seen.times[count * share / 100].as_secs_f64() * 1e3;
    Round {
        rate: count as f64 / seen.all.as_secs_f64(),
        p50: at(50),
        p99: at(99),
        cpu: cpu.as_secs_f64() * 1e6 / count as f64,
    }
}

fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    rounds.swap_remove(rounds.len() / 2)
}

/// How long a paced answer takes for each of 64 clients.
fn compare_paced(targets: &[Target]) {
    println!("| {}, 64 | median ms | longest ms |", PACED.name);
    println!("|---|---|---|");
    let mut times: Vec<Vec<Duration>> = targets.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (target, times) in targets.iter().zip(&mut times) {
            let request = PACED.request(&target.key);
            times.extend(client::run(target.address, &request, 64, Duration::ZERO).times);
        }
    }
    for (target, mut times) in targets.iter().zip(times) {
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "| {} | {:.1} | {:.1} |",
            target.name,
            ms(median),
            ms(longest)
        );
    }
}
