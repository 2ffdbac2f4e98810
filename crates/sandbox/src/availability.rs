//! Probes an agent's CLI: whether it is installed, its version and flags, and its login. Each
//! binary is probed once; results are cached by path, size and modification time.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::{
    Error, Status,
    quick::{self, CommandOutput, QuickCommand},
};
use proctor_record::{
    fs::dir,
    platform,
    record::cli::{AuthCheck, Cli, Installed, PROBE_LIMIT},
};
use serde::{Deserialize, Serialize};

use crate::host::Host;

/// An entry of the cache, valid while the binary is unchanged.
#[derive(Serialize, Deserialize)]
struct Cached {
    stamp: FileStamp,
    installed: Installed,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    path: Utf8PathBuf,
    bytes: u64,
    modified_ns: u128,
}

/// A CLI that did not answer in time: its version and its options are unknown.
#[derive(Debug, thiserror::Error)]
#[error("`{command}` did not answer within {} s", limit.as_secs())]
pub struct ProbeTimeout {
    /// The command line.
    pub command: String,
    /// The timeout.
    pub limit: Duration,
}

/// The version and options of `cli` on this host; `None` if it is not installed.
pub async fn installed(cli: &Cli, host: &Host) -> Result<Option<Installed>, ProbeTimeout> {
    match host.find_program(cli.program) {
        None => Ok(None),
        Some(path) => installed_at(cli, path, host).await,
    }
}

/// The version and options of this CLI at `path`; `None` if it cannot be started.
pub async fn installed_at(
    cli: &Cli,
    path: Utf8PathBuf,
    host: &Host,
) -> Result<Option<Installed>, ProbeTimeout> {
    let stamp = stamp(&path);
    if let Some(found) = stamp.as_ref().and_then(|stamp| cached(cli, host, stamp)) {
        return Ok(Some(Installed { path, ..found }));
    }
    let Ok(home) = tempfile::tempdir_in(&host.temp) else {
        return Ok(None);
    };
    let Some(home) = Utf8Path::from_path(home.path()) else {
        return Ok(None);
    };
    let mut env = host.clean_env(home);
    env.extend(shared_caches(cli, host));
    let ask = async |args| ask(&path, args, (&env, home), cli.probe_limit).await;
    // Sequentially, because the first start of some CLIs fills a cache for the second.
    let version = ask(cli.version_args).await?;
    let help = ask(cli.help_args).await?;
    let installed = Installed {
        version: version.as_deref().and_then(version_in),
        help: help.filter(|text| is_help(text)).unwrap_or_default(),
        path,
    };
    if let (Some(stamp), Some(_)) = (stamp, &installed.version) {
        remember(
            cli,
            host,
            &Cached {
                stamp,
                installed: installed.clone(),
            },
        );
    }
    Ok(Some(installed))
}

/// The version of git, which creates every workspace; `None` if it is not installed.
pub async fn git(host: &Host) -> Option<Installed> {
    let path = host.find_program("git")?;
    let env = host.helper_env(&[]);
    let here = (&env, host.cwd.as_path());
    let version = ask(&path, &["--version"], here, PROBE_LIMIT).await;
    let version = version.ok().flatten();
    Some(Installed {
        version: version.as_deref().and_then(version_in),
        help: String::new(),
        path,
    })
}

/// Runs the CLI's login check with the credentials that it would get.
pub async fn auth_check(
    cli: &Cli,
    installed: &Installed,
    env: &BTreeMap<String, String>,
    cwd: &Utf8Path,
) -> Option<AuthCheck> {
    let command = cli.auth_args.first()?;
    if !installed.has_command(command) {
        return None;
    }
    let output = run(&installed.path, cli.auth_args, (env, cwd), cli.probe_limit).await;
    let output = output.ok()??;
    Some(AuthCheck {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// The variables for caches that all trials share.
pub fn shared_caches(cli: &Cli, host: &Host) -> BTreeMap<String, String> {
    let folder = host.cache.as_ref().map(|cache| cache.join(cli.program));
    let folder = folder.filter(|folder| fs::create_dir_all(folder).is_ok());
    let variables = cli.shared_caches.iter().copied();
    folder.map_or_else(BTreeMap::new, |folder| {
        variables
            .map(|name| (name.to_owned(), folder.to_string()))
            .collect()
    })
}

/// The environment and the working directory of a probe.
type ProbeEnv<'a> = (&'a BTreeMap<String, String>, &'a Utf8Path);

async fn ask(
    program: &Utf8Path,
    args: &[&str],
    probe_env: ProbeEnv<'_>,
    limit: Duration,
) -> Result<Option<String>, ProbeTimeout> {
    let output = run(program, args, probe_env, limit).await?;
    let output = output.filter(|output| output.status == Status::Code(0));
    Ok(output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()))
}

async fn run(
    program: &Utf8Path,
    args: &[&str],
    (env, cwd): ProbeEnv<'_>,
    limit: Duration,
) -> Result<Option<CommandOutput>, ProbeTimeout> {
    let command = QuickCommand::new(program)
        .args(args.iter().copied())
        .envs(env)
        .cwd(cwd);
    match quick::output(command, limit).await {
        Ok(output) => Ok(Some(output)),
        Err(Error::TimedOut { .. }) => Err(ProbeTimeout {
            command: format!("{program} {}", args.join(" ")),
            limit,
        }),
        // A program that cannot be started is not installed.
        Err(_) => Ok(None),
    }
}

/// Whether the text is a help text: a program without this option may print anything.
fn is_help(text: &str) -> bool {
    text.contains("--help") || text.contains("Usage")
}

/// The first word that looks like a version: digits and dots.
pub fn version_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches('v').trim_end_matches('.'))
        .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

fn stamp(path: &Utf8Path) -> Option<FileStamp> {
    let path = platform::canonical(path).ok()?;
    let meta = path.metadata().ok()?;
    let modified = meta
        .modified()
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    Some(FileStamp {
        path,
        bytes: meta.len(),
        modified_ns: modified.as_nanos(),
    })
}

fn cache_file(cli: &Cli, host: &Host) -> Option<Utf8PathBuf> {
    Some(
        host.cache
            .as_ref()?
            .join(format!("cli-{}.json", cli.program)),
    )
}

fn cached(cli: &Cli, host: &Host, stamp: &FileStamp) -> Option<Installed> {
    let bytes = fs::read(cache_file(cli, host)?).ok()?;
    let cached: Cached = serde_json::from_slice(&bytes).ok()?;
    (cached.stamp == *stamp).then_some(cached.installed)
}

/// Writes the cache. A failure only costs time.
fn remember(cli: &Cli, host: &Host, cached: &Cached) {
    if let (Some(file), Ok(json)) = (cache_file(cli, host), serde_json::to_vec(cached)) {
        let folder = file.parent().map(fs::create_dir_all);
        if matches!(folder, Some(Ok(()))) {
            let _ = dir::write_atomically(file.as_std_path(), &json);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn probe_that_does_not_finish_is_an_error() {
        let env = BTreeMap::new();
        let place = (&env, Utf8Path::new("/"));
        let limit = Duration::from_millis(50);
        let probe = ask("/bin/sleep".into(), &["60"], place, limit).await;
        assert_eq!(
            probe.unwrap_err().to_string(),
            "`/bin/sleep 60` did not answer within 0 s"
        );
        let limit = Duration::from_mins(1);
        let answered = ask("/bin/echo".into(), &["1.2.3"], place, limit).await;
        assert_eq!(answered.unwrap().as_deref(), Some("1.2.3\n"));
        let missing = ask("/bin/no-such-program".into(), &[], place, limit).await;
        assert_eq!(missing.unwrap(), None);
    }

    #[test]
    fn version_is_found_in_the_output_of_a_cli() {
        for (text, expect) in [
            ("2.1.197 (Claude Code)", Some("2.1.197")),
            ("codex-cli v0.9.1\n", Some("0.9.1")),
            ("GitHub Copilot CLI 1.0.102.\nRun", Some("1.0.102")),
            ("no version here", None),
        ] {
            assert_eq!(version_in(text).as_deref(), expect);
        }
    }
}
