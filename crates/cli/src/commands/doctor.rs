//! `proctor doctor`.

use std::time::Duration;

use camino::Utf8PathBuf;
use futures_util::future::join_all;
use proctor_agents::{
    ADAPTERS,
    agent::{Adapter, Authentication},
};
use proctor_harness::{
    plan::auto_order,
    run::clean::{self, Mode},
};
use proctor_sandbox::{
    availability,
    docker::{Address, Engine, EngineOptions},
    host::Host,
};
use serde::Serialize;

use crate::{
    args::DoctorArgs,
    error::{CliError, Exit},
    host, ui,
};

/// Optional programs that run trials in containers or on clusters. There is no hint to install
/// them.
const ENGINES: [(&str, &str); 4] = [
    ("slurm", "sbatch"),
    ("docker", "docker"),
    ("podman", "podman"),
    ("apptainer", "apptainer"),
];

/// Timeout for the response of an engine.
const ANSWER: Duration = Duration::from_secs(10);

/// The status of one program.
#[derive(Serialize)]
struct ProgramStatus {
    name: &'static str,
    program: &'static str,
    /// The path; null if it is not installed.
    path: Option<String>,
    version: Option<String>,
    /// Whether it has credentials; null if unknown or not needed.
    authenticated: Option<bool>,
    /// A suggestion for the user.
    hint: Option<String>,
    /// Why `type: auto` selects this agent or not; null for other programs.
    auto: Option<String>,
    /// How `sandbox: docker` uses it; null if it does not.
    containers: Option<String>,
}

pub fn doctor(args: &DoctorArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let order = super::settings(&host)?.order;
    if args.fix {
        fix(&host, args)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut findings = runtime.block_on(examine(&host));
    explain(&mut findings, &order);
    if args.json {
        ui::print_json(&findings)?;
    } else {
        for finding in &findings {
            show(finding)?;
        }
        show_auto(&findings, &order)?;
    }
    let Some(step) = next_step(&findings, &order) else {
        return Ok(Exit::Success);
    };
    ui::note(&format!("next: {step}"));
    Ok(Exit::Infrastructure)
}

/// Removes the leftovers of killed runs.
fn fix(host: &Host, args: &DoctorArgs) -> Result<(), CliError> {
    let removed = clean::leftovers(&host.temp, Mode::Remove);
    if !args.json {
        for one in &removed {
            ui::print(&format!("removed {}\n", one.path))?;
        }
        let count = ui::counted(removed.len(), "leftover");
        ui::print(&format!("removed {count} of killed runs\n\n"))?;
    }
    Ok(())
}

/// The one step before anything can run; `None` if git and an agent are ready. An agent whose login
/// cannot be checked counts as ready.
fn next_step(findings: &[ProgramStatus], order: &[String]) -> Option<String> {
    let of = |name: &str| findings.iter().find(|finding| finding.name == name);
    let hint = |finding: &ProgramStatus| finding.hint.clone().unwrap_or_default();
    if let Some(git) = of("git").filter(|git| git.path.is_none()) {
        return Some(hint(git));
    }
    let agents = || auto_order(order).into_iter().filter_map(|it| of(it.name()));
    let is_ready = |it: &ProgramStatus| it.path.is_some() && it.authenticated != Some(false);
    if agents().any(is_ready) {
        return None;
    }
    let installed = agents().find(|it| it.path.is_some());
    let first = installed.or_else(|| agents().next())?;
    Some(format!("{}: {}", first.name, hint(first)))
}

async fn examine(host: &Host) -> Vec<ProgramStatus> {
    let git = availability::git(host).await;
    let mut findings = vec![ProgramStatus {
        name: "git",
        program: "git",
        path: git.as_ref().map(|git| git.path.to_string()),
        hint: git
            .is_none()
            .then(|| "install git: it is required to create workspaces".to_owned()),
        version: git.and_then(|git| git.version),
        authenticated: None,
        auto: None,
        containers: None,
    }];
    // In parallel: each probe starts the CLI.
    let agents = ADAPTERS.iter().map(|adapter| examine_agent(*adapter, host));
    findings.extend(join_all(agents).await.into_iter().flatten());
    findings.extend(ENGINES.map(|(name, program)| ProgramStatus {
        name,
        program,
        path: host.find_program(program).map(Utf8PathBuf::into_string),
        version: None,
        authenticated: None,
        hint: None,
        auto: None,
        containers: None,
    }));
    let (name, containers) = containers(host).await;
    for finding in &mut findings {
        if finding.name == name {
            finding.containers = Some(containers.clone());
        } else if finding.name == "apptainer" && finding.path.is_some() {
            finding.containers = Some("not supported: use Docker or podman".to_owned());
        }
    }
    findings
}

/// The engine that `sandbox: docker` uses, and its state.
pub(super) async fn containers(host: &Host) -> (String, String) {
    let docker = |what: String| ("docker".to_owned(), what);
    let address = match Address::find(host) {
        Ok(Address::Podman(_)) => {
            let when = "started for each run, because no engine is listening";
            return ("podman".to_owned(), when.to_owned());
        }
        Ok(address) => address,
        Err(error) => return docker(error.to_string()),
    };
    let options = EngineOptions {
        address: address.clone(),
        binary: host.binary.clone().into(),
        scratch: host.temp.clone().into(),
        supervisor: host.supervisor.clone(),
        env: host.env.clone().into_iter().collect(),
    };
    match tokio::time::timeout(ANSWER, Engine::connect(&options)).await {
        Ok(Ok(engine)) => {
            let maker = engine.maker();
            let what = format!("{} {} at {address}", maker.name, maker.version);
            (maker.name.clone(), what)
        }
        Ok(Err(error)) => docker(error.to_string()),
        Err(_) => docker(format!("no response from {address}")),
    }
}

/// Sets for each agent why `type: auto` selects it or not.
fn explain(findings: &mut [ProgramStatus], order: &[String]) {
    let order: Vec<&str> = auto_order(order).iter().map(|it| it.name()).collect();
    let is_there = |name: &&str| {
        let mut found = findings.iter();
        found.any(|finding| finding.name == *name && finding.path.is_some())
    };
    let chosen = order.iter().copied().find(|name| is_there(name));
    for finding in findings.iter_mut().filter(|finding| finding.name != "git") {
        let why = match chosen {
            _ if !order.contains(&finding.name) => "not in the order".to_owned(),
            _ if finding.path.is_none() => "not installed".to_owned(),
            Some(chosen) if chosen == finding.name => {
                "chosen: the first in the order that is installed".to_owned()
            }
            chosen => format!("comes after {}", chosen.unwrap_or_default()),
        };
        finding.auto = Some(why);
    }
}

/// Prints the agent that `type: auto` selects, and why.
fn show_auto(findings: &[ProgramStatus], order: &[String]) -> std::io::Result<()> {
    let whose = if order.is_empty() {
        "default order; set another with `agent: {order: [...]}` in .youbencharc"
    } else {
        "order from .youbencharc"
    };
    ui::print(&format!("\nagent type auto ({whose}):\n"))?;
    for adapter in auto_order(order) {
        let found = findings.iter().find(|it| it.name == adapter.name());
        let why = found.and_then(|found| found.auto.as_deref());
        let line = format!("  {:<16}{}\n", adapter.name(), why.unwrap_or_default());
        ui::print(&line)?;
    }
    Ok(())
}

async fn examine_agent(adapter: &'static dyn Adapter, host: &Host) -> Option<ProgramStatus> {
    let cli = adapter.cli()?;
    let mut finding = ProgramStatus {
        name: adapter.name(),
        program: cli.program,
        path: None,
        version: None,
        authenticated: None,
        hint: Some(cli.install_hint.to_owned()),
        auto: None,
        containers: None,
    };
    if let Ok(Some(installed)) = availability::installed(cli, host).await {
        let check = availability::auth_check(cli, &installed, &host.env, &host.cwd).await;
        finding.authenticated = match adapter.authentication(&host.env, check.as_ref()) {
            Authentication::Found(_) => Some(true),
            Authentication::Missing => Some(false),
            Authentication::NotNeeded | Authentication::Unknown => None,
        };
        finding.hint = (finding.authenticated == Some(false)).then(|| cli.login_hint.to_owned());
        finding.path = Some(installed.path.into_string());
        finding.version = installed.version;
    }
    Some(finding)
}

fn show(finding: &ProgramStatus) -> std::io::Result<()> {
    let state = match (&finding.path, finding.authenticated) {
        (None, _) => "not installed".to_owned(),
        (Some(_), Some(false)) => "not logged in".to_owned(),
        (Some(_), Some(true)) => "ready".to_owned(),
        (Some(_), None) => "installed".to_owned(),
    };
    let version = finding.version.as_deref().unwrap_or("");
    let path = finding.path.as_deref().unwrap_or("");
    ui::print(format!("{:<16}{state:<15}{version:<12}{path}", finding.name).trim_end())?;
    ui::print("\n")?;
    if let Some(containers) = &finding.containers {
        ui::print(&format!("{:<16}sandbox docker: {containers}\n", ""))?;
    }
    if let Some(hint) = &finding.hint {
        ui::print(&format!("{:<16}hint: {hint}\n", ""))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &'static str, path: bool, authenticated: Option<bool>) -> ProgramStatus {
        ProgramStatus {
            name,
            program: name,
            path: path.then(|| format!("/bin/{name}")),
            version: None,
            authenticated,
            hint: Some(format!("set up {name}")),
            auto: None,
            containers: None,
        }
    }

    #[test]
    fn next_step_is_the_first_that_is_missing() {
        let order = ["claude-code".to_owned(), "codex".to_owned()];
        let git = || status("git", true, None);
        let table = [
            (
                [
                    status("git", false, None),
                    status("claude-code", true, Some(true)),
                    status("codex", false, None),
                ],
                Some("set up git"),
            ),
            (
                [
                    git(),
                    status("claude-code", false, None),
                    status("codex", false, None),
                ],
                Some("claude-code: set up claude-code"),
            ),
            (
                [
                    git(),
                    status("claude-code", false, None),
                    status("codex", true, Some(false)),
                ],
                Some("codex: set up codex"),
            ),
            (
                [
                    git(),
                    status("claude-code", false, None),
                    status("codex", true, None),
                ],
                None,
            ),
        ];
        for (findings, expect) in table {
            assert_eq!(next_step(&findings, &order).as_deref(), expect);
        }
    }
}
