//! Tasks from instances in the format of SWE-bench: a JSON array, or one object a line. The work is
//! judged by named tests in a clean copy that has the files of the test patch.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::PromptSource;
use proctor_document::{ConfigError, Fault, Span};
use proctor_record::record::TaskKind;
use proctor_sandbox::Network;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{Asks, Files, RunFolder, Task, TaskLimits, TaskTools};
use crate::{
    config::{
        History, Hooks, OutputLimits, ProgressLimits, Reference, Repo, Source, SwebenchEntry,
        revision_problem,
    },
    evaluate::{Evaluator, HiddenTests, JudgesBy, Protect, RepoCommand, patched_files},
    workspace::{Checkout, Environment, Image, Install, NEEDS_DOCKER},
};

/// The public images of SWE-bench.
const IMAGE: &str = "swebench/sweb.eval.x86_64.{image_id}:latest";
/// The repository in these images.
const WORKDIR: &str = "/testbed";
/// The environment of these images is not active by itself.
const ACTIVATE: &str =
    "if [ -f /opt/miniconda3/bin/activate ]; then . /opt/miniconda3/bin/activate testbed; fi\n";
/// The default test command.
const PYTEST: &str = "\"$(command -v python || command -v python3)\" -m pytest -p no:cacheprovider --junitxml \"$PROCTOR_REPORT\" {test_files}";
/// The prompt before the issue.
const PROMPT: &str = "Resolve the following issue in the repository in the current directory.\n\n";
/// The time limit of the tests and of the installation, as in SWE-bench.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_mins(30);
/// The default time limit of agents.
const TIME_LIMIT_MINUTES: f64 = 60.0;
/// The largest file of instances.
const MAX_BYTES: u64 = 512 << 20;
/// Files of a test patch that are not tests, as in SWE-bench.
const NOT_TESTS: [&str; 12] = [
    "json", "png", "csv", "txt", "md", "jpg", "jpeg", "pkl", "yml", "yaml", "toml", "rst",
];

/// An instance that was read, with its task or the reason why it cannot be run.
pub(crate) struct Instance {
    pub(crate) id: String,
    pub(crate) task: Result<Task, ConfigError>,
    /// The tests, if the task is valid.
    pub(super) tests: Option<NamedTests>,
}

/// The tests that judge an instance.
pub(super) struct NamedTests {
    /// The test command.
    pub(super) line: String,
    /// The names of the tests that must pass.
    pub(super) names: Vec<String>,
    /// The test patch; blank if there is none.
    pub(super) patch: Arc<str>,
}

/// An instance as written. Further keys have no effect.
#[derive(Debug, Deserialize)]
struct InstanceAsWritten {
    instance_id: String,
    repo: String,
    base_commit: String,
    problem_statement: String,
    patch: Option<String>,
    test_patch: Option<String>,
    #[serde(rename = "FAIL_TO_PASS", alias = "fail_to_pass")]
    fail_to_pass: Names,
    #[serde(rename = "PASS_TO_PASS", alias = "pass_to_pass", default)]
    pass_to_pass: Names,
    #[serde(default)]
    version: Value,
    #[serde(alias = "docker_image")]
    image_name: Option<String>,
    test_cmd: Option<String>,
}

/// Names of tests: a list, or a text with a JSON list.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum ListOrText {
            List(Vec<String>),
            Text(String),
        }
        match ListOrText::deserialize(deserializer)? {
            ListOrText::List(names) => Ok(Names(names)),
            ListOrText::Text(text) => serde_json::from_str(&text).map(Names).map_err(|_| {
                de::Error::custom("the names of tests must be a list, or a text with a JSON list")
            }),
        }
    }
}

/// Reads the instances of a file. Paths are relative to `folder`.
pub(crate) fn read(
    file: &Utf8Path,
    entry: &SwebenchEntry,
    folder: &Utf8Path,
) -> Result<Vec<Instance>, String> {
    check_entry(entry)?;
    let values = values(file)?;
    let instances = values.into_iter().enumerate().map(|(index, value)| {
        let id = value.get("instance_id").and_then(Value::as_str);
        let id = id.map_or_else(|| format!("instance {}", index + 1), str::to_owned);
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let source = Arc::new(Source::of_text(file, text));
        let whole = |message: String| {
            let fault = Fault::new(Span::default(), format!("{id}: {message}"));
            ConfigError::whole(file, fault)
        };
        let written = serde_json::from_value(value).map_err(|error| error.to_string());
        let read = written.and_then(|written: InstanceAsWritten| {
            let tests = named_tests(&written, entry)?;
            let task = task(written, entry, (folder, source), &tests)?;
            Ok((task, tests))
        });
        match read.map_err(whole) {
            Ok((task, tests)) => Instance {
                id,
                task: Ok(task),
                tests: Some(tests),
            },
            Err(error) => Instance {
                id,
                task: Err(error),
                tests: None,
            },
        }
    });
    let instances: Vec<Instance> = instances.collect();
    if instances.is_empty() {
        return Err(format!("{file} has no instances"));
    }
    Ok(instances)
}

/// Checks the settings that do not depend on an instance.
fn check_entry(entry: &SwebenchEntry) -> Result<(), String> {
    if entry.repos.is_some() && (entry.image.is_some() || entry.workdir.is_some()) {
        return Err("`repos` replaces the repository in an image: remove `image` and `workdir`, or `repos`; `sandbox.image` names an image for `repos`".to_owned());
    }
    if entry.repos.is_none() && entry.install_cmd.is_some() {
        return Err("`install_cmd` has no effect without `repos`".to_owned());
    }
    if entry
        .workdir
        .as_ref()
        .is_some_and(|it| !it.starts_with('/'))
    {
        return Err("`workdir` must be an absolute path, such as /testbed".to_owned());
    }
    let minutes = entry.time_limit_minutes.unwrap_or(TIME_LIMIT_MINUTES);
    if !(minutes.is_finite() && minutes > 0.0) {
        return Err("`time_limit_minutes` must be more than 0".to_owned());
    }
    Ok(())
}

/// The objects of a JSON array, or one on each line.
fn values(file: &Utf8Path) -> Result<Vec<Value>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {file}: {error}");
    let size = std::fs::metadata(file).map_err(unreadable)?.len();
    if size > MAX_BYTES {
        return Err(format!("{file} is larger than {} MiB", MAX_BYTES >> 20));
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"));
    }
    // A single object may span lines.
    if let Ok(one @ Value::Object(_)) = serde_json::from_str(&text) {
        return Ok(vec![one]);
    }
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let values = lines.map(|(index, line)| {
        serde_json::from_str(line).map_err(|error| format!("line {} of {file}: {error}", index + 1))
    });
    values.collect()
}

fn task(
    written: InstanceAsWritten,
    entry: &SwebenchEntry,
    (folder, source): (&Utf8Path, Arc<Source>),
    tests: &NamedTests,
) -> Result<Task, String> {
    if let Some(problem) = revision_problem(&written.base_commit) {
        return Err(format!("invalid `base_commit`: {problem}"));
    }
    let evaluator = evaluator(entry, tests);
    let files = files(&written, entry, folder)?;
    let is_repo = matches!(files, Files::Repo(_));
    let minutes = entry.time_limit_minutes.unwrap_or(TIME_LIMIT_MINUTES);
    let timeout = Duration::try_from_secs_f64(minutes * 60.0).map_err(|it| it.to_string())?;
    let install = entry.install_cmd.as_ref().filter(|_| is_repo);
    let patch = written.patch.filter(|patch| !patch.trim().is_empty());
    Ok(Task {
        name: written.instance_id.clone(),
        description: format!("{} at {}", written.repo, written.base_commit),
        kind: TaskKind::Instance,
        category: entry.category.clone().or(Some(written.repo.clone())),
        aliases: vec![written.instance_id],
        notes: Vec::new(),
        unset: Vec::new(),
        asks: Asks::Prompt(PromptSource::Text(format!(
            "{PROMPT}{}\n",
            written.problem_statement.trim()
        ))),
        reference: patch.map(|patch| Reference::PatchText(with_newline(&patch).into())),
        limits: TaskLimits {
            timeout: Some(timeout),
            tells_deadline: false,
            idle_timeout: None,
            progress: ProgressLimits::default(),
            output: OutputLimits::default(),
        },
        files,
        steps: None,
        tools: TaskTools::default(),
        install: install.map(|command| Arc::new(install_of(command))),
        evaluators: vec![evaluator].into(),
        patterns: Vec::new(),
        hooks: Hooks::default(),
        run_folder: RunFolder::default(),
        folder: folder.to_owned(),
        config_hash: source.hash(),
        source,
    })
}

fn install_of(command: &str) -> Install {
    Install {
        command: command.to_owned(),
        timeout: COMMAND_TIMEOUT,
        is_optional: false,
    }
}

/// Some sets cut the last newline of a patch, without which git refuses it.
fn with_newline(patch: &str) -> String {
    let end = if patch.ends_with('\n') { "" } else { "\n" };
    format!("{patch}{end}")
}

/// The named tests of an instance, and their command.
fn named_tests(written: &InstanceAsWritten, entry: &SwebenchEntry) -> Result<NamedTests, String> {
    if written.fail_to_pass.0.is_empty() {
        return Err("`FAIL_TO_PASS` is empty, so that every work would pass".to_owned());
    }
    let usual = match entry.repos {
        Some(_) => PYTEST.to_owned(),
        None => format!("{ACTIVATE}{PYTEST}"),
    };
    let line = entry.test_cmd.as_ref().or(written.test_cmd.as_ref());
    let names = [&written.fail_to_pass.0, &written.pass_to_pass.0];
    let patch = written.test_patch.as_deref().unwrap_or_default();
    Ok(NamedTests {
        line: fill(line.unwrap_or(&usual), written),
        names: names.into_iter().flatten().cloned().collect(),
        patch: with_newline(patch).into(),
    })
}

/// The evaluator: all named tests must pass.
fn evaluator(entry: &SwebenchEntry, tests: &NamedTests) -> Evaluator {
    let install = entry.install_cmd.as_deref().map(install_of);
    Evaluator::of_repo_command(
        "tests",
        &RepoCommand {
            line: &tests.line,
            timeout: COMMAND_TIMEOUT,
            install: install.as_ref(),
            build: None,
            hidden_tests: if tests.patch.trim().is_empty() {
                HiddenTests::None
            } else {
                HiddenTests::Patch(&tests.patch)
            },
            inline_tests: &[],
            counted_tests: &tests.names,
            image: None,
            weight: 1.0,
            judges_by: JudgesBy::AllTests(Protect::tests()),
        },
    )
}

/// The repository: a checkout, or a folder of the image.
fn files(
    written: &InstanceAsWritten,
    entry: &SwebenchEntry,
    folder: &Utf8Path,
) -> Result<Files, String> {
    if let Some(template) = &entry.repos {
        let place = filled("repos", template, written)?;
        let repo = Repo::parse(&place, folder);
        return Ok(Files::Repo(Checkout {
            repo: repo.map_err(|problem| format!("invalid `repos`: {problem}"))?,
            branch: None,
            commit: Some(written.base_commit.clone()),
            history: History::None,
        }));
    }
    let own = written.image_name.as_ref().filter(|it| !it.is_empty());
    let image = match (&entry.image, own) {
        (Some(template), _) => filled("image", template, written)?,
        (None, Some(own)) => own.clone(),
        (None, None) => fill(IMAGE, written),
    };
    let workdir = entry.workdir.as_deref().unwrap_or(WORKDIR);
    let hint = format!(
        "{NEEDS_DOCKER}; or write a suite with `swebench` and `repos`, a local copy of the repository"
    );
    let needs_image = Fault::new(
        Span::default(),
        "the repository is in the image of the instance",
    );
    Ok(Files::Image(Box::new(Environment {
        image: Image::Named(image),
        build_timeout: COMMAND_TIMEOUT,
        cpus: None,
        memory_mb: None,
        storage_mb: None,
        pids: None,
        workdir: Some(Utf8PathBuf::from(workdir)),
        env: BTreeMap::new(),
        user: None,
        // The fix of an issue is public.
        network: Some(Network::Gateway),
        healthcheck: None,
        compose: None,
        local: Err(ConfigError::whole(folder, needs_image.with_hint(hint))),
    })))
}

/// A template without other placeholders.
fn filled(key: &str, template: &str, written: &InstanceAsWritten) -> Result<String, String> {
    let text = fill(template, written);
    if text.contains(['{', '}']) {
        return Err(format!(
            "unknown placeholder in `{key}`: {text}; known are {{id}}, {{image_id}}, {{repo}}, {{owner}}, {{name}}, {{base_commit}} and {{version}}"
        ));
    }
    Ok(text)
}

/// Replaces the placeholders of a template.
fn fill(template: &str, written: &InstanceAsWritten) -> String {
    let (owner, name) = written.repo.split_once('/').unwrap_or(("", &written.repo));
    let version = match &written.version {
        Value::String(version) => version.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let id = &written.instance_id;
    let image_id = id.replace("__", "_1776_").to_lowercase();
    let values = [
        ("{id}", id.as_str()),
        ("{image_id}", &image_id),
        ("{repo}", &written.repo),
        ("{owner}", owner),
        ("{name}", name),
        ("{base_commit}", &written.base_commit),
        ("{version}", &version),
        ("{test_files}", &test_files(written)),
    ];
    let mut text = template.to_owned();
    for (key, value) in values {
        text = text.replace(key, value);
    }
    text
}

/// The tests of the test patch, quoted for a shell.
fn test_files(written: &InstanceAsWritten) -> String {
    let patch = written.test_patch.as_deref().unwrap_or_default();
    let is_test = |path: &&str| {
        let extension = Utf8Path::new(path).extension();
        extension.is_some_and(|extension| !NOT_TESTS.contains(&extension))
    };
    shell_words::join(patched_files(patch).filter(is_test))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/tests/test_x.py b/tests/test_x.py\n--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/tests/d.json b/tests/d.json\n--- /dev/null\n+++ b/tests/d.json\n";

    fn instance() -> Value {
        serde_json::json!({
            "instance_id": "Owner__name-12", "repo": "owner/name", "base_commit": "abc",
            "problem_statement": "It fails.", "hints_text": "", "version": "1.2",
            "patch": "p", "test_patch": PATCH,
            "FAIL_TO_PASS": "[\"tests/test_x.py::test_a\"]", "PASS_TO_PASS": ["b"],
            "environment_setup_commit": "def", "created_at": 1,
        })
    }

    fn entry(repos: Option<&str>) -> SwebenchEntry {
        SwebenchEntry {
            swebench: "x.jsonl".to_owned(),
            image: None,
            workdir: None,
            repos: repos.map(str::to_owned),
            install_cmd: None,
            test_cmd: None,
            time_limit_minutes: None,
            category: None,
            include: None,
            exclude: None,
            limit: None,
            sample_seed: None,
        }
    }

    fn read_text(text: &str, entry: &SwebenchEntry) -> Result<Vec<Instance>, String> {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap();
        std::fs::create_dir(folder.join("name")).unwrap();
        let file = folder.join("x.jsonl");
        std::fs::write(&file, text).unwrap();
        read(&file, entry, folder)
    }

    fn only(text: &str, entry: &SwebenchEntry) -> Result<Task, String> {
        let mut found = read_text(text, entry)?;
        assert_eq!(found.len(), 1);
        found.remove(0).task.map_err(|error| error.to_string())
    }

    #[test]
    fn array_lines_and_one_object_are_read() {
        let one = instance().to_string();
        let pretty = serde_json::to_string_pretty(&instance()).unwrap();
        for (text, count) in [
            (format!("[{one}, {one}]"), 2),
            (format!("{one}\n\n{one}\n"), 2),
            (pretty, 1),
        ] {
            assert_eq!(read_text(&text, &entry(None)).unwrap().len(), count);
        }
        let error = read_text(&format!("{one}\n{{\n"), &entry(None))
            .err()
            .unwrap();
        assert!(error.starts_with("line 2 of "), "{error}");
        let error = read_text("[]", &entry(None)).err().unwrap();
        assert!(error.ends_with("has no instances"), "{error}");
    }

    #[test]
    fn instance_has_the_public_image_and_its_repository() {
        let task = only(&instance().to_string(), &entry(None)).unwrap();
        let environment = task.environment().unwrap();
        let expected = "swebench/sweb.eval.x86_64.owner_1776_name-12:latest";
        assert_eq!(environment.image, Image::Named(expected.to_owned()));
        assert_eq!(environment.workdir.as_deref(), Some("/testbed".into()));
        assert_eq!(environment.network, Some(Network::Gateway));
        assert_eq!(task.category.as_deref(), Some("owner/name"));
        assert!(task.needs_container().is_some());
        assert_eq!(task.reference, Some(Reference::PatchText("p\n".into())));
    }

    #[test]
    fn own_image_comes_before_the_public_one_and_a_template_before_both() {
        let mut value = instance();
        value["docker_image"] = "own:1".into();
        let image = |task: &Task| task.environment().unwrap().image.clone();
        let task = only(&value.to_string(), &entry(None)).unwrap();
        assert_eq!(image(&task), Image::Named("own:1".to_owned()));
        let mut entry = entry(None);
        entry.image = Some("images/{owner}.{name}:{version}-{base_commit}-{id}".to_owned());
        let task = only(&value.to_string(), &entry).unwrap();
        let expected = "images/owner.name:1.2-abc-Owner__name-12";
        assert_eq!(image(&task), Image::Named(expected.to_owned()));
        entry.image = Some("images/{ident}".to_owned());
        let error = only(&value.to_string(), &entry).unwrap_err();
        assert!(error.contains("unknown placeholder in `image`"), "{error}");
    }

    #[test]
    fn repository_on_this_machine_needs_no_container() {
        let task = only(&instance().to_string(), &entry(Some("{name}"))).unwrap();
        assert!(task.needs_container().is_none());
        let Files::Repo(checkout) = &task.files else {
            panic!("{:?}", task.files);
        };
        assert_eq!(checkout.revision(), Some("abc"));
        assert!(task.kind.is_foreign());
    }

    #[test]
    fn invalid_instance_does_not_affect_others() {
        let good = instance().to_string();
        for (key, value, message) in [
            ("FAIL_TO_PASS", Value::from("['a']"), "JSON list"),
            ("FAIL_TO_PASS", serde_json::json!([]), "is empty"),
            ("base_commit", Value::from("--x"), "invalid `base_commit`"),
            ("repo", Value::Null, "expected a string"),
        ] {
            let mut bad = instance();
            bad[key] = value;
            let found = read_text(&format!("{bad}\n{good}"), &entry(None)).unwrap();
            let error = found[0].task.as_ref().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(found[1].task.is_ok());
        }
    }

    #[test]
    fn settings_without_effect_are_refused() {
        let one = instance().to_string();
        let with = |change: fn(&mut SwebenchEntry)| {
            let mut entry = entry(Some("{name}"));
            change(&mut entry);
            read_text(&one, &entry).err().unwrap()
        };
        assert!(with(|it| it.image = Some("x".to_owned())).contains("remove `image`"));
        let error = with(|it| {
            it.repos = None;
            it.install_cmd = Some("true".to_owned());
        });
        assert!(error.contains("`install_cmd` has no effect"), "{error}");
        let error = with(|it| it.time_limit_minutes = Some(0.0));
        assert!(error.contains("`time_limit_minutes`"), "{error}");
    }

    #[test]
    fn command_names_the_tests_of_the_patch() {
        let written: InstanceAsWritten = serde_json::from_value(instance()).unwrap();
        assert_eq!(
            fill("run {test_files} ${X} {x}", &written),
            "run tests/test_x.py ${X} {x}"
        );
    }
}
