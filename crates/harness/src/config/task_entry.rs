//! The entries of a suite's `tasks`: test cases, folders and repos at tags.

use proctor_document::{Fault, Node, keys_of};
use schemars::JsonSchema;
use serde::Deserialize;

use super::repo::History;

/// Where tasks come from.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub(crate) enum TaskEntry {
    Testcase(TestcaseEntry),
    Folder(FolderEntry),
    Repo(Box<RepoEntry>),
}

impl TaskEntry {
    /// Read an entry. The key that names the source decides on its type, so that faults are about that type.
    pub(super) fn read(item: &Node) -> Result<TaskEntry, Fault> {
        let keys = ["testcase", "folder", "repo"];
        let mut given = keys.into_iter().filter(|key| item.get(key).is_some());
        match (given.next(), given.next()) {
            (Some(_), Some(other)) => {
                let message = "a task comes from a `testcase`, a `folder` or a `repo`: keep one";
                Err(Fault::new(item.key_span_of(other), message))
            }
            (None, _) => {
                let message = "a task names a `testcase`, a `folder` or a `repo`";
                Err(Fault::new(item.span, message))
            }
            (Some("repo"), None) => item.read().map(Box::new).map(TaskEntry::Repo),
            (Some("folder"), None) => item.read().map(TaskEntry::Folder),
            (Some(_), None) => item.read().map(TaskEntry::Testcase),
        }
    }

    /// The keys of all kinds of entries.
    pub(super) fn keys() -> Vec<&'static str> {
        let keys = [
            keys_of::<TestcaseEntry>(),
            keys_of::<FolderEntry>(),
            keys_of::<RepoEntry>(),
        ];
        keys.concat()
    }
}

/// Test cases.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestcaseEntry {
    /// A test case, a folder of them, or a pattern such as `cases/*.yaml`. Their prompt, repo and
    /// evaluators count; their agent does not.
    pub(crate) testcase: String,
    /// What they belong to.
    pub(crate) category: Option<String>,
}

/// Tasks in Harbor's format.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderEntry {
    /// A task's folder, a folder of them, or a pattern such as `tasks/*`.
    pub(crate) folder: String,
    /// What they belong to; the category in their metadata when left out.
    pub(crate) category: Option<String>,
}

/// A task of a repo, as written in a suite.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepoEntry {
    /// Its name, in results and filters.
    pub(crate) id: Option<String>,
    /// The same as `id`; the last part of the repo when both are left out.
    pub(crate) name: Option<String>,
    /// The code: a URL, or a folder relative to the suite.
    pub(crate) repo: String,
    /// The tag, branch or commit that agents start from.
    pub(crate) tag: String,
    /// The one that holds the reference solution.
    pub(crate) reference_tag: Option<String>,
    /// The one that holds the hidden tests: what it has beyond `tag` is laid over the work
    /// before it is judged.
    pub(crate) validation_tag: Option<String>,
    /// What it belongs to, such as `greenfield/small`.
    pub(crate) category: Option<String>,
    /// Whether it is a new project: the agent's own tests count besides the hidden ones.
    pub(crate) greenfield: Option<bool>,
    /// The image that judges; needs containers.
    pub(crate) validation_image: Option<String>,
    /// Makes a workspace ready, before the agent and before the tests.
    pub(crate) install_cmd: Option<String>,
    /// Judges the work: the results of a known runner, test by test, else the exit code, of which 0 is passed.
    pub(crate) test_cmd: String,
    /// Files that are the task's when commands judge, besides tests and the settings of runners: patterns. One that
    /// begins with `!` names files that are the agent's; an empty list leaves everything to the agent.
    pub(crate) protect: Option<Vec<String>>,
    /// All source files that are not tests: patterns. Nothing else comes from the agent.
    pub(crate) solution_paths: Option<Vec<String>>,
    /// Builds the work; run before the tests.
    pub(crate) build_cmd: Option<String>,
    /// Finds fault with the code; only what it does not find before the work counts.
    pub(crate) lint_cmd: Option<String>,
    /// What counts how much in the score.
    pub(crate) weights: Option<Weights>,
    /// What counts how much in the score of a new project.
    pub(crate) green_weights: Option<GreenWeights>,
    /// Criteria that an agent or a model judges by: `config` of the evaluator `rubric`.
    /// In Thunderdome's spelling a list of `{criterion, weight}`.
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) rubric: Option<Node>,
    /// Time limit of the agent in minutes. Only a file of Thunderdome's may leave it out; the category
    /// decides then.
    pub(crate) time_limit_minutes: Option<f64>,
    /// Whether the prompt says when the time is over.
    pub(crate) tell_deadline: Option<bool>,
    /// The commits before `tag` that agents see. Default: none.
    pub(crate) history: Option<History>,
}

/// What counts how much.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weights {
    /// `test_cmd`.
    pub(crate) tests: Option<f64>,
    /// `lint_cmd` and `build_cmd` together.
    pub(crate) static_analysis: Option<f64>,
    /// `rubric`; it is no part of the score when this is left out.
    pub(crate) rubric: Option<f64>,
}

/// What counts how much of a new project.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GreenWeights {
    /// The tests of `validation_tag`.
    pub(crate) hidden_tests: Option<f64>,
    /// The agent's own.
    pub(crate) agent_tests: Option<f64>,
    /// `lint_cmd` and `build_cmd` together.
    pub(crate) build_lint: Option<f64>,
    /// Not measured: the other parts share its weight.
    pub(crate) code_metrics: Option<f64>,
    /// `rubric`; it is no part of the score when this is left out.
    pub(crate) rubric: Option<f64>,
}
