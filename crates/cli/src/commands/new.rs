//! `proctor task new`: writes a task template. The template is valid; `proctor task check` reports
//! the parts to fill in.

use fs_err as fs;

use crate::{
    args::{NewArgs, NewKind},
    error::{CliError, Exit},
    platform, ui,
};

/// A file of a template: its path and its text.
type TemplateFile = (&'static str, &'static str);

const FOLDER: [TemplateFile; 6] = [
    (
        "task.toml",
        include_str!("../../templates/folder/task.toml"),
    ),
    (
        "instruction.md",
        include_str!("../../templates/folder/instruction.md"),
    ),
    (
        "environment/Dockerfile",
        include_str!("../../templates/folder/Dockerfile"),
    ),
    (
        "environment/files/readme.txt",
        include_str!("../../templates/folder/readme.txt"),
    ),
    (
        "tests/test.sh",
        include_str!("../../templates/folder/test.sh"),
    ),
    (
        "solution/solve.sh",
        include_str!("../../templates/folder/solve.sh"),
    ),
];

const REPO: [TemplateFile; 2] = [
    (
        "proctor.yaml",
        include_str!("../../templates/repo/proctor.yaml"),
    ),
    (
        "make-repo.sh",
        include_str!("../../templates/repo/make-repo.sh"),
    ),
];

const TESTCASE: [TemplateFile; 3] = [
    (
        "testcase.yaml",
        include_str!("../../templates/testcase/testcase.yaml"),
    ),
    ("solution.patch", ""),
    (
        "repo/readme.txt",
        include_str!("../../templates/folder/readme.txt"),
    ),
];

pub fn new(args: &NewArgs) -> Result<Exit, CliError> {
    let folder = &args.name;
    if folder.exists() {
        return Err(CliError::DirectoryExists {
            path: folder.clone(),
        });
    }
    let name = folder.file_name().unwrap_or("task");
    let (files, next): (&[TemplateFile], String) = match args.kind {
        NewKind::Folder => (&FOLDER, format!("proctor task check {folder}")),
        NewKind::Testcase => (&TESTCASE, format!("proctor task check {folder}")),
        NewKind::Repo => (
            &REPO,
            format!("sh {folder}/make-repo.sh && proctor task check {folder}/proctor.yaml"),
        ),
    };
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text.replace("@NAME@", name))?;
        if path.extension() == Some("sh") {
            platform::make_executable(&path)?;
        }
    }
    ui::print(&format!("wrote {folder}; check it with: {next}\n"))?;
    Ok(Exit::Success)
}
