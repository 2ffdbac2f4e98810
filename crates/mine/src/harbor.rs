//! Tasks as directories in Harbor's format. They need no Proctor: their own script judges the files
//! of the agent in a separate container.

use std::fmt::Write;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::task::judge_script::{JudgePlace, JudgeScript, quoted};
use proctor_record::fs::dir;
use proctor_sandbox::git::{Git, GitError};
use serde_json::json;

use crate::{
    detect::{TestCommand, unescaped},
    error::MineError,
    ledger::MinedTask,
    trees::{TreeStore, Trees},
};

/// The directory of the tasks in the output directory.
pub(crate) const TASKS_DIR: &str = "tasks";

/// The time limit of agents.
pub(crate) const MINUTES: u32 = 30;

/// The script of the reference solution.
const SOLUTION_SCRIPT: &str = include_str!("harbor/solve.sh");

/// Directories that are never a part of the work.
const PRUNED: [&str; 4] = [".git", "__pycache__", ".venv", "venv"];

/// A commit of git in the agent's container, if the image has git.
const COMMIT: &str = "RUN if command -v git >/dev/null; then git init -q && git add -A -f && git -c user.name=Task -c user.email=task@localhost commit -q -m 'Starting point'; fi\n";

/// A task to write.
pub(crate) struct NewTask<'a> {
    pub(crate) task: &'a MinedTask,
    pub(crate) commit: &'a str,
    pub(crate) trees: &'a Trees,
    pub(crate) command: &'a TestCommand,
}

/// The directories of tasks.
pub(crate) struct TaskFolders {
    pub(crate) out: Utf8PathBuf,
    /// The image that the environment and the verifier start from.
    pub(crate) image: String,
}

impl TaskFolders {
    pub(crate) fn path(&self, id: &str) -> Utf8PathBuf {
        self.out.join(TASKS_DIR).join(id)
    }

    /// Removes the directory of a task.
    pub(crate) fn remove(&self, id: &str) -> Result<(), MineError> {
        let path = self.path(id);
        if path.exists() {
            dir::remove(&path)?;
        }
        Ok(())
    }

    /// Writes the directory of a task. An earlier one is replaced.
    pub(crate) async fn add(&self, new: &NewTask<'_>, store: &TreeStore) -> Result<(), MineError> {
        self.remove(&new.task.id)?;
        let folder = self.path(&new.task.id);
        for name in ["environment", "tests", "solution"] {
            fs_err::create_dir_all(folder.join(name))?;
        }
        self.write_manifest(new)?;
        fs_err::write(folder.join("instruction.md"), &new.task.prompt)?;
        let install = new.command.install_cmd.as_deref().map(unescaped);
        for (name, workdir) in [("environment", "/app"), ("tests", "/judge")] {
            let text = dockerfile(&self.image, workdir, install.as_deref());
            fs_err::write(folder.join(name).join("Dockerfile"), text)?;
        }
        let trees = new.trees;
        store
            .archive(&trees.base, &[], &folder.join("environment/repo.tar"))
            .await?;
        store
            .archive(&trees.with_tests, &[], &folder.join("tests/repo.tar"))
            .await?;
        let changes = changes(&store.git, &trees.base, &trees.solution).await?;
        write_solution(&changes, new, store, &folder.join("solution")).await?;
        let base = paths(&store.git, &trees.base).await?;
        write_tests(&changes, new, &base, &folder.join("tests"))
    }

    /// Writes `task.toml`. Its figures are complete when the strength is known.
    pub(crate) fn write_manifest(&self, new: &NewTask<'_>) -> Result<(), MineError> {
        let path = self.path(&new.task.id).join("task.toml");
        fs_err::write(path, manifest(new))?;
        Ok(())
    }
}

/// `task.toml`. JSON strings are valid in TOML.
fn manifest(new: &NewTask<'_>) -> String {
    let MinedTask {
        id,
        prompt_tier,
        source_files,
        source_lines,
        cutoff,
        fail_to_pass,
        pass_to_pass,
        strength,
        ..
    } = new.task;
    let exclude = json!(excluded(new));
    let seconds = MINUTES * 60;
    let fail_to_pass = fail_to_pass.len();
    let pass_to_pass = pass_to_pass.len();
    format!(
        r#"schema_version = "1.4"
artifacts = [{{ source = "/app", exclude = {exclude} }}]

[task]
name = {name}

[metadata]
source_commit = {commit}
cutoff = {cutoff}
prompt_tier = {tier}
source_files = {source_files}
source_lines = {source_lines}
fail_to_pass = {fail_to_pass}
pass_to_pass = {pass_to_pass}
strength = {{ hunks = {hunks}, undone = {undone}, noticed = {noticed} }}

[agent]
timeout_sec = {seconds}.0

[verifier]
environment_mode = "separate"
network_mode = "no-network"
timeout_sec = 900.0

[environment]
build_timeout_sec = 1200.0
workdir = "/app"
"#,
        name = json!(format!("mined/{id}")),
        commit = json!(new.commit),
        cutoff = json!(cutoff),
        tier = json!(prompt_tier),
        hunks = strength.hunks,
        undone = strength.undone,
        noticed = strength.noticed,
    )
}

/// The directories that are not collected from the agent's container.
fn excluded(new: &NewTask<'_>) -> Vec<&'static str> {
    let install = new.command.install_cmd.as_deref().unwrap_or_default();
    let installed = [("npm ", "node_modules"), ("composer ", "vendor")];
    let installed = installed.iter().filter(|(tool, _)| install.contains(tool));
    let installed = installed.map(|(_, folder)| *folder);
    PRUNED.into_iter().chain(installed).collect()
}

/// The image of the agent, or of the verifier: the repository in `workdir`, prepared for the tests.
fn dockerfile(image: &str, workdir: &str, install: Option<&str>) -> String {
    let mut text = format!("FROM {image}\nUSER root\nWORKDIR {workdir}\nADD repo.tar {workdir}/\n");
    if workdir == "/app" {
        text.push_str(COMMIT);
    }
    if let Some(install) = install {
        let _ = writeln!(text, "RUN {install}");
    }
    if workdir != "/app" {
        text.push_str("COPY . /tests\n");
    }
    text
}

/// A path that the solution writes or removes.
struct SolutionChange {
    path: String,
    is_removed: bool,
}

async fn changes(git: &Git, base: &str, solution: &str) -> Result<Vec<SolutionChange>, MineError> {
    let diff = ["diff-tree", "-r", "-z", "--no-renames", "--name-status"];
    let bytes = git.run(diff.into_iter().chain([base, solution])).await?;
    let text = String::from_utf8_lossy(&bytes);
    let mut fields = text.split_terminator('\0');
    let mut found = Vec::new();
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        found.push(SolutionChange {
            path: path.to_owned(),
            is_removed: status == "D",
        });
    }
    Ok(found)
}

/// The paths of a tree.
async fn paths(git: &Git, tree: &str) -> Result<Vec<String>, GitError> {
    let list = git
        .run(["ls-tree", "-r", "-z", "--name-only", tree])
        .await?;
    let list = String::from_utf8_lossy(&list).into_owned();
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

async fn write_solution(
    changes: &[SolutionChange],
    new: &NewTask<'_>,
    store: &TreeStore,
    folder: &Utf8Path,
) -> Result<(), MineError> {
    let removed = changes.iter().filter(|change| change.is_removed);
    let removed = removed.map(|change| ["rm -f -- ", &quoted(&change.path), "\n"].concat());
    let removed: String = removed.collect();
    let written = changes.iter().filter(|change| !change.is_removed);
    let written: Vec<&str> = written.map(|change| change.path.as_str()).collect();
    let script = match written.as_slice() {
        [] => SOLUTION_SCRIPT.replace("@EXTRACT@\n", ""),
        paths => {
            let solution = &new.trees.solution;
            store
                .archive(solution, paths, &folder.join("files.tar"))
                .await?;
            SOLUTION_SCRIPT.replace("@EXTRACT@", "tar -xf /solution/files.tar")
        }
    };
    let patch = store.diff(&new.trees.base, &new.trees.solution).await?;
    fs_err::write(folder.join("solution.patch"), patch)?;
    fs_err::write(
        folder.join("solve.sh"),
        script.replace("@REMOVE@\n", &removed),
    )?;
    Ok(())
}

/// The scripts of the verifier, and their lists.
fn write_tests(
    changes: &[SolutionChange],
    new: &NewTask<'_>,
    base: &[String],
    folder: &Utf8Path,
) -> Result<(), MineError> {
    let solution: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    let script = JudgeScript {
        files: "/app",
        place: JudgePlace::Beside { base },
        excluded: &excluded(new),
        solution: &solution,
        hidden: &[],
        command: &unescaped(&new.command.test_cmd),
        expected: &[new.task.fail_to_pass.as_slice(), &new.task.pass_to_pass].concat(),
    };
    script.write(folder)?;
    Ok(())
}
