//! Tests of test cases and their error messages.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Node, Value};

use super::*;

mod hostile;
mod refusals;
mod variables;

const GOOD: &str = "\
name: Fix the bug
description: The agent fixes one bug
repo: https://example.com/repo.git
agent:
  type: claude-code
  config:
    prompt: Fix it
evaluators:
  - git-diff
";

/// A directory of test cases.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.0.path()).unwrap()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Utf8PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn load(&self, name: &str) -> Result<ResolvedCase, ConfigError> {
        load(&self.path().join(name), &env(), &Settings::default())
    }

    /// The error message for the file.
    fn refusal(&self, name: &str) -> String {
        let error = self
            .load(name)
            .expect_err("the test case should be refused");
        let folder = format!("{}{}", self.path(), std::path::MAIN_SEPARATOR);
        error.to_string().replace(&folder, "")
    }
}

fn env() -> BTreeMap<String, String> {
    BTreeMap::from([("TOKEN".to_owned(), "s3cret-value".to_owned())])
}

fn good(text: &str) -> ResolvedCase {
    let folder = Folder::new();
    folder.write("testcase.yaml", text);
    folder
        .load("testcase.yaml")
        .unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    folder.write("testcase.yaml", text);
    folder.refusal("testcase.yaml")
}

/// `GOOD` with one piece of text replaced.
fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    GOOD.replace(old, new)
}

/// `GOOD` with lines added at the top level.
fn and(lines: &str) -> String {
    format!("{GOOD}{lines}\n")
}

#[test]
fn minimal_test_case_gets_the_defaults() {
    let case = good(GOOD);
    assert_eq!(case.name, "Fix the bug");
    assert_eq!(
        case.repo,
        Repo::Url("https://example.com/repo.git".to_owned())
    );
    assert_eq!(case.agent.kind, AgentType::Named("claude-code".to_owned()));
    assert_eq!(
        case.agent.config.get("prompt").and_then(Node::as_str),
        Some("Fix it")
    );
    assert_eq!(case.evaluators.len(), 1);
    assert_eq!(case.evaluators[0].name, "git-diff");
    assert_eq!(case.timeout, Some(Duration::from_mins(5)));
    assert_eq!(case.idle_timeout, None);
    assert_eq!(case.output.transcript_bytes, 10_485_760);
    assert_eq!(case.output.raw_bytes, 1_073_741_824);
    assert_eq!(
        case.config_hash,
        "1682666e7dcd09d8157f2a5c0c06bbb84cd887409dfb75c107d5377c4f73b57a"
    );
}

#[test]
fn test_case_with_all_keys_is_read() {
    let folder = Folder::new();
    folder.write(
        "solution/fix.patch",
        "diff --git a/x b/x\nnew file mode 100644\n",
    );
    folder.write(
        "size.yaml",
        "name: git-diff\ndescription: Small\nconfig:\n  max_files_changed: 3\n",
    );
    std::fs::create_dir(folder.path().join("code")).unwrap();
    folder.write(
        "testcase.yaml",
        "\
$schema: ./schema.json
name: n
description: d
repo: code
branch: main
commit: 0a1b2c3
reference: ./solution/fix.patch
agent:
  backend: claude
  agent_name: reviewer
  model: sonnet
evaluators:
  - name: command
    config: {command: 'true'}
  - file: size.yaml
workspace_dir: work
workspace_name: run_1.x
timeout: 0
idle_timeout: 5000
output: {transcript_bytes: 100, raw_bytes: 200}
",
    );
    let case = folder.load("testcase.yaml").unwrap();
    assert_eq!(case.repo, Repo::Path(folder.path().join("code")));
    assert!(matches!(case.reference, Some(Reference::Patch(path)) if path.ends_with("fix.patch")));
    assert_eq!(case.agent.kind, AgentType::Named("claude-code".to_owned()));
    assert_eq!(case.agent.agent_name.as_deref(), Some("reviewer"));
    assert_eq!(case.evaluators[1].name, "git-diff");
    assert_eq!(case.evaluators[1].description.as_deref(), Some("Small"));
    assert_eq!(
        case.evaluators[1].source.path(),
        folder.path().join("size.yaml")
    );
    assert_eq!(case.workspace_dir, Some(folder.path().join("work")));
    assert_eq!(case.timeout, None);
    assert_eq!(case.idle_timeout, Some(Duration::from_secs(5)));
    assert_eq!(case.output.raw_bytes, 200);
}

#[test]
fn json_test_cases_are_read() {
    let folder = Folder::new();
    folder.write(
        "case.json",
        r#"{
	"name": "party \ud83c\udf89",
	"description": "a\/b\n",
	"repo": "git@example.com:a/b.git",
	"agent": {"type": "null"},
	"evaluators": [{"name": "git-diff", "config": {"max_change_entropy": 1e0}}]
}"#,
    );
    let case = folder.load("case.json").unwrap();
    assert_eq!(case.name, "party 🎉");
    assert_eq!(case.description, "a/b\n");
}

#[test]
fn project_settings_are_defaults() {
    let folder = Folder::new();
    let path = folder.write("testcase.yaml", GOOD);
    let settings = Settings {
        workspace_dir: Some("/srv/work".into()),
        timeout_ms: Some(7000),
        model: Some("opus".to_owned()),
        ..Settings::default()
    };
    let case = load(&path, &env(), &settings).unwrap();
    assert_eq!(case.timeout, Some(Duration::from_secs(7)));
    assert_eq!(
        case.workspace_dir.as_deref(),
        Some(Utf8Path::new("/srv/work"))
    );
    assert_eq!(case.agent.default_model.as_deref(), Some("opus"));
}

#[test]
fn anchors_and_merge_keys_work() {
    let case = good(&with(
        "  config:\n    prompt: Fix it\n",
        "  config:\n    <<: {prompt: base, max_turns: 3}\n    prompt: own\n",
    ));
    let config = &case.agent.config;
    assert_eq!(config.get("prompt").and_then(Node::as_str), Some("own"));
    assert_eq!(
        config.get("max_turns").map(|node| &node.value),
        Some(&Value::Int(3))
    );
}
