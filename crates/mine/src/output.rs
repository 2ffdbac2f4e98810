//! The output directory: a suite with the tasks, and a repository with their trees or a directory for
//! each task.

use std::fmt::Write;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::fs::dir;
use proctor_sandbox::{SandboxKind, git::Git, host::Host};
use serde_json::{Value, json};

use crate::{
    detect::{TestCommand, literal},
    error::MineError,
    harbor::{MINUTES, NewTask, TASKS_DIR, TaskFolders},
    ledger::{Ledger, MinedTask},
    options::{MinerOptions, TaskFormat},
    trees::{TreeStore, Trees},
};

/// The suite in the output directory.
pub const SUITE_FILE: &str = "proctor.yaml";

/// The repository of the tasks in the output directory.
const REPO_DIR: &str = "repo.git";

/// Writes tasks in their form.
pub(crate) enum TaskWriter {
    Repo(TaskRepo),
    Harbor(TaskFolders),
}

impl TaskWriter {
    pub(crate) async fn open(
        options: &MinerOptions,
        store: &TreeStore,
        host: &Host,
    ) -> Result<TaskWriter, MineError> {
        Ok(match options.format {
            TaskFormat::Repo => TaskWriter::Repo(TaskRepo::open(&options.out, store, host).await?),
            TaskFormat::Harbor => TaskWriter::Harbor(TaskFolders {
                out: options.out.clone(),
                image: options.image.clone().ok_or(MineError::NoImage)?,
            }),
        })
    }

    /// Writes a task.
    pub(crate) async fn add(&self, new: &NewTask<'_>, store: &TreeStore) -> Result<(), MineError> {
        match self {
            TaskWriter::Repo(repo) => repo.add(&new.task.id, new.trees, store).await,
            TaskWriter::Harbor(folders) => folders.add(new, store).await,
        }
    }

    /// Writes what is known only when the task has been accepted.
    pub(crate) fn complete(&self, new: &NewTask<'_>) -> Result<(), MineError> {
        match self {
            TaskWriter::Repo(_) => Ok(()),
            TaskWriter::Harbor(folders) => folders.write_manifest(new),
        }
    }

    /// Removes a task that was not accepted.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), MineError> {
        match self {
            TaskWriter::Repo(repo) => repo.remove(id).await,
            TaskWriter::Harbor(folders) => folders.remove(id),
        }
    }

    /// Releases the space of tasks that were not accepted.
    pub(crate) async fn pack(&self) -> Result<(), MineError> {
        match self {
            TaskWriter::Repo(repo) => repo.pack().await,
            TaskWriter::Harbor(_) => Ok(()),
        }
    }
}

/// The tags of a task: the starting point, the solution, and the hidden tests.
fn tags(id: &str) -> [String; 3] {
    ["base", "solution", "tests"].map(|part| format!("{id}-{part}"))
}

/// The entry of a task in a suite.
pub(crate) fn entry(task: &MinedTask, command: &TestCommand, repo: &str) -> Value {
    let [base, solution, tests] = tags(&task.id);
    let mut entry = json!({
        "id": task.id,
        "repo": repo,
        "tag": base,
        "reference_tag": solution,
        "validation_tag": tests,
        "test_cmd": command.test_cmd,
        "time_limit_minutes": MINUTES,
        "prompt": literal(&task.prompt),
        "fail_to_pass": literals(&task.fail_to_pass),
        "pass_to_pass": literals(&task.pass_to_pass),
    });
    if let Some(install) = &command.install_cmd {
        entry["install_cmd"] = json!(install);
    }
    if !task.inline_tests.is_empty() {
        entry["inline_tests"] = json!(literals(&task.inline_tests));
    }
    entry
}

fn literals(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| literal(text)).collect()
}

/// The path of the repository of the tasks.
pub(crate) fn repo_path(out: &Utf8Path) -> Utf8PathBuf {
    out.join(REPO_DIR)
}

/// The repository of the tasks.
pub(crate) struct TaskRepo {
    git: Git,
}

impl TaskRepo {
    /// Opens the repository, or creates it.
    pub(crate) async fn open(
        out: &Utf8Path,
        store: &TreeStore,
        host: &Host,
    ) -> Result<TaskRepo, MineError> {
        let path = repo_path(out);
        let git = Git::new(host, &path);
        fs_err::create_dir_all(&path)?;
        let format = ["rev-parse", "--show-object-format"];
        let format = format!("--object-format={}", store.git.line(format).await?);
        // An existing repository is not changed.
        git.run(["init", "--quiet", "--bare", &format]).await?;
        Ok(TaskRepo { git })
    }

    /// Adds the trees of a task as commits without a history.
    pub(crate) async fn add(
        &self,
        id: &str,
        trees: &Trees,
        store: &TreeStore,
    ) -> Result<(), MineError> {
        let own = TreeStore {
            git: self.git.clone(),
            path: self.git.dir().to_owned(),
        };
        let trees = [&trees.base, &trees.solution, &trees.with_tests];
        for (tag, tree) in tags(id).iter().zip(trees) {
            self.git.copy_tree_from(&store.git, tree).await?;
            let commit = own.commit(tree).await?;
            let name = format!("refs/tags/{tag}");
            self.git.run(["update-ref", &name, &commit]).await?;
        }
        Ok(())
    }

    /// Removes the tags of a task that was not accepted.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), MineError> {
        for tag in tags(id) {
            let name = format!("refs/tags/{tag}");
            self.git.run(["update-ref", "-d", &name]).await?;
        }
        Ok(())
    }

    /// Stores each object once, and none of tasks that were not accepted.
    pub(crate) async fn pack(&self) -> Result<(), MineError> {
        self.git.run(["repack", "-a", "-d", "--quiet"]).await?;
        self.git.run(["prune", "--expire=now"]).await?;
        Ok(())
    }
}

/// Writes the ledger, and the suite of all accepted tasks, if there are any.
pub(crate) fn save(ledger: &Ledger, out: &Utf8Path) -> Result<(), MineError> {
    ledger.write(out)?;
    if ledger.tasks().next().is_some() {
        let path = out.join(SUITE_FILE);
        dir::write_atomically(path.as_std_path(), ledger.suite(".").as_bytes())?;
    }
    Ok(())
}

impl Ledger {
    /// The suite of all tasks as text, for a file from which the output directory is at `out`.
    pub fn suite(&self, out: &str) -> String {
        suite(self, out)
    }
}

/// The suite as text. JSON strings are valid in YAML.
fn suite(ledger: &Ledger, out: &str) -> String {
    let mut text = String::from(
        "# Tasks from the history of a repository, made by `proctor task mine`. ledger.json has the\n# origin of each task.\nagents:\n  - type: auto\n",
    );
    if ledger.sandbox == SandboxKind::Docker {
        text.push_str("sandbox:\n  type: docker\n");
    }
    if ledger.format == TaskFormat::Harbor {
        text.push_str("network: gateway\ntasks:\n");
        for task in ledger.tasks() {
            let folder = json!(format!("{out}/{TASKS_DIR}/{}", task.id));
            let _ = writeln!(text, "  - folder: {folder}");
        }
        return text;
    }
    if let Some(image) = &ledger.image {
        let _ = writeln!(text, "  image: {}", json!(image));
    }
    text.push_str("tasks:\n");
    for task in ledger.tasks() {
        let entry = entry(task, &ledger.command, &format!("{out}/{REPO_DIR}"));
        let keys = [
            "id",
            "repo",
            "tag",
            "reference_tag",
            "validation_tag",
            "install_cmd",
            "test_cmd",
            "time_limit_minutes",
            "prompt",
            "inline_tests",
            "fail_to_pass",
            "pass_to_pass",
        ];
        let mut start = "  - ";
        for key in keys {
            let Some(value) = entry.get(key) else {
                continue;
            };
            let _ = write!(text, "{start}{key}:");
            write_value(&mut text, value);
            start = "    ";
        }
    }
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Array(items) if items.is_empty() => text.push_str(" []\n"),
        Value::Array(items) => {
            text.push('\n');
            for item in items {
                let _ = writeln!(text, "      - {item}");
            }
        }
        Value::String(lines) if is_block(lines) => {
            text.push_str(" |\n");
            for line in lines.lines() {
                let indent = if line.is_empty() { "" } else { "      " };
                let _ = writeln!(text, "{indent}{line}");
            }
        }
        other => {
            let _ = writeln!(text, " {other}");
        }
    }
}

/// Whether a text is the same as a literal block of YAML.
fn is_block(text: &str) -> bool {
    let is_plain = |letter: char| letter == '\n' || !letter.is_control();
    let is_ended = text.ends_with('\n') && !text.ends_with("\n\n");
    is_ended && !text.starts_with([' ', '\n']) && text.chars().all(is_plain)
}
