//! The subject of an ablation: its parts, and an agent's settings with some of them.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::{MarkdownUnit, SplitText};
use proctor_harness::config::FileContent;
use proctor_report::experiment::AblatedPart;
use serde_json::{Map, Value, json};

use crate::{
    args::{AblateArgs, PartArg},
    commands::ab::{Places, literal, place_of},
    error::CliError,
};

/// The file of a skill.
const SKILL_FILE: &str = "SKILL.md";
/// The servers in a configuration of MCP.
const SERVERS: &str = "mcpServers";
/// The folder for configurations with some of the servers, beside the suite.
const SERVERS_FOLDER: &str = "results/ablation";

/// A file, folder or configuration with removable parts.
pub(super) struct Subject {
    pub(super) parts: Vec<AblatedPart>,
    kind: SubjectKind,
}

enum SubjectKind {
    /// A text at this path of the workspace.
    Text(String, SplitText),
    /// Files by their paths in the workspace, with their sources.
    Files(Vec<(String, Value)>),
    /// Folders of skills, and those of the agent that are always there.
    Skills(Vec<Value>, Vec<Value>),
    /// A configuration of MCP, and the suite's folder.
    Servers(Value, Utf8PathBuf),
}

impl Subject {
    pub(super) fn read(
        args: &AblateArgs,
        places: &Places<'_>,
        agent: &Value,
    ) -> Result<Subject, CliError> {
        let path = places.cwd.join(&args.file);
        let subject = if path.is_dir() {
            Subject::of_folder(args, &path, places, agent)?
        } else {
            let text = fs::read_to_string(&path).map_err(|error| {
                CliError::input(
                    format!("cannot read {}: {error}", args.file),
                    "pass a text file, a directory of files or skills, or a JSON file with `mcpServers`",
                )
            })?;
            Subject::of_file(args, &text, places)?
        };
        if subject.parts.is_empty() {
            let noun = subject.noun();
            return Err(CliError::input(
                format!("{} has no {noun}s", args.file),
                "choose other parts: `--by section`, `--by item` or `--by file`",
            ));
        }
        Ok(subject)
    }

    fn of_file(args: &AblateArgs, text: &str, places: &Places<'_>) -> Result<Subject, CliError> {
        let servers: Option<Value> = serde_json::from_str(text).ok();
        if let Some(document) = servers.filter(|it| it[SERVERS].is_object()) {
            check_whole(args, "server")?;
            let servers = document[SERVERS].as_object().into_iter().flatten();
            let parts = servers.map(|(name, _)| AblatedPart {
                name: name.clone(),
                treatment: name.clone(),
            });
            return Ok(Subject {
                parts: parts.collect(),
                kind: SubjectKind::Servers(document, places.suite.to_owned()),
            });
        }
        let place = place_of(args.place.as_deref(), &args.file);
        let unit = match args.by {
            None | Some(PartArg::Section) => MarkdownUnit::Section,
            Some(PartArg::Item) => MarkdownUnit::Item,
            Some(PartArg::File) => {
                let part = AblatedPart {
                    name: place.clone(),
                    treatment: place.clone(),
                };
                let files = vec![(place, json!({"text": literal(text)}))];
                return Ok(Subject {
                    parts: vec![part],
                    kind: SubjectKind::Files(files),
                });
            }
        };
        let split = SplitText::new(text, unit);
        let parts = split.names().iter().map(|name| AblatedPart {
            name: name.clone(),
            treatment: place.clone(),
        });
        Ok(Subject {
            parts: parts.collect(),
            kind: SubjectKind::Text(place, split),
        })
    }

    fn of_folder(
        args: &AblateArgs,
        folder: &Utf8Path,
        places: &Places<'_>,
        agent: &Value,
    ) -> Result<Subject, CliError> {
        let is_skill = |path: &Utf8Path| path.join(SKILL_FILE).is_file();
        let mut skills: Vec<Utf8PathBuf> = if is_skill(folder) {
            vec![folder.to_owned()]
        } else {
            let entries = folder.read_dir_utf8()?.flatten();
            let folders = entries.map(camino::Utf8DirEntry::into_path);
            folders.filter(|path| is_skill(path)).collect()
        };
        check_whole(args, if skills.is_empty() { "file" } else { "skill" })?;
        let source = |path: &Utf8Path| json!(literal(places.in_suite(path.as_str()).as_str()));
        if !skills.is_empty() {
            skills.sort();
            let parts = skills.iter().filter_map(|path| path.file_name());
            let parts = parts.map(|name| AblatedPart {
                name: name.to_owned(),
                treatment: name.to_owned(),
            });
            let own = agent["skills"].as_array().cloned();
            let folders = skills.iter().map(|path| source(path)).collect();
            return Ok(Subject {
                parts: parts.collect(),
                kind: SubjectKind::Skills(folders, own.unwrap_or_default()),
            });
        }
        let place = place_of(args.place.as_deref(), &args.file);
        let mut files = Vec::new();
        files_below(folder, &mut files)?;
        files.sort();
        let files = files.iter().map(|path| {
            let below = path.strip_prefix(folder).unwrap_or(path);
            (format!("{place}/{below}"), source(path))
        });
        let files: Vec<(String, Value)> = files.collect();
        let parts = files.iter().map(|(path, _)| AblatedPart {
            name: path.clone(),
            treatment: path.clone(),
        });
        Ok(Subject {
            parts: parts.collect(),
            kind: SubjectKind::Files(files),
        })
    }

    /// The only key of agents that the variants differ in.
    pub(super) fn key(&self) -> &'static str {
        match self.kind {
            SubjectKind::Text(..) | SubjectKind::Files(_) => "files",
            SubjectKind::Skills(..) => "skills",
            SubjectKind::Servers(..) => "config",
        }
    }

    /// The noun for a part.
    pub(super) fn noun(&self) -> &'static str {
        match self.kind {
            SubjectKind::Text(..) => "part",
            SubjectKind::Files(_) => "file",
            SubjectKind::Skills(..) => "skill",
            SubjectKind::Servers(..) => "server",
        }
    }

    /// The settings of an agent with these parts only.
    pub(super) fn variant(&self, has: &[bool]) -> Result<Value, CliError> {
        match &self.kind {
            SubjectKind::Text(place, split) => {
                Ok(json!({"files": {place: {"text": literal(&split.with(has))}}}))
            }
            SubjectKind::Files(files) => {
                let files = files.iter().zip(has);
                let files = files.map(|((place, source), has)| {
                    let source = if *has { source.clone() } else { Value::Null };
                    (place.clone(), source)
                });
                Ok(json!({"files": files.collect::<Map<String, Value>>()}))
            }
            SubjectKind::Skills(folders, own) => {
                let kept = folders.iter().zip(has).filter(|(_, has)| **has);
                let kept = kept.map(|(folder, _)| folder);
                Ok(json!({"skills": own.iter().chain(kept).collect::<Vec<_>>()}))
            }
            SubjectKind::Servers(document, suite) => {
                let path = write_servers(document, has, suite)?;
                Ok(json!({"config": {"mcp_config": path}}))
            }
        }
    }
}

/// Files, skills and servers are removed as a whole.
fn check_whole(args: &AblateArgs, noun: &str) -> Result<(), CliError> {
    match args.by {
        None | Some(PartArg::File) => Ok(()),
        Some(_) => Err(CliError::input(
            format!(
                "the parts of {} are {noun}s, not sections or items",
                args.file
            ),
            "remove `--by`, or use `--by file`",
        )),
    }
}

/// All files of a folder.
fn files_below(folder: &Utf8Path, found: &mut Vec<Utf8PathBuf>) -> Result<(), CliError> {
    for entry in folder.read_dir_utf8()? {
        let path = entry?.into_path();
        if path.is_dir() {
            files_below(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// Writes a configuration with some of the servers. Its name is its digest, so that a resumed run
/// finds the same file.
fn write_servers(document: &Value, has: &[bool], suite: &Utf8Path) -> Result<String, CliError> {
    let servers = document[SERVERS].as_object().into_iter().flatten();
    let kept = servers.zip(has).filter(|(_, has)| **has);
    let kept = kept.map(|((name, server), _)| (name.clone(), server.clone()));
    let mut document = document.clone();
    document[SERVERS] = kept.collect::<Map<String, Value>>().into();
    let text = format!("{document:#}\n");
    let digest = FileContent::text(&text).digest();
    let path = format!("{SERVERS_FOLDER}/{}.json", &digest[..16]);
    fs::create_dir_all(suite.join(SERVERS_FOLDER))?;
    fs::write(suite.join(&path), text)?;
    Ok(path)
}
