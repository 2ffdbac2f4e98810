//! The entries of a suite's `tasks`: test cases, folders and repos at tags.

use proctor_document::{Fault, Node, Value, keys_of, nearest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::repo::History;

/// An entry of `tasks`, by its source.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(crate) enum TaskEntry {
    Testcase(TestcaseEntry),
    Folder(FolderEntry),
    Swebench(Box<SwebenchEntry>),
    Repo(Box<RepoEntry>),
}

impl TaskEntry {
    /// Reads an entry. The key that names the source determines the type, so that faults are about
    /// that type.
    pub(super) fn read(item: &Node) -> Result<TaskEntry, Fault> {
        let keys = ["testcase", "folder", "swebench", "repo"];
        let mut given = keys.into_iter().filter(|key| item.get(key).is_some());
        match (given.next(), given.next()) {
            (Some(_), Some(other)) => {
                let message =
                    "`testcase`, `folder`, `swebench` and `repo` cannot be combined in one task";
                Err(Fault::new(item.key_span_of(other), message))
            }
            (None, _) => {
                let message = "a task requires one of `testcase`, `folder`, `swebench` and `repo`";
                let fault = Fault::new(item.span, message);
                Err(match misspelled(item, &keys) {
                    Some(key) => fault.with_hint(format!("did you mean `{key}`?")),
                    None => fault,
                })
            }
            (Some("repo"), None) => item.read().map(Box::new).map(TaskEntry::Repo),
            (Some("swebench"), None) => item.read().map(Box::new).map(TaskEntry::Swebench),
            (Some("folder"), None) => item.read().map(TaskEntry::Folder),
            (Some(_), None) => item.read().map(TaskEntry::Testcase),
        }
    }

    /// The keys of all kinds of entries.
    pub(super) fn keys() -> Vec<&'static str> {
        let keys = [
            keys_of::<TestcaseEntry>(),
            keys_of::<FolderEntry>(),
            keys_of::<SwebenchEntry>(),
            keys_of::<RepoEntry>(),
        ];
        keys.concat()
    }
}

/// The key that a key of the entry resembles.
fn misspelled<'k>(item: &Node, keys: &[&'k str]) -> Option<&'k str> {
    let Value::Map(entries) = &item.value else {
        return None;
    };
    entries.iter().find_map(|(_, key, _)| nearest(key, keys))
}

/// Test cases.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestcaseEntry {
    /// A test case, a directory of test cases, or a pattern such as `cases/*.yaml`. Their prompt,
    /// repo and evaluators are used; their agent is not.
    pub(crate) testcase: String,
    /// The category of the tasks.
    pub(crate) category: Option<String>,
}

/// Task directories: in Harbor's format, or of Terminal-Bench 1.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderEntry {
    /// A task directory, a directory of task directories, or a pattern such as `tasks/*`. Relative
    /// to the suite, or to the repository of `git`.
    pub(crate) folder: String,
    /// The git repository of the tasks: a URL, or a directory relative to the suite. `proctor task
    /// lock` pins its commit.
    pub(crate) git: Option<String>,
    /// The branch, tag or commit of `git`. Default: its default branch. Without a lock file, a full
    /// commit id.
    #[serde(rename = "ref")]
    pub(crate) revision: Option<String>,
    /// The category of the tasks. Default: the category in their metadata.
    pub(crate) category: Option<String>,
    /// Patterns of names of tasks. Default: all.
    pub(crate) include: Option<Vec<String>>,
    /// Patterns of names of tasks that are left out.
    pub(crate) exclude: Option<Vec<String>>,
    /// The largest number of tasks.
    pub(crate) limit: Option<usize>,
    /// The seed of a random sample of `limit` tasks. Default: the first ones.
    pub(crate) sample_seed: Option<u64>,
}

/// Instances in the format of SWE-bench. Values are templates with `{id}`, `{image_id}`, `{repo}`,
/// `{owner}`, `{name}`, `{base_commit}`, `{version}` and, in commands, `{test_files}`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwebenchEntry {
    /// A JSON or JSONL file of instances.
    pub(crate) swebench: String,
    /// The image of an instance, with its repository. Default: the `image_name` or `docker_image`
    /// of the instance, else the public images of SWE-bench.
    pub(crate) image: Option<String>,
    /// The directory of the repository in the image. Default: /testbed.
    pub(crate) workdir: Option<String>,
    /// The repository: a URL, or a directory relative to the suite. It replaces the repository in
    /// an image.
    pub(crate) repos: Option<String>,
    /// The command that prepares a workspace with `repos`, before the agent and before the tests.
    pub(crate) install_cmd: Option<String>,
    /// The test command, which writes a report to `$PROCTOR_REPORT` or prints it. Default: pytest
    /// on the files of the test patch.
    pub(crate) test_cmd: Option<String>,
    /// Time limit of the agent in minutes. Default: 60.
    pub(crate) time_limit_minutes: Option<f64>,
    /// The category of the tasks. Default: the repository.
    pub(crate) category: Option<String>,
    /// Patterns of names of tasks. Default: all.
    pub(crate) include: Option<Vec<String>>,
    /// Patterns of names of tasks that are left out.
    pub(crate) exclude: Option<Vec<String>>,
    /// The largest number of tasks.
    pub(crate) limit: Option<usize>,
    /// The seed of a random sample of `limit` tasks. Default: the first ones.
    pub(crate) sample_seed: Option<u64>,
}

/// A task that is a repository at a tag.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepoEntry {
    /// The task's name in results and filters.
    pub(crate) id: Option<String>,
    /// The same as `id`. Default: the last part of the repo.
    pub(crate) name: Option<String>,
    /// The code: a URL, or a folder relative to the suite.
    pub(crate) repo: String,
    /// The prompt. Default: the content of `TASK.md` in the repo.
    pub(crate) prompt: Option<String>,
    /// The tag, branch or commit that agents start from.
    pub(crate) tag: String,
    /// The tag, branch or commit of the reference solution.
    pub(crate) reference_tag: Option<String>,
    /// The tag, branch or commit with the hidden tests. Files that it adds to `tag` are copied over
    /// the work before judging.
    pub(crate) validation_tag: Option<String>,
    /// The category, such as `greenfield/small`.
    pub(crate) category: Option<String>,
    /// Whether it is a new project: the agent's own tests count in addition to the hidden ones.
    pub(crate) greenfield: Option<bool>,
    /// The image for judging; requires containers.
    pub(crate) validation_image: Option<String>,
    /// The command that prepares a workspace, before the agent and before the tests.
    pub(crate) install_cmd: Option<String>,
    /// The test command. Results of known test runners are read test by test; otherwise exit code 0
    /// means passed.
    pub(crate) test_cmd: String,
    /// Only these tests of `test_cmd` count: they fail before the work and must pass after it.
    pub(crate) fail_to_pass: Option<Vec<String>>,
    /// Only these tests of `test_cmd` count: they pass before the work and must still pass.
    pub(crate) pass_to_pass: Option<Vec<String>>,
    /// Rust files with unit tests: `validation_tag` replaces only their `#[cfg(test)]` items.
    pub(crate) inline_tests: Option<Vec<String>>,
    /// Patterns of files that judging commands take from the task, in addition to tests and
    /// settings of test runners. A pattern with `!` names files of the agent; an empty list
    /// protects nothing.
    pub(crate) protect: Option<Vec<String>>,
    /// Patterns of all source files that are not tests. Only these files are taken from the agent.
    pub(crate) solution_paths: Option<Vec<String>>,
    /// The build command, run before the tests.
    pub(crate) build_cmd: Option<String>,
    /// The lint command. Only findings that the original code does not have count.
    pub(crate) lint_cmd: Option<String>,
    /// The weights of the parts of the score.
    pub(crate) weights: Option<Weights>,
    /// The weights of the parts of the score of a new project.
    pub(crate) green_weights: Option<GreenWeights>,
    /// Criteria for an agent or a model as judge: `config` of the evaluator `rubric`. In
    /// Thunderdome's format a list of `{criterion, weight}`.
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) rubric: Option<Node>,
    /// Time limit of the agent in minutes. Optional only in Thunderdome's files, where the default
    /// depends on the category.
    pub(crate) time_limit_minutes: Option<f64>,
    /// Whether the prompt contains the deadline.
    pub(crate) tell_deadline: Option<bool>,
    /// The commits before `tag` that agents can see. Default: none.
    pub(crate) history: Option<History>,
}

/// The weights of the parts of the score.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weights {
    /// `test_cmd`.
    pub(crate) tests: Option<f64>,
    /// `lint_cmd` and `build_cmd` together.
    pub(crate) static_analysis: Option<f64>,
    /// `rubric`. Default: not part of the score.
    pub(crate) rubric: Option<f64>,
}

/// The weights of the parts of the score of a new project.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GreenWeights {
    /// The tests of `validation_tag`.
    pub(crate) hidden_tests: Option<f64>,
    /// The agent's own tests.
    pub(crate) agent_tests: Option<f64>,
    /// `lint_cmd` and `build_cmd` together.
    pub(crate) build_lint: Option<f64>,
    /// Not measured: the other parts share its weight.
    pub(crate) code_metrics: Option<f64>,
    /// `rubric`. Default: not part of the score.
    pub(crate) rubric: Option<f64>,
}
