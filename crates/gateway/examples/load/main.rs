//! Measures gateways beside the direct path. Every part is a process of its own, so that its
//! processor time can be measured; `scripts/bench-gateway` puts them together.
//!
//! ```text
//! load upstream PORT                          a provider that answers at once
//! load gateway PORT UPSTREAM                  Proctor's gateway; prints its key
//! load start NAME ADDRESS COMMAND...          how soon it answers, and what it takes at rest
//! load measure SECONDS NAME=ADDRESS=KEY=PID.. the table; the first is what the others are held against
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool for developers"
)]

mod client;
mod measure;
mod process;
mod upstream;

use std::time::Duration;

use proctor_gateway::{Gateway, GatewayConfig, HttpUpstream, KeySpec, Provider, Upstream};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["upstream", port] => upstream::serve(port.parse().unwrap()),
        ["gateway", port, upstream] => gateway(port.parse().unwrap(), upstream),
        ["start", name, address, command @ ..] => process::start(name, address, command),
        ["measure", seconds, targets @ ..] => {
            let time = Duration::from_secs_f64(seconds.parse().unwrap());
            let targets: Vec<_> = targets.iter().map(|text| measure::target(text)).collect();
            measure::all(time, &targets);
        }
        _ => println!("load upstream | gateway | start | measure: see the head of this file"),
    }
}

/// Serves until it is ended, with everything on that a trial has: a key, a budget, a call log.
fn gateway(port: u16, upstream: &str) {
    let http = Upstream::Http(HttpUpstream::new(format!("http://{upstream}"), None));
    let gateway = Gateway::start(GatewayConfig {
        listen: ([127, 0, 0, 1], port).into(),
        upstreams: vec![(Provider::Anthropic, http)],
        ..GatewayConfig::default()
    });
    let gateway = gateway.unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let key = gateway.mint(KeySpec {
        log: Some(log.path().to_owned()),
        ..KeySpec::default()
    });
    println!("{}", key.unwrap().expose());
    loop {
        std::thread::park();
    }
}
