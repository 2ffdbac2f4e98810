//! The versions of a bisection: those in a registry or a file, commits, or lines of a file.

use camino::Utf8PathBuf;
use fs_err as fs;
use proctor_agents::agent::Adapter;
use proctor_harness::plan::NoMatch;
use proctor_record::{fs::folder_name, record::cli::Registry, text::one_line};
use proctor_report::experiment::SearchVersion;
use proctor_sandbox::{git::Git, host::Host, packages};
use serde_json::{Value, json};

use super::Candidate;
use crate::{
    args::BisectArgs,
    commands::ab::{literal, place_of},
    error::CliError,
};

/// The longest label of a commit or a line.
const LONGEST_LABEL: usize = 60;
/// The digits of a commit in names.
const SHORT_COMMIT: usize = 12;

/// The source of versions.
pub(super) enum VersionSource {
    /// The agent's package.
    Registry(Registry),
    /// A list of versions of the agent.
    List(Utf8PathBuf),
    /// The commits of the repository; with a file, those that changed it.
    Commits(Option<FileInPlace>),
    /// The lines of a file.
    Lines(FileInPlace),
}

/// A file with its path in the workspace.
pub(super) struct FileInPlace {
    file: Utf8PathBuf,
    place: String,
}

impl VersionSource {
    /// The source that the options select.
    pub(super) fn of(args: &BisectArgs, agent: &Value) -> Result<VersionSource, CliError> {
        let file = args.file.as_ref().map(|file| FileInPlace {
            place: place_of(args.place.as_deref(), file),
            file: file.clone(),
        });
        match (file, &args.versions) {
            (file, _) if args.refs => Ok(VersionSource::Commits(file)),
            (Some(_), _) if args.good.is_some() || args.bad.is_some() => Err(CliError::input(
                "--good and --bad have no effect on the lines of --file",
                "remove them, or add --refs to search the commits that changed the file",
            )),
            (Some(file), _) => Ok(VersionSource::Lines(file)),
            (None, Some(list)) => Ok(VersionSource::List(list.clone())),
            (None, None) if args.good.is_none() || args.bad.is_none() => Err(CliError::input(
                "no versions to search",
                "pass --good and --bad for versions of the agent, --refs for commits, or --file for lines of a file",
            )),
            (None, None) => Ok(VersionSource::Registry(registry(agent)?)),
        }
    }

    /// The only key of agents that the versions differ in.
    pub(super) fn key(&self) -> &'static str {
        match self {
            VersionSource::Registry(_) | VersionSource::List(_) => "version",
            VersionSource::Commits(None) => "ref",
            VersionSource::Commits(Some(_)) | VersionSource::Lines(_) => "files",
        }
    }

    /// The versions from the good one to the bad one.
    pub(super) fn candidates(
        &self,
        args: &BisectArgs,
        host: &Host,
    ) -> Result<Vec<Candidate>, CliError> {
        match self {
            VersionSource::Registry(registry) => {
                let all = block_on(packages::versions(*registry, host))??;
                Ok(of_versions(&between(&all, args)?))
            }
            VersionSource::List(file) => {
                let text = read(file, host)?;
                let lines = text.lines().map(str::trim);
                let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
                let all: Vec<String> = lines.map(str::to_owned).collect();
                Ok(of_versions(&between(&all, args)?))
            }
            VersionSource::Commits(file) => commits(args, file.as_ref(), host),
            VersionSource::Lines(file) => Ok(of_lines(&read(&file.file, host)?, &file.place)),
        }
    }
}

/// The registry of an agent's CLI.
fn registry(agent: &Value) -> Result<Registry, CliError> {
    let kind = agent["type"].as_str().unwrap_or_default();
    let adapter = proctor_agents::find(kind);
    let cli = adapter.and_then(Adapter::cli);
    cli.map(|cli| cli.package).ok_or_else(|| {
        CliError::input(
            format!("agent `{kind}` has no versions to search"),
            "name an agent with a CLI, such as `--agent claude-code`",
        )
    })
}

fn read(file: &Utf8PathBuf, host: &Host) -> Result<String, CliError> {
    fs::read_to_string(host.cwd.join(file))
        .map_err(|error| CliError::input(format!("cannot read {file}: {error}"), "check the path"))
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(future))
}

/// The part of a list from the good version to the bad one.
fn between(all: &[String], args: &BisectArgs) -> Result<Vec<String>, CliError> {
    let position = |named: Option<&String>, default: usize| match named {
        None => Ok(default),
        Some(name) => all.iter().position(|it| it == name).ok_or_else(|| {
            CliError::NoMatch(NoMatch {
                what: "version",
                name: name.clone(),
                known: all.to_vec(),
            })
        }),
    };
    let good = position(args.good.as_ref(), 0)?;
    let bad = position(args.bad.as_ref(), all.len().saturating_sub(1))?;
    Ok(all.get(good..=bad).unwrap_or_default().to_vec())
}

fn of_versions(versions: &[String]) -> Vec<Candidate> {
    let candidate = |version: &String| Candidate {
        version: SearchVersion {
            agent: folder_name(version),
            label: version.clone(),
        },
        settings: json!({"version": literal(version)}),
    };
    versions.iter().map(candidate).collect()
}

/// The commits from the good one to the bad one, along first parents.
fn commits(
    args: &BisectArgs,
    file: Option<&FileInPlace>,
    host: &Host,
) -> Result<Vec<Candidate>, CliError> {
    let root = crate::commands::project_dir(&host.cwd);
    let git = Git::new(host, &root.join(".git")).with_files(root);
    let (good, bad) = (args.good.as_deref(), args.bad.as_deref());
    let (good, bad) = (good.unwrap_or_default(), bad.unwrap_or_default());
    let format = "--format=%H %s";
    let first = ["log", "-1", format, "--end-of-options", good, "--"];
    let range = format!("{good}..{bad}");
    let rest = [
        "log",
        "--reverse",
        "--first-parent",
        format,
        "--end-of-options",
        &range,
        "--",
    ];
    let path = file.map(|it| in_repository(it, host, root));
    let rest = rest.into_iter().chain(path.as_deref());
    let listed = block_on(async {
        let mut listed = git.line(first).await?;
        listed.push('\n');
        listed.push_str(&git.line(rest).await?);
        Ok::<_, CliError>(listed)
    })??;
    let commits = listed.lines().filter_map(|line| line.split_once(' '));
    let candidate = |(commit, subject): (&str, &str)| {
        let short = &commit[..SHORT_COMMIT.min(commit.len())];
        let settings = match (file, &path) {
            (Some(file), Some(path)) => {
                let source = format!("git:{commit}:{path}");
                json!({"files": {&file.place: literal(&source)}})
            }
            _ => json!({"ref": commit}),
        };
        Candidate {
            version: SearchVersion {
                agent: short.to_owned(),
                label: shortened(&format!("{short} {subject}")),
            },
            settings,
        }
    };
    Ok(commits.map(candidate).collect())
}

/// The path of a file in the repository, with slashes.
fn in_repository(file: &FileInPlace, host: &Host, root: &camino::Utf8Path) -> String {
    let path = host.cwd.join(file.file.as_str().trim_start_matches("./"));
    let path = path.strip_prefix(root).unwrap_or(&file.file);
    path.as_str().replace('\\', "/")
}

/// The beginnings of a text: without any line, then with one more line that is not blank each.
fn of_lines(text: &str, place: &str) -> Vec<Candidate> {
    let mut end = 0;
    let mut candidates = vec![line(0, "", place, "")];
    for (number, content) in text.split_inclusive('\n').enumerate() {
        end += content.len();
        if !content.trim().is_empty() {
            candidates.push(line(number + 1, content, place, &text[..end]));
        }
    }
    candidates
}

fn line(number: usize, content: &str, place: &str, text: &str) -> Candidate {
    let label = match number {
        0 => "no lines".to_owned(),
        number => shortened(&format!("line {number}: {content}")),
    };
    Candidate {
        version: SearchVersion {
            agent: format!("line-{number:04}"),
            label,
        },
        settings: json!({"files": {place: {"text": literal(text)}}}),
    }
}

fn shortened(text: &str) -> String {
    let text = one_line(text);
    let mut short: String = text.chars().take(LONGEST_LABEL).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn args(options: &[&str]) -> BisectArgs {
        BisectArgs::parse_from(["bisect"].iter().chain(options))
    }

    #[test]
    fn versions_are_those_between_the_good_and_the_bad_one() {
        let all = || ["1", "2", "3", "4"].map(str::to_owned).to_vec();
        let found = |options: &[&str]| between(&all(), &args(options));
        assert_eq!(
            found(&["--good", "2", "--bad", "4"]).unwrap(),
            ["2", "3", "4"]
        );
        assert_eq!(found(&[]).unwrap(), all());
        assert!(found(&["--good", "3", "--bad", "2"]).unwrap().is_empty());
        assert!(found(&["--good", "0.9", "--bad", "2"]).is_err());
    }

    #[test]
    fn lines_are_added_one_by_one() {
        let found = of_lines("a\n\n${b}\n", "X.md");
        let text = |it: &Candidate| it.settings["files"]["X.md"]["text"].clone();
        let texts: Vec<Value> = found.iter().map(text).collect();
        assert_eq!(texts, ["", "a\n", "a\n\n$${b}\n"]);
        let label = |it: &Candidate| it.version.label.clone();
        let labels: Vec<String> = found.iter().map(label).collect();
        assert_eq!(labels, ["no lines", "line 1: a", "line 3: ${b}"]);
    }
}
