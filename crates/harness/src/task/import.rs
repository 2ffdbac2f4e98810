//! Tasks of other formats, written as folders in Harbor's format: tasks of Terminal-Bench 1, and
//! instances in the format of SWE-bench. A written folder gives the same verdicts as its source.

mod files;
mod instance;
mod terminal_bench;

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Span};
use proctor_record::fs::{dir, named};
use serde_json::json;

use super::{
    find, harbor,
    swebench::{self, Instance},
};
use crate::config::{Settings, SwebenchEntry};

/// A task to import.
pub struct SourceTask {
    /// The name of its folder, or the id of its instance.
    pub name: String,
    origin: Origin,
}

enum Origin {
    Folder(Utf8PathBuf),
    Instance(Box<Instance>),
}

/// A written task.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportedTask {
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// Parts of the source that have no effect.
    pub notes: Vec<String>,
}

/// The tasks of a path: a task folder, a folder or a pattern of them, or a file of instances.
pub fn find(path: &Utf8Path) -> Result<Vec<SourceTask>, ConfigError> {
    if find::is_instances(path) {
        let instances = swebench::read(path, &entry(path), path.parent().unwrap_or(path));
        let instances = instances.map_err(|message| whole(path, message))?;
        return Ok(instances.into_iter().map(of_instance).collect());
    }
    let folders = find::task_folders(path);
    if folders.is_empty() {
        let hint = "pass a task directory of Terminal-Bench 1, a directory of them, or a JSON or JSONL file of instances of SWE-bench";
        let fault = Fault::new(Span::default(), "no tasks found").with_hint(hint);
        return Err(ConfigError::whole(path, fault));
    }
    let of_folder = |folder: Utf8PathBuf| SourceTask {
        name: named::absolute(&folder)
            .file_name()
            .unwrap_or("task")
            .to_owned(),
        origin: Origin::Folder(folder),
    };
    Ok(folders.into_iter().map(of_folder).collect())
}

/// A file of instances, without further settings.
fn entry(file: &Utf8Path) -> SwebenchEntry {
    let entry = serde_json::from_value(json!({"swebench": file}));
    entry.expect("the other keys are optional")
}

fn of_instance(instance: Instance) -> SourceTask {
    SourceTask {
        name: instance.id.clone(),
        origin: Origin::Instance(Box::new(instance)),
    }
}

impl SourceTask {
    /// Writes the task as a folder in `out`. A folder that is not valid is removed.
    pub fn write(
        &self,
        out: &Utf8Path,
        env: &BTreeMap<String, String>,
        settings: &Settings,
    ) -> Result<ImportedTask, ConfigError> {
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
        if !self.name.chars().all(is_plain) || self.name.starts_with('.') {
            let message = format!("`{}` is not a valid name of a directory", self.name);
            return Err(whole(out, message));
        }
        let folder = out.join(&self.name);
        if folder.exists() {
            let message = format!("{folder} exists: another task has the same name");
            return Err(whole(&folder, message));
        }
        let written = self.write_files(&folder, env, settings).and_then(|notes| {
            harbor::load(&folder, env, settings)?;
            Ok(notes)
        });
        match written {
            Ok(notes) => Ok(ImportedTask { folder, notes }),
            Err(error) => {
                dir::remove(&folder).map_err(|error| ConfigError::unreadable(&folder, &error))?;
                Err(error)
            }
        }
    }

    fn write_files(
        &self,
        folder: &Utf8Path,
        env: &BTreeMap<String, String>,
        settings: &Settings,
    ) -> Result<Vec<String>, ConfigError> {
        match &self.origin {
            Origin::Folder(source) if find::is_terminal_bench(source) => {
                terminal_bench::write(source, folder, env, settings)
            }
            Origin::Folder(source) => {
                let message = "the task is already in Harbor's format";
                Err(whole(source, message.to_owned()))
            }
            Origin::Instance(instance) => instance::write(instance, folder),
        }
    }
}

fn whole(path: &Utf8Path, message: String) -> ConfigError {
    ConfigError::whole(path, Fault::new(Span::default(), message))
}
