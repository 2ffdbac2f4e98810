//! The prompt of an agent: in the test case, or in a file next to it or in the workspace. Shared by
//! all adapters.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node};
use proctor_record::{
    fs::named::{self, PathError},
    platform,
};

use crate::agent::AgentSection;

/// The maximum length of a prompt, in characters.
pub const MAX_PROMPT_CHARS: usize = 1_000_000;
/// The maximum length of `prompt_file`, in characters.
const MAX_PATH_CHARS: usize = 500;
/// The maximum number of bytes of a UTF-8 character.
const MAX_CHAR_BYTES: usize = 4;

/// The source of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// The text itself.
    Text(String),
    /// A file in the workspace (it does not exist next to the test case).
    WorkspaceFile(Utf8PathBuf),
}

/// Why a prompt file is not valid.
#[derive(Debug, thiserror::Error)]
#[error("invalid prompt_file `{path}`: {problem}")]
pub struct PromptFileError {
    /// The file, as written.
    pub path: Utf8PathBuf,
    /// Its faults.
    pub problem: String,
}

impl PromptFileError {
    /// The file is neither beside the test case nor in the workspace.
    pub fn missing(path: &Utf8Path) -> PromptFileError {
        PromptFileError {
            path: path.to_owned(),
            problem: "file not found next to the test case or in the workspace".to_owned(),
        }
    }
}

/// The prompt of `agent.config`: exactly one of `prompt` and `prompt_file`. A file that does not
/// exist next to the test case is expected in the workspace.
pub fn resolve_prompt(
    prompt: Option<&str>,
    prompt_file: Option<&str>,
    section: &AgentSection<'_>,
) -> Result<PromptSource, Fault> {
    let config = section.config;
    if let Some(asked) = section.prompt {
        let own = ["prompt", "prompt_file"].into_iter();
        return match own.into_iter().find(|key| config.get(key).is_some()) {
            None => Ok(asked.clone()),
            Some(key) => Err(Fault::new(
                config.key_span_of(key),
                format!("`{key}` is not allowed for an agent of a suite: tasks have the prompts"),
            )),
        };
    }
    match (prompt, prompt_file) {
        (Some(_), Some(_)) => Err(both_prompts(config)),
        (None, None) => Err(
            Fault::new(config.span, "missing key `prompt` or `prompt_file`")
                .with_hint("add a prompt, such as `prompt: Fix the failing test`"),
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

/// The fault of a section with two prompts.
pub(crate) fn both_prompts(config: &Node) -> Fault {
    let message = "`prompt` and `prompt_file` cannot be combined";
    Fault::new(config.key_span_of("prompt_file"), message).with_hint("remove one of them")
}

/// Reads the text of a prompt file in the workspace.
pub fn read_workspace_prompt(
    workspace: &Utf8Path,
    path: &Utf8Path,
) -> Result<String, PromptFileError> {
    let refused = |problem: String| PromptFileError {
        path: path.to_owned(),
        problem,
    };
    let file = named::file_in(workspace, path.as_str()).map_err(|error| match error {
        PathError::Missing { .. } => PromptFileError::missing(path),
        other => refused(other.to_string()),
    })?;
    read_prompt_file(&file).map_err(refused)
}

fn from_file(path: &str, folder: &Utf8Path) -> Result<PromptSource, String> {
    let length = path.chars().count();
    if length > MAX_PATH_CHARS {
        return Err(format!(
            "prompt_file has {length} characters, the maximum is {MAX_PATH_CHARS}"
        ));
    }
    let refused = |problem: String| format!("invalid prompt_file `{path}`: {problem}");
    match named::file_in(folder, path) {
        Ok(file) => read_prompt_file(&file)
            .map(PromptSource::Text)
            .map_err(refused),
        Err(PathError::Missing { .. }) => Ok(PromptSource::WorkspaceFile(path.into())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Reads the text of a prompt file.
pub fn read_prompt_file(file: &Utf8Path) -> Result<String, String> {
    let limit = MAX_PROMPT_CHARS * MAX_CHAR_BYTES;
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(limit as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read it: {error}"))?;
    if bytes.len() > limit {
        return Err(format!("it has more than {MAX_PROMPT_CHARS} characters"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let text = platform::text_of_file(text);
    match problem_of(&text) {
        Some(problem) => Err(format!("it {problem}")),
        None => Ok(text),
    }
}

/// Checks the text of a prompt.
fn problem_of(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    if text.contains('\0') {
        return Some("contains a NUL character".to_owned());
    }
    let length = text.chars().count();
    (length > MAX_PROMPT_CHARS)
        .then(|| format!("has {length} characters, the maximum is {MAX_PROMPT_CHARS}"))
}

/// The slash command that some CLIs would run instead of a prompt. A path such as `/usr/bin/env` is not
/// a command.
pub(crate) fn slash_command(prompt: &str) -> Option<&str> {
    let command = prompt
        .strip_prefix('/')?
        .split(char::is_whitespace)
        .next()?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
    (!command.is_empty() && command.chars().all(is_name)).then_some(command)
}

#[cfg(test)]
mod tests {
    use proctor_document::parse_yaml;

    use super::*;

    const CONFIG: &str = "prompt: x\nprompt_file: y\n";

    fn resolve(
        prompt: Option<&str>,
        file: Option<&str>,
        folder: &Utf8Path,
    ) -> Result<PromptSource, Fault> {
        let config: Node = parse_yaml(CONFIG).unwrap();
        let section = AgentSection {
            node: &config,
            agent_name: None,
            model: None,
            config: &config,
            folder,
            prompt: None,
        };
        resolve_prompt(prompt, file, &section)
    }

    fn text(prompt: &str) -> Result<PromptSource, String> {
        resolve(Some(prompt), None, "".into()).map_err(|fault| fault.message)
    }

    fn file(path: &str, folder: &Utf8Path) -> Result<PromptSource, String> {
        resolve(None, Some(path), folder).map_err(|fault| fault.message)
    }

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap();
        (dir, path)
    }

    #[test]
    fn slash_commands_are_recognized() {
        for (prompt, command) in [
            ("/clear everything", Some("clear")),
            ("/clear", Some("clear")),
            ("/my-plugin:review\nnow", Some("my-plugin:review")),
            ("/usr/bin/env is missing", None),
            ("/ is the root", None),
            ("/clear, then go on", None),
            (" /clear everything", None),
            ("Fix /clear", None),
        ] {
            assert_eq!(slash_command(prompt), command, "{prompt}");
        }
    }

    #[test]
    fn exactly_one_of_prompt_and_prompt_file_is_required() {
        let both = resolve(Some("a"), Some("b"), "".into()).unwrap_err();
        assert_eq!(
            both.message,
            "`prompt` and `prompt_file` cannot be combined"
        );
        assert_eq!(&CONFIG[both.span.start..both.span.end], "prompt_file");
        let none = resolve(None, None, "".into()).unwrap_err();
        assert_eq!(none.message, "missing key `prompt` or `prompt_file`");
    }

    #[test]
    fn length_of_a_prompt_is_limited() {
        assert_eq!(text("x"), Ok(PromptSource::Text("x".to_owned())));
        assert_eq!(text(""), Err("the prompt is empty".to_owned()));
        assert_eq!(text(" \n\t"), Err("the prompt is empty".to_owned()));
        let nul = Err("the prompt contains a NUL character".to_owned());
        assert_eq!(text("a\0b"), nul);
        assert!(text(&"🎉".repeat(MAX_PROMPT_CHARS)).is_ok());
        assert_eq!(
            text(&"é".repeat(MAX_PROMPT_CHARS + 1)),
            Err("the prompt has 1000001 characters, the maximum is 1000000".to_owned())
        );
    }

    #[test]
    fn prompt_file_next_to_the_test_case_is_read_unchanged() {
        let (_dir, folder) = folder();
        std::fs::create_dir(folder.join("sub")).unwrap();
        std::fs::write(folder.join("sub/p.md"), "  Fix `x`\r\n${HOME}\n").unwrap();
        // On Windows, git and editors may have changed the line ends, so they are normalised.
        let end = if cfg!(windows) { "\n" } else { "\r\n" };
        let expected = format!("  Fix `x`{end}${{HOME}}\n");
        let expected = Ok(PromptSource::Text(expected));
        assert_eq!(file("sub/p.md", &folder), expected);
        assert_eq!(file("./sub/./p.md", &folder), expected);
    }

    #[test]
    fn missing_prompt_file_is_expected_in_the_workspace() {
        let (_dir, folder) = folder();
        assert_eq!(
            file("./TASK.md", &folder),
            Ok(PromptSource::WorkspaceFile("./TASK.md".into()))
        );
        std::fs::write(folder.join("TASK.md"), "do it").unwrap();
        assert_eq!(
            read_workspace_prompt(&folder, "./TASK.md".into()).unwrap(),
            "do it"
        );
        let missing = read_workspace_prompt(&folder, "NO.md".into()).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "invalid prompt_file `NO.md`: file not found next to the test case or in the workspace"
        );
    }

    #[cfg(unix)]
    #[test]
    fn prompt_file_must_be_in_its_folder() {
        use std::os::unix::fs::symlink;

        let (_dir, folder) = folder();
        let (_other, outside) = super::tests::folder();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        symlink(outside.join("secret"), folder.join("link")).unwrap();
        symlink(&outside, folder.join("dir")).unwrap();
        std::fs::write(folder.join("real"), "inside").unwrap();
        symlink("real", folder.join("alias")).unwrap();
        for (path, problem) in [
            ("/etc/passwd", "it must be a relative path"),
            ("../x", "it must not contain `..`"),
            ("a/../b", "it must not contain `..`"),
            ("a\\..\\b", "it must not contain `..`"),
            ("", "it is empty"),
            (".", "it is not a regular file"),
        ] {
            let message = file(path, &folder).unwrap_err();
            assert_eq!(message, format!("invalid prompt_file `{path}`: {problem}"));
            assert!(read_workspace_prompt(&folder, path.into()).is_err());
        }
        for path in ["link", "dir/secret"] {
            assert!(
                file(path, &folder)
                    .unwrap_err()
                    .contains("is a symlink to a file outside"),
                "{path}"
            );
            assert!(
                read_workspace_prompt(&folder, path.into()).is_err(),
                "{path}"
            );
        }
        assert_eq!(
            file("alias", &folder),
            Ok(PromptSource::Text("inside".to_owned()))
        );
        assert!(file("a..b/x", &folder).is_ok());
    }

    #[test]
    fn length_of_a_prompt_file_path_is_limited() {
        let (_dir, folder) = folder();
        let path = format!("{}/{}", "a".repeat(250), "b".repeat(249));
        assert!(file(&path, &folder).is_ok());
        assert!(
            file(&format!("{path}b"), &folder)
                .unwrap_err()
                .contains("the maximum is 500")
        );
    }

    #[test]
    fn length_of_a_prompt_file_is_limited() {
        let (_dir, folder) = folder();
        let content = |bytes: &[u8]| {
            std::fs::write(folder.join("p"), bytes).unwrap();
            file("p", &folder)
        };
        assert!(content("🎉".repeat(MAX_PROMPT_CHARS).as_bytes()).is_ok());
        assert!(content("x".repeat(MAX_PROMPT_CHARS + 1).as_bytes()).is_err());
        assert!(content("🎉".repeat(MAX_PROMPT_CHARS + 1).as_bytes()).is_err());
        assert!(content(b"").unwrap_err().ends_with("it is empty"));
        assert!(
            content(b"\xff")
                .unwrap_err()
                .ends_with("it is not UTF-8 text")
        );
    }
}
