//! `executor` of a suite: where its trials run. Default: this machine; alternatives are a cluster
//! and several Docker engines.

use std::time::Duration;

use proctor_document::{Fault, Node, Value, parse_size};
use proctor_record::record::GatewayPlace;
use proctor_sandbox::SandboxKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{either::Either, execution::Execution};

/// Values of `executor`.
const KNOWN: &str = "known: `local`, `slurm`, `docker`";

/// The executor of the trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Executor {
    /// This machine.
    #[default]
    Local,
    /// A cluster with Slurm.
    Slurm(SlurmSettings),
    /// Docker engines at these addresses.
    Docker(Vec<String>),
}

/// The resources of Slurm jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlurmSettings {
    /// The partition; the cluster's default when unset.
    pub partition: Option<String>,
    /// The account that is charged.
    pub account: Option<String>,
    /// The time limit of a job.
    pub time: Option<Duration>,
    /// The memory of a job in bytes.
    pub memory: Option<u64>,
    /// The CPUs of a job.
    pub cpus: Option<u32>,
    /// Additional arguments of `sbatch`.
    pub args: Vec<String>,
    /// The location of the gateway.
    pub gateway: GatewayPlace,
    /// The host name or IP address at which nodes reach this machine.
    pub address: Option<String>,
}

/// A name, or a map with settings.
pub(super) type ExecutorAsWritten = Either<ExecutorName, Either<SlurmAsWritten, EnginesAsWritten>>;

/// The names of `executor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExecutorName {
    /// This machine.
    Local,
    /// Slurm.
    Slurm,
}

/// `executor` for Slurm.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SlurmAsWritten {
    /// `slurm`.
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "read before; named here as a known key")]
    kind: SlurmName,
    /// The partition. Default: the cluster's default.
    partition: Option<String>,
    /// The account that is charged.
    account: Option<String>,
    /// The time limit of a trial's job: `90s`, `30m`, `2h`, `1d`. Slurm rounds to minutes.
    time: Option<String>,
    /// The memory of a trial's job: `512m`, `4g`.
    memory: Option<String>,
    /// The CPUs of a trial's job.
    #[schemars(range(min = 1))]
    cpus: Option<u32>,
    /// Additional arguments of `sbatch`.
    #[serde(default)]
    args: Vec<String>,
    /// The location of the gateway: one in each `trial`, or one on the `head` for all nodes.
    gateway: Option<GatewayPlace>,
    /// The address at which nodes reach the head. Default: its host name.
    address: Option<String>,
}

/// `slurm`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SlurmName {
    Slurm,
}

/// `docker`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DockerName {
    Docker,
}

/// `executor` for several Docker engines.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EnginesAsWritten {
    /// `docker`.
    #[serde(rename = "type")]
    #[expect(dead_code, reason = "read before; named here as a known key")]
    kind: DockerName,
    /// The addresses of the engines: `ssh://`, `tcp://` or `unix://`.
    #[schemars(length(min = 1))]
    hosts: Vec<String>,
}

/// Reads `executor`.
pub(super) fn read(node: &Node) -> Result<Executor, Fault> {
    if let Value::String(_) = node.value {
        return Ok(match node.read()? {
            ExecutorName::Local => Executor::Local,
            ExecutorName::Slurm => Executor::Slurm(SlurmSettings::default()),
        });
    }
    match node.get("type").and_then(Node::as_str) {
        Some("slurm") => slurm(node).map(Executor::Slurm),
        Some("docker") => engines(node).map(Executor::Docker),
        Some(other) => {
            let message = format!("unknown executor `{other}`");
            Err(node.fault("type", message).with_hint(KNOWN))
        }
        None => Err(Fault::new(node.span, "missing key `type`").with_hint(KNOWN)),
    }
}

fn slurm(node: &Node) -> Result<SlurmSettings, Fault> {
    let written: SlurmAsWritten = node.read()?;
    let bad = |key: &str, text: &str, what: &str, hint: &str| {
        let message = format!("invalid {what} `{text}`");
        Err(node.fault(key, message).with_hint(hint.to_owned()))
    };
    let time = match written.time.as_deref() {
        None => None,
        Some(text) => {
            let Some(time) = duration(text) else {
                let hint = "write a number with a unit, such as `30m` or `2h`";
                return bad("time", text, "time", hint);
            };
            Some(time)
        }
    };
    let memory = match written.memory.as_deref() {
        None => None,
        Some(text) => {
            let Some(memory) = parse_size(text) else {
                let hint = "write a number with a unit, such as `512m` or `4g`";
                return bad("memory", text, "size", hint);
            };
            Some(memory)
        }
    };
    if written.cpus == Some(0) {
        return Err(node.fault("cpus", "`cpus` must be at least 1"));
    }
    let gateway = written.gateway.unwrap_or_default();
    if written.address.is_some() && gateway == GatewayPlace::Trial {
        let fault = node.fault("address", "`address` has no effect without `gateway: head`");
        return Err(fault);
    }
    Ok(SlurmSettings {
        partition: written.partition,
        account: written.account,
        time,
        memory,
        cpus: written.cpus,
        args: written.args,
        gateway,
        address: written.address,
    })
}

fn engines(node: &Node) -> Result<Vec<String>, Fault> {
    let written: EnginesAsWritten = node.read()?;
    let is_unique = |(at, host): (usize, &String)| !written.hosts[..at].contains(host);
    if written.hosts.is_empty() || !written.hosts.iter().enumerate().all(is_unique) {
        return Err(node.fault(
            "hosts",
            "`hosts` must list at least one engine, each only once",
        ));
    }
    Ok(written.hosts)
}

/// Parses `90s`, `30m`, `2h`, `1d`.
fn duration(text: &str) -> Option<Duration> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    let seconds = number.checked_mul(unit).filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds))
}

/// Refuses settings that the executor does not support.
pub(super) fn check(execution: &Execution, root: &Node, faults: &mut Vec<Fault>) {
    let mut refuse = |key: &str, message: &str, hint: &str| {
        faults.push(Fault::new(root.key_span_of(key), message).with_hint(hint.to_owned()));
    };
    match &execution.executor {
        Executor::Local => {}
        Executor::Docker(_) => {
            if execution.sandbox != SandboxKind::Docker {
                let message = "`executor: docker` requires containers";
                refuse("executor", message, "add `sandbox: docker`");
            }
        }
        Executor::Slurm(slurm) => {
            if root.get("providers").is_some() {
                let message = "`providers` limits are not supported across nodes";
                let hint = "limit `parallel`, or `gateway: {concurrency: …}` with `executor: {gateway: head}`";
                refuse("providers", message, hint);
            }
            let gateway = execution.gateway.as_ref();
            if gateway.is_some_and(|gateway| gateway.litellm.is_some()) {
                let message = "`kind: litellm` is not supported with `executor: slurm`";
                refuse("gateway", message, "use Proctor's own gateway");
            }
            if gateway.is_none() && slurm.gateway == GatewayPlace::Head {
                let message = "`gateway: head` has no effect: the gateway is off";
                refuse("executor", message, "add `gateway: {}`");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proctor_document::parse_yaml;

    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expect) in [
            ("90s", Some(90)),
            ("30m", Some(1800)),
            ("2h", Some(7200)),
            ("1d", Some(86400)),
            ("0s", None),
            ("30", None),
            ("m", None),
            ("", None),
            ("1.5h", None),
        ] {
            assert_eq!(duration(text).map(|time| time.as_secs()), expect, "{text}");
        }
    }

    #[test]
    fn executors_are_read_and_invalid_ones_refused() {
        let read = |text: &str| read(&parse_yaml(text).unwrap()).map_err(|fault| fault.message);
        assert_eq!(read("local"), Ok(Executor::Local));
        let slurm = SlurmSettings {
            partition: Some("short".to_owned()),
            time: Some(Duration::from_hours(1)),
            memory: Some(2 << 30),
            cpus: Some(2),
            args: vec!["--nice".to_owned()],
            gateway: GatewayPlace::Head,
            ..SlurmSettings::default()
        };
        let text = "{type: slurm, partition: short, time: 1h, memory: 2g, cpus: 2, args: [--nice], gateway: head}";
        assert_eq!(read(text), Ok(Executor::Slurm(slurm)));
        let hosts = vec!["tcp://a:1".to_owned(), "ssh://b".to_owned()];
        let text = "{type: docker, hosts: ['tcp://a:1', 'ssh://b']}";
        assert_eq!(read(text), Ok(Executor::Docker(hosts)));
        for (text, expect) in [
            ("{type: pbs}", "unknown executor `pbs`"),
            ("{type: slurm, time: soon}", "invalid time `soon`"),
            (
                "{type: slurm, address: here}",
                "`address` has no effect without `gateway: head`",
            ),
            (
                "{type: docker, hosts: []}",
                "`hosts` must list at least one engine, each only once",
            ),
        ] {
            assert_eq!(read(text), Err(expect.to_owned()), "{text}");
        }
    }
}
