//! A task of Terminal-Bench 1. Its tests run in the agent's container, and the same script reads
//! their summary as in a direct run.

use std::{collections::BTreeMap, path::Path};

use camino::Utf8Path;
use proctor_document::ConfigError;
use proctor_record::fs::dir;
use serde_json::json;

use super::{
    super::{Task, find::TERMINAL_BENCH_FILE, terminal_bench},
    files::{write_manifest, write_prompt, write_script},
    whole,
};
use crate::{
    config::{Reference, Settings},
    evaluate::{Verifier, lay_out_tests},
    workspace::{Environment, Image, compose::compose_file},
};

/// Files of a task that are a part of the build context only if the Dockerfile names them.
const OWN_FILES: [&str; 5] = [
    TERMINAL_BENCH_FILE,
    "run-tests.sh",
    "tests",
    "solution.sh",
    "solution.yaml",
];

/// Writes the task of the folder `source`. Returns notes.
pub(super) fn write(
    source: &Utf8Path,
    folder: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Vec<String>, ConfigError> {
    let task = terminal_bench::load(source, env, settings)?;
    let parts = task.environment().zip(task.verifier());
    let (environment, verifier) = parts.ok_or_else(|| whole(source, "no tests".to_owned()))?;
    if environment.compose.is_some() {
        let message = "its compose file has several services, or settings of the container; \
                       `proctor run` reads the directory directly";
        return Err(whole(source, message.to_owned()));
    }
    let is_open = |value: &String| value.contains('$');
    if let Some((name, _)) = environment.env.iter().find(|(_, value)| is_open(value)) {
        let message = format!("the variable `{name}` of the service depends on other variables");
        return Err(whole(source, message));
    }
    let unwritten =
        |error: std::io::Error| whole(source, format!("cannot write the task: {error}"));
    fs_err::create_dir_all(folder).map_err(unwritten)?;
    write_environment(&environment.image, source, folder)?;
    write_prompt(&task, folder)
        .and_then(|()| write_manifest_of(&task, (environment, verifier), folder))
        .and_then(|()| lay_out_tests(verifier, &folder.join("tests")))
        .map_err(unwritten)?;
    if let Some(Reference::Script(solution)) = &task.reference {
        let text = solution.script.as_deref().unwrap_or_default();
        write_script(&folder.join("solution/solve.sh"), text).map_err(unwritten)?;
    }
    Ok(task.notes)
}

fn write_manifest_of(
    task: &Task,
    (environment, verifier): (&Environment, &Verifier),
    folder: &Utf8Path,
) -> std::io::Result<()> {
    let image = match &environment.image {
        Image::Named(name) => Some(name),
        Image::Build { .. } => None,
    };
    write_manifest(
        folder,
        &[
            ("", vec![("schema_version", json!("1.4"))]),
            (
                "metadata",
                vec![
                    ("category", json!(task.category)),
                    ("imported_from", json!("terminal-bench 1")),
                ],
            ),
            (
                "agent",
                vec![(
                    "timeout_sec",
                    json!(task.limits.timeout.map(|limit| limit.as_secs_f64())),
                )],
            ),
            (
                "verifier",
                vec![
                    ("environment_mode", json!("shared")),
                    ("timeout_sec", json!(verifier.timeout.as_secs_f64())),
                ],
            ),
            (
                "environment",
                vec![
                    (
                        "build_timeout_sec",
                        json!(environment.build_timeout.as_secs_f64()),
                    ),
                    ("docker_image", json!(image)),
                    ("workdir", json!(environment.workdir)),
                    ("env", json!(environment.env)),
                ],
            ),
        ],
    )
}

/// Copies the build context. A compose file in it would be read as one of Harbor.
fn write_environment(
    image: &Image,
    source: &Utf8Path,
    folder: &Utf8Path,
) -> Result<(), ConfigError> {
    let to = folder.join("environment");
    let unwritten =
        |error: std::io::Error| whole(source, format!("cannot copy the build context: {error}"));
    fs_err::create_dir_all(&to).map_err(unwritten)?;
    let Image::Build {
        context,
        dockerfile,
        ..
    } = image
    else {
        return Ok(());
    };
    let [full, task, target] =
        [context.as_path(), source, to.as_path()].map(Utf8Path::canonicalize_utf8);
    let (full, task) = (full.map_err(unwritten)?, task.map_err(unwritten)?);
    if task != full && task.starts_with(&full) {
        let message = format!("the build context {context} contains more than the task");
        return Err(whole(source, message));
    }
    if target.map_err(unwritten)?.starts_with(&full) {
        let message = "the output directory is in the build context of the task";
        return Err(whole(source, message.to_owned()));
    }
    let text = fs_err::read_to_string(dockerfile).map_err(unwritten)?;
    let is_own = |path: &Path| {
        let below = path.strip_prefix(context).unwrap_or(path).to_str();
        let own = OWN_FILES.iter().find(|own| below == Some(**own));
        task == full && own.is_some_and(|own| !is_copied(&text, own))
    };
    dir::copy_where(context.as_std_path(), to.as_std_path(), &|path| {
        !is_own(path)
    })
    .map_err(unwritten)?;
    while let Some(compose) = compose_file(&to) {
        fs_err::remove_file(to.join(compose)).map_err(unwritten)?;
    }
    fs_err::write(to.join("Dockerfile"), text).map_err(unwritten)
}

/// Whether an instruction of a Dockerfile that copies files names `file`.
fn is_copied(dockerfile: &str, file: &str) -> bool {
    let mut lines = dockerfile.lines().map(str::trim_start);
    lines.any(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        let copies = ["COPY", "ADD"]
            .iter()
            .any(|it| word.eq_ignore_ascii_case(it));
        copies && line.contains(file)
    })
}
