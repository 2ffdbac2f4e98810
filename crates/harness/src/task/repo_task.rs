//! A task from a git repo at a tag, as Thunderdome writes it: `TASK.md` is the prompt, other tags
//! hold the reference solution and the hidden tests, commands judge a clean copy.

use std::{sync::Arc, time::Duration};

use camino::Utf8Path;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{Asks, Files, Install, Reference, RunFolder, Task, TaskKind, TaskLimits};
use crate::{
    config::{Fault, Node, OutputLimits, PromptSource, Repo, Source, revision_problem},
    evaluate::{Evaluator, RepoCommand},
    hook::Hooks,
};

/// The prompt, in the repo's root.
const PROMPT_FILE: &str = "TASK.md";
/// How long an installation, a build or the tests may take.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(15);
/// Keys of scoring that are understood and not there yet.
const NOT_YET: [&str; 4] = ["lint_cmd", "weights", "green_weights", "rubric"];

/// A task of a repo, as written in a suite.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepoEntry {
    /// Its name, in results and filters.
    id: Option<String>,
    /// The same as `id`; the last part of the repo when both are left out.
    name: Option<String>,
    /// The code: a URL, or a folder relative to the suite.
    repo: String,
    /// The tag, branch or commit that agents start from.
    tag: String,
    /// The one that holds the reference solution.
    reference_tag: Option<String>,
    /// The one that holds the hidden tests: what it has beyond `tag` is laid over the work
    /// before it is judged.
    validation_tag: Option<String>,
    /// What it belongs to, such as `greenfield/small`.
    category: Option<String>,
    /// Whether the score is that of a new project. Not there yet.
    greenfield: Option<bool>,
    /// The image that judges. Not there yet.
    #[schemars(with = "Option<String>")]
    validation_image: Option<IgnoredAny>,
    /// Makes a workspace ready, before the agent and before the tests.
    install_cmd: Option<String>,
    /// Judges the work; exit code 0 is passed.
    test_cmd: String,
    /// Builds the work; run before the tests.
    build_cmd: Option<String>,
    /// Time limit of the agent in minutes.
    time_limit_minutes: f64,
}

/// Read one entry of `tasks`; `folder` is the suite's.
pub(crate) fn read(
    entry: &Node,
    source: &Arc<Source>,
    folder: &Utf8Path,
) -> Result<Task, Vec<Fault>> {
    let mut entry = entry.clone();
    let mut faults: Vec<Fault> = NOT_YET
        .iter()
        .filter_map(|key| entry.remove(key))
        .map(|(span, key, _)| {
            Fault::new(span, format!("`{key}` is not there yet"))
                .with_hint("remove it: the work is judged by `test_cmd` and `build_cmd`")
        })
        .collect();
    let written = match entry.read::<RepoEntry>() {
        Ok(written) => written,
        Err(fault) => {
            faults.push(fault);
            return Err(faults);
        }
    };
    check(&written, &entry, &mut faults);
    let repo = Repo::parse(&written.repo, folder).map_err(|problem| {
        faults.push(entry.fault("repo", format!("`repo` cannot be used: {problem}")));
    });
    let limit = Duration::try_from_secs_f64(written.time_limit_minutes * 60.0);
    let limit = limit.ok().filter(|limit| !limit.is_zero());
    if limit.is_none() {
        let message = "`time_limit_minutes` is a number above 0";
        faults.push(entry.fault("time_limit_minutes", message));
    }
    match (repo, faults.is_empty()) {
        (Ok(repo), true) => Ok(task(written, repo, limit, source, folder)),
        _ => Err(faults),
    }
}

fn check(written: &RepoEntry, entry: &Node, faults: &mut Vec<Fault>) {
    for (key, value) in [
        ("tag", Some(&written.tag)),
        ("reference_tag", written.reference_tag.as_ref()),
        ("validation_tag", written.validation_tag.as_ref()),
    ] {
        if let Some(problem) = value.and_then(|value| revision_problem(value)) {
            faults.push(entry.fault(key, format!("`{key}` cannot be used: {problem}")));
        }
    }
    for (key, value) in [
        ("test_cmd", Some(&written.test_cmd)),
        ("install_cmd", written.install_cmd.as_ref()),
        ("build_cmd", written.build_cmd.as_ref()),
    ] {
        if value.is_some_and(|value| value.trim().is_empty()) {
            faults.push(entry.fault(key, format!("`{key}` is empty")));
        }
    }
    if written.greenfield == Some(true) {
        let message = "`greenfield` is not there yet";
        let fault = entry.fault("greenfield", message);
        faults.push(fault.with_hint("remove it: the score of new projects comes with `weights`"));
    }
    if written.validation_image.is_some() {
        let message = "`validation_image` is not there yet";
        let fault = entry.fault("validation_image", message);
        faults.push(fault.with_hint("this needs `--sandbox docker`"));
    }
}

fn task(
    written: RepoEntry,
    repo: Repo,
    limit: Option<Duration>,
    source: &Arc<Source>,
    folder: &Utf8Path,
) -> Task {
    let aliases = repo.names();
    let last = aliases.last().cloned().unwrap_or_default();
    let ids = [written.id.clone(), written.name.clone()];
    let name = ids.iter().flatten().next().cloned().unwrap_or(last);
    let evaluators = evaluators(&written);
    let install = written.install_cmd.map(|command| Install {
        command,
        timeout: COMMAND_TIMEOUT,
    });
    Task {
        description: format!("{repo} at {}", written.tag),
        name,
        kind: TaskKind::Repo,
        category: written.category,
        aliases: aliases
            .into_iter()
            .chain(ids.into_iter().flatten())
            .collect(),
        asks: Asks::Prompt(PromptSource::WorkspaceFile(PROMPT_FILE.into())),
        reference: written.reference_tag.map(Reference::Branch),
        limits: TaskLimits {
            timeout: limit,
            idle_timeout: None,
            output: OutputLimits::default(),
        },
        files: Files::Repo {
            repo,
            branch: Some(written.tag),
            commit: None,
        },
        install: install.map(Arc::new),
        evaluators,
        hooks: Hooks::default(),
        run_folder: RunFolder::default(),
        folder: folder.to_owned(),
        config_hash: source.hash(),
        source: Arc::clone(source),
    }
}

/// The build and the tests, each in a clean copy of its own.
fn evaluators(written: &RepoEntry) -> Arc<[Evaluator]> {
    let install = written.install_cmd.clone().map(|command| Install {
        command,
        timeout: COMMAND_TIMEOUT,
    });
    let build = written.build_cmd.as_deref();
    let first = build.map(|line| {
        let command = RepoCommand {
            line,
            timeout: COMMAND_TIMEOUT,
            install: install.as_ref(),
            build: None,
            hidden_tests: None,
        };
        Evaluator::of_repo_command("build_cmd", &command)
    });
    let tests = RepoCommand {
        line: &written.test_cmd,
        timeout: COMMAND_TIMEOUT,
        install: install.as_ref(),
        build,
        hidden_tests: written.validation_tag.as_deref(),
    };
    let tests = Evaluator::of_repo_command("test_cmd", &tests);
    first.into_iter().chain([tests]).collect()
}
