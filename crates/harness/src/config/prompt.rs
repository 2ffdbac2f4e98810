//! The prompt of an agent: written in the test case, or in a file beside it or in the workspace.
//! Shared by all adapters.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    agent::AgentSection,
    error::Fault,
    paths::{self, PathError},
};

/// Longest prompt, in characters.
pub const MAX_PROMPT_CHARS: usize = 1_000_000;
/// Longest `prompt_file`, in characters.
const MAX_PATH_CHARS: usize = 500;
/// No character takes more bytes than this in UTF-8.
const MAX_CHAR_BYTES: usize = 4;

/// Where a prompt comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// The text itself.
    Text(String),
    /// A file in the workspace (it was not found beside the test case).
    WorkspaceFile(Utf8PathBuf),
}

/// Why a prompt file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("prompt_file `{path}` cannot be used: {problem}")]
pub struct PromptFileError {
    /// The file, as written.
    pub path: Utf8PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// The prompt that `agent.config` asks for: exactly one of `prompt` and `prompt_file`. The file
/// is looked for beside the test case first; what is not there is expected in the workspace.
pub fn resolve_prompt(
    prompt: Option<&str>,
    prompt_file: Option<&str>,
    section: &AgentSection<'_>,
) -> Result<PromptSource, Fault> {
    let config = section.config;
    match (prompt, prompt_file) {
        (Some(_), Some(_)) => Err(Fault::new(
            config.key_span_of("prompt_file"),
            "both `prompt` and `prompt_file` are given",
        )
        .with_hint("keep one of them")),
        (None, None) => Err(
            Fault::new(config.span, "neither `prompt` nor `prompt_file` is given")
                .with_hint("say what the agent is asked, such as `prompt: Fix the failing test`"),
        ),
        (Some(text), None) => match problem_of(text) {
            Some(problem) => Err(config.fault("prompt", format!("the prompt {problem}"))),
            None => Ok(PromptSource::Text(text.to_owned())),
        },
        (None, Some(path)) => {
            from_file(path, section.folder).map_err(|problem| config.fault("prompt_file", problem))
        }
    }
}

/// The text of a prompt file in the workspace.
pub fn read_workspace_prompt(
    workspace: &Utf8Path,
    path: &Utf8Path,
) -> Result<String, PromptFileError> {
    let refused = |problem: String| PromptFileError {
        path: path.to_owned(),
        problem,
    };
    let file = paths::file_in(workspace, path.as_str()).map_err(|error| match error {
        PathError::Missing { .. } => {
            refused("there is no such file beside the test case or in the workspace".to_owned())
        }
        other => refused(other.to_string()),
    })?;
    read(&file).map_err(refused)
}

fn from_file(path: &str, folder: &Utf8Path) -> Result<PromptSource, String> {
    let length = path.chars().count();
    if length > MAX_PATH_CHARS {
        return Err(format!(
            "prompt_file may have at most {MAX_PATH_CHARS} characters, this one has {length}"
        ));
    }
    let refused = |problem: String| format!("prompt_file `{path}` cannot be used: {problem}");
    match paths::file_in(folder, path) {
        Ok(file) => read(&file).map(PromptSource::Text).map_err(refused),
        Err(PathError::Missing { .. }) => Ok(PromptSource::WorkspaceFile(path.into())),
        Err(error) => Err(refused(error.to_string())),
    }
}

fn read(file: &Utf8Path) -> Result<String, String> {
    let limit = MAX_PROMPT_CHARS * MAX_CHAR_BYTES;
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(limit as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() > limit {
        return Err(format!("it has more than {MAX_PROMPT_CHARS} characters"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    match problem_of(&text) {
        Some(problem) => Err(format!("it {problem}")),
        None => Ok(text),
    }
}

/// What is wrong with a prompt's text.
fn problem_of(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    let length = text.chars().count();
    (length > MAX_PROMPT_CHARS)
        .then(|| format!("has {length} characters; {MAX_PROMPT_CHARS} are the most"))
}
