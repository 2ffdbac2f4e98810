//! The treatment of an agent in a suite: files, skills, prompt parts and a start revision that it has and other agents
//! do not have. Contents are read when the suite is read, so that all trials get the same ones.

use std::{collections::BTreeMap, fmt, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::{Fault, Node, Value};
use proctor_record::{
    fs::{hex, named},
    platform,
};
use sha2::{Digest, Sha256};

use super::repo::revision_problem;

/// The keys of a treatment in an agent's section.
pub(super) const KEYS: [&str; 6] = [
    "files",
    "skills",
    "prompt_prefix",
    "prompt_suffix",
    "prompt_template",
    "ref",
];
/// The place of the task's prompt in `prompt_template`.
const PROMPT: &str = "{prompt}";
/// The prefix of files that are read from the task's repository.
const GIT: &str = "git:";
/// The prefix of paths in the agent's HOME.
const HOME: &str = "~/";
/// The file that describes a skill.
const SKILL_FILE: &str = "SKILL.md";
/// The maximum size of a file, and the maximum number of files of a folder.
const LARGEST_FILE: u64 = 16 << 20;
const MOST_FILES: usize = 1000;

/// The files, skills, prompt parts and start revision of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// The files by their paths. A folder is listed with each of its files.
    pub files: BTreeMap<TreatmentPath, FileSource>,
    /// The skills.
    pub skills: Vec<Skill>,
    /// Additions to the prompt.
    pub prompt: PromptParts,
    /// The revision of the task's repository that the agent starts from, instead of the task's own.
    pub revision: Option<String>,
}

/// A path below one of an agent's folders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreatmentPath {
    /// The folder.
    pub root: TreatmentRoot,
    /// The path, with slashes.
    pub path: Utf8PathBuf,
}

/// A folder of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreatmentRoot {
    /// Its workspace.
    Workspace,
    /// Its HOME.
    Home,
}

impl fmt::Display for TreatmentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.root {
            TreatmentRoot::Workspace => write!(f, "{}", self.path),
            TreatmentRoot::Home => write!(f, "{HOME}{}", self.path),
        }
    }
}

impl TreatmentPath {
    /// A path in the workspace.
    pub fn in_workspace(path: impl Into<Utf8PathBuf>) -> TreatmentPath {
        TreatmentPath {
            root: TreatmentRoot::Workspace,
            path: path.into(),
        }
    }

    /// Reads a path as written: relative, without `..`, and not in a git directory.
    pub fn parse(text: &str) -> Result<TreatmentPath, String> {
        let (root, below) = match text.strip_prefix(HOME) {
            Some(below) => (TreatmentRoot::Home, below),
            None => (TreatmentRoot::Workspace, text),
        };
        named::check_written(below).map_err(|error| error.to_string())?;
        let below = below.replace('\\', "/");
        let parts = below.split('/').filter(|it| !matches!(*it, "" | "."));
        let parts: Vec<&str> = parts.collect();
        if parts.is_empty() {
            return Err("it names no file".to_owned());
        }
        if parts.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
            return Err("it is in a git directory".to_owned());
        }
        Ok(TreatmentPath {
            root,
            path: parts.join("/").into(),
        })
    }
}

/// The source of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// Known content.
    Content(FileContent),
    /// A file or folder of the task's repository at a revision.
    Git {
        /// The revision.
        revision: String,
        /// The path in the repository.
        path: Utf8PathBuf,
    },
    /// The file or folder is removed.
    Removed,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// Whether it is executable.
    pub is_executable: bool,
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileContent({})", self.digest())
    }
}

impl FileContent {
    /// A file with this text.
    pub fn text(text: &str) -> FileContent {
        FileContent {
            bytes: text.as_bytes().into(),
            is_executable: false,
        }
    }

    /// The SHA-256 of the bytes.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(&self.bytes))
    }

    fn read(path: &Utf8Path) -> Result<FileContent, String> {
        let about = fs::metadata(path).map_err(|error| error.to_string())?;
        if about.len() > LARGEST_FILE {
            return Err(format!("{path} is larger than {} MB", LARGEST_FILE >> 20));
        }
        Ok(FileContent {
            bytes: fs::read(path).map_err(|error| error.to_string())?.into(),
            is_executable: platform::mode(&about) & 0o100 != 0,
        })
    }
}

/// A skill: a folder with `SKILL.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name of its folder.
    pub name: String,
    /// Its files, relative to the folder.
    pub files: BTreeMap<Utf8PathBuf, FileContent>,
}

impl Skill {
    /// Reads the skill in a folder.
    pub fn read(folder: &Utf8Path) -> Result<Skill, String> {
        let name = folder.file_name().unwrap_or_default().to_owned();
        let files = files_below(folder)?;
        if files.contains_key(Utf8Path::new(SKILL_FILE)) {
            Ok(Skill { name, files })
        } else {
            Err(format!("it has no {SKILL_FILE}"))
        }
    }

    /// The digest of its files.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (path, content) in &self.files {
            hash.update(path.as_str());
            hash.update([0, u8::from(content.is_executable)]);
            hash.update(content.digest());
        }
        hex(&hash.finalize())
    }

    /// The name, the description and the instructions in `SKILL.md`.
    pub fn about(&self) -> (String, String, String) {
        let file = self.files.get(Utf8Path::new(SKILL_FILE));
        let text = file.map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
        let text = text.unwrap_or_default().replace("\r\n", "\n");
        let header = text.strip_prefix("---\n");
        let parts = header.and_then(|rest| rest.split_once("\n---"));
        let Some((header, body)) = parts else {
            return (self.name.clone(), String::new(), text);
        };
        let value = |key: &str| {
            let mut lines = header.lines().skip_while(|line| !line.starts_with(key));
            let first = lines.next()?.strip_prefix(key)?.trim();
            let first = first.trim_start_matches(['>', '|', '-']);
            let more = lines.take_while(|line| line.starts_with(' '));
            let all: Vec<&str> = std::iter::once(first).chain(more).map(str::trim).collect();
            Some(all.join("\n").trim().trim_matches(['"', '\'']).to_owned())
        };
        let name = value("name:").filter(|name| !name.is_empty());
        (
            name.unwrap_or_else(|| self.name.clone()),
            value("description:").unwrap_or_default(),
            body.to_owned(),
        )
    }
}

/// Additions to the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptParts {
    /// The paragraph before the prompt.
    pub prefix: Option<String>,
    /// The paragraph after the prompt.
    pub suffix: Option<String>,
    /// A text that contains the prompt as `{prompt}`.
    pub template: Option<String>,
}

impl PromptParts {
    /// The prompt with the additions.
    pub fn apply(&self, prompt: &str) -> String {
        let prompt = match &self.template {
            Some(template) => template.replace(PROMPT, prompt),
            None => prompt.to_owned(),
        };
        let parts = [
            self.prefix.as_deref(),
            Some(&prompt),
            self.suffix.as_deref(),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        parts.join("\n\n")
    }

    /// The texts that are not the task's, by key.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let all = [
            ("prompt_prefix", &self.prefix),
            ("prompt_suffix", &self.suffix),
            ("prompt_template", &self.template),
        ];
        all.into_iter()
            .filter_map(|(key, text)| Some((key, text.as_ref()?)))
    }
}

impl Treatment {
    /// Whether the agent gets nothing of its own.
    pub fn is_empty(&self) -> bool {
        *self == Treatment::default()
    }

    /// Takes the keys of a treatment out of an agent's section. Paths start from `folder`.
    pub(super) fn take(section: &mut Node, folder: &Utf8Path) -> Result<Treatment, Vec<Fault>> {
        let mut own = Node::empty_map(section.span);
        if let Value::Map(entries) = &mut own.value {
            entries.extend(KEYS.iter().filter_map(|key| section.remove(key)));
        }
        let mut faults = Vec::new();
        let mut text = |key: &str| {
            let node = own.get(key)?;
            let text = node.as_str().filter(|text| !text.trim().is_empty());
            if text.is_none() {
                faults.push(own.fault(key, format!("expected a text, found {}", node.value)));
            }
            text.map(str::to_owned)
        };
        let prompt = PromptParts {
            prefix: text("prompt_prefix"),
            suffix: text("prompt_suffix"),
            template: text("prompt_template"),
        };
        let revision = text("ref");
        if prompt
            .template
            .as_ref()
            .is_some_and(|it| !it.contains(PROMPT))
        {
            let message = format!("`prompt_template` must contain `{PROMPT}`");
            faults.push(own.fault("prompt_template", message));
        }
        if let Some(problem) = revision.as_deref().and_then(revision_problem) {
            faults.push(own.fault("ref", format!("invalid `ref`: {problem}")));
        }
        let treatment = Treatment {
            files: read_files(&own, folder, &mut faults),
            skills: read_skills(&own, folder, &mut faults),
            prompt,
            revision,
        };
        if faults.is_empty() {
            Ok(treatment)
        } else {
            Err(faults)
        }
    }
}

fn read_files(
    own: &Node,
    folder: &Utf8Path,
    faults: &mut Vec<Fault>,
) -> BTreeMap<TreatmentPath, FileSource> {
    let mut files = BTreeMap::new();
    let entries = match own.get("files").map(|node| &node.value) {
        None => return files,
        Some(Value::Map(entries)) => entries,
        Some(other) => {
            let message = format!("expected a map from paths to files, found {other}");
            faults.push(own.fault("files", message));
            return files;
        }
    };
    for (key_span, written, node) in entries {
        let path = match TreatmentPath::parse(written) {
            Ok(path) => path,
            Err(problem) => {
                let message = format!("invalid path `{written}`: {problem}");
                faults.push(Fault::new(*key_span, message));
                continue;
            }
        };
        match source_of(node, folder) {
            Ok(FileOrFolder::File(source)) => {
                files.insert(path, source);
            }
            Ok(FileOrFolder::Folder(found)) => files.extend(found.into_iter().map(|it| {
                let path = TreatmentPath {
                    path: format!("{}/{}", path.path, it.0).into(),
                    ..path.clone()
                };
                (path, FileSource::Content(it.1))
            })),
            Err(problem) => {
                let message = format!("invalid source of `{written}`: {problem}");
                let span = if node.span.is_empty() {
                    *key_span
                } else {
                    node.span
                };
                faults.push(Fault::new(span, message));
            }
        }
    }
    files
}

enum FileOrFolder {
    File(FileSource),
    Folder(BTreeMap<Utf8PathBuf, FileContent>),
}

/// The source of one entry of `files`.
fn source_of(node: &Node, folder: &Utf8Path) -> Result<FileOrFolder, String> {
    let file = |source| Ok(FileOrFolder::File(source));
    match &node.value {
        Value::Null => file(FileSource::Removed),
        Value::String(text) => match text.strip_prefix(GIT) {
            Some(rest) => {
                let parts = rest.rsplit_once(':');
                let (revision, path) = parts.ok_or("expected `git:REVISION:PATH`")?;
                if let Some(problem) = revision_problem(revision) {
                    return Err(format!("the revision is not valid: {problem}"));
                }
                let path = TreatmentPath::parse(path)?.path;
                file(FileSource::Git {
                    revision: revision.to_owned(),
                    path,
                })
            }
            None => read_source(text, folder),
        },
        Value::Map(entries) => match entries.as_slice() {
            [(_, key, text)] if key == "text" => {
                let text = text.as_str().ok_or("`text` must be a string")?;
                file(FileSource::Content(FileContent::text(text)))
            }
            _ => Err("expected the single key `text`".to_owned()),
        },
        other => Err(format!(
            "expected a path, `git:REVISION:PATH`, `{{text: …}}` or `null`, found {other}"
        )),
    }
}

fn read_source(text: &str, folder: &Utf8Path) -> Result<FileOrFolder, String> {
    let path = place(text, folder)?;
    if path.is_dir() {
        return files_below(&path).map(FileOrFolder::Folder);
    }
    let content = FileContent::read(&path)?;
    Ok(FileOrFolder::File(FileSource::Content(content)))
}

/// The canonical path of a file or folder below `folder`.
fn place(text: &str, folder: &Utf8Path) -> Result<Utf8PathBuf, String> {
    named::check_written(text).map_err(|error| error.to_string())?;
    let root = platform::canonical(folder).map_err(|error| error.to_string())?;
    let path = platform::canonical(&root.join(text));
    let path = path.map_err(|_| format!("{text} does not exist in {folder}"))?;
    if path.starts_with(&root) {
        Ok(path)
    } else {
        Err(format!(
            "{text} is a symlink to a place outside of {folder}"
        ))
    }
}

/// The regular files below a folder. A link is refused: it may lead to any file of this machine.
fn files_below(folder: &Utf8Path) -> Result<BTreeMap<Utf8PathBuf, FileContent>, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir_utf8().map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            let path = entry.path().to_owned();
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let below = path.strip_prefix(folder).unwrap_or(&path);
                let below = platform::slashed(below.as_str()).into_owned();
                TreatmentPath::parse(&below)?;
                found.insert(below.into(), FileContent::read(&path)?);
            } else {
                return Err(format!("{path} is a link or a special file"));
            }
            if found.len() > MOST_FILES {
                return Err(format!("{folder} has more than {MOST_FILES} files"));
            }
        }
    }
    Ok(found)
}

fn read_skills(own: &Node, folder: &Utf8Path, faults: &mut Vec<Fault>) -> Vec<Skill> {
    let items = match own.get("skills").map(|node| &node.value) {
        None => return Vec::new(),
        Some(Value::List(items)) => items,
        Some(other) => {
            let message = format!("expected a list of folders, found {other}");
            faults.push(own.fault("skills", message));
            return Vec::new();
        }
    };
    let mut skills: Vec<Skill> = Vec::new();
    for item in items {
        let Some(written) = item.as_str() else {
            let message = format!("expected a folder, found {}", item.value);
            faults.push(Fault::new(item.span, message));
            continue;
        };
        let read = place(written, folder).and_then(|path| Skill::read(&path));
        let message = match read {
            Ok(skill) if skills.iter().all(|known| known.name != skill.name) => {
                skills.push(skill);
                continue;
            }
            Ok(skill) => format!("duplicate skill `{}`", skill.name),
            Err(problem) => format!("invalid skill `{written}`: {problem}"),
        };
        faults.push(Fault::new(item.span, message));
    }
    skills
}

#[cfg(test)]
mod tests;
