//! An instance in the format of SWE-bench. Its tests run in a fresh container of its image, with
//! the agent's files at their place.

use camino::Utf8Path;
use proctor_document::ConfigError;
use serde_json::json;

use super::{
    super::{
        Task,
        judge_script::{JudgePlace, JudgeScript, quoted},
        swebench::{COMMAND_TIMEOUT, Instance, NamedTests},
    },
    files::{write_manifest, write_prompt, write_script},
    whole,
};
use crate::{config::Reference, evaluate::patched_files, workspace::Image};

/// Directories that are not a part of the work. The tests have a git directory of their own.
const EXCLUDED: [&str; 2] = [".git", "__pycache__"];

/// Writes the task of an instance. Returns notes.
pub(super) fn write(instance: &Instance, folder: &Utf8Path) -> Result<Vec<String>, ConfigError> {
    let task = instance.task.as_ref().map_err(Clone::clone)?;
    let environment = task.environment().zip(instance.tests.as_ref());
    let Some((environment, tests)) = environment else {
        return Err(whole(folder, "the instance has no image".to_owned()));
    };
    let Image::Named(image) = &environment.image else {
        return Err(whole(folder, "the instance has no image".to_owned()));
    };
    let workdir = environment.workdir.as_deref().unwrap_or("/testbed".into());
    let write = || {
        fs_err::create_dir_all(folder.join("tests"))?;
        fs_err::create_dir_all(folder.join("environment"))?;
        write_prompt(task, folder)?;
        manifest(task, (image, workdir), folder)?;
        let solution = match &task.reference {
            Some(Reference::PatchText(patch)) => patch,
            _ => "",
        };
        write_tests(tests, solution, (image, workdir), &folder.join("tests"))?;
        if solution.is_empty() {
            return Ok(());
        }
        let script = format!(
            "#!/bin/sh\nset -e\ncd {}\ngit apply --whitespace=nowarn \"$(dirname \"$0\")/solution.patch\"\n",
            quoted(workdir.as_str())
        );
        write_script(&folder.join("solution/solve.sh"), &script)?;
        fs_err::write(folder.join("solution/solution.patch"), solution)
    };
    let written: std::io::Result<()> = write();
    written.map_err(|error| whole(folder, format!("cannot write the task: {error}")))?;
    Ok(Vec::new())
}

fn manifest(
    task: &Task,
    (image, workdir): (&str, &Utf8Path),
    folder: &Utf8Path,
) -> std::io::Result<()> {
    let artifact = json!([{"source": workdir, "exclude": EXCLUDED}]);
    let timeout = task.limits.timeout.map(|limit| limit.as_secs_f64());
    write_manifest(
        folder,
        &[
            (
                "",
                vec![("schema_version", json!("1.4")), ("artifacts", artifact)],
            ),
            (
                "metadata",
                vec![
                    ("category", json!(task.category)),
                    ("imported_from", json!("swe-bench")),
                ],
            ),
            ("agent", vec![("timeout_sec", json!(timeout))]),
            (
                "verifier",
                vec![
                    ("environment_mode", json!("separate")),
                    ("network_mode", json!("no-network")),
                    ("timeout_sec", json!(COMMAND_TIMEOUT.as_secs_f64())),
                ],
            ),
            (
                "environment",
                vec![
                    ("docker_image", json!(image)),
                    ("workdir", json!(workdir)),
                    // No host but that of the model: the fix of an issue is public.
                    ("network_mode", json!("allowlist")),
                ],
            ),
        ],
    )
}

/// Writes the image of the verifier, and its scripts.
fn write_tests(
    tests: &NamedTests,
    solution: &str,
    (image, workdir): (&str, &Utf8Path),
    folder: &Utf8Path,
) -> std::io::Result<()> {
    let hidden: Vec<&str> = patched_files(&tests.patch).collect();
    let changed: Vec<&str> = patched_files(solution).collect();
    let script = JudgeScript {
        files: workdir.as_str(),
        place: JudgePlace::Same,
        excluded: &EXCLUDED,
        solution: &changed,
        hidden: &hidden,
        command: &tests.line,
        expected: &tests.names,
    };
    script.write(folder)?;
    let mut apply = "";
    if !tests.patch.trim().is_empty() {
        fs_err::write(folder.join("test.patch"), tests.patch.as_bytes())?;
        apply = " && git apply --whitespace=nowarn /tests/test.patch";
    }
    let dockerfile = format!(
        "FROM {image}\nUSER root\nCOPY . /tests\nRUN cp -a {workdir} /judge && chown -R 0:0 /judge && cd /judge && git -c core.quotePath=false ls-files > /base-files{apply} && cd / && rm -rf {workdir}\nWORKDIR /\n"
    );
    fs_err::write(folder.join("Dockerfile"), dockerfile)
}
