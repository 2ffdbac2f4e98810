//! Finds the client's own tool for what a script wants done.

use serde_json::{Map, Value, json};

use crate::content::RequestContent;
use crate::script::{ToolUse, WriteFile};
use proctor_model_api::Wire;

/// Tools that write a whole file, as clients name them.
const WRITERS: &[&str] = &["write", "writefile", "createfile", "create", "filewrite"];

/// Tools that run a command in a shell.
const RUNNERS: &[&str] = &[
    "bash",
    "shell",
    "execcommand",
    "runshellcommand",
    "runcommand",
    "localshell",
    "terminal",
];

/// A tool on offer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeclaredTool {
    name: String,
    /// Its parameters: the properties of its schema.
    takes: Map<String, Value>,
    /// It takes one free text instead.
    free: bool,
}

impl DeclaredTool {
    fn is(&self, names: &[&str]) -> bool {
        let plain: String = self
            .name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        names.contains(&plain.to_ascii_lowercase().as_str())
    }

    /// The first of these properties that the tool has.
    fn property(&self, names: &[&str]) -> Option<&str> {
        let known = |name: &&&str| self.takes.contains_key(**name);
        let found = names.iter().find(known)?;
        self.takes
            .get_key_value(*found)
            .map(|(name, _)| name.as_str())
    }
}

/// The tools that a request offers.
pub(crate) fn offered(wire: Wire, body: &Value) -> Vec<DeclaredTool> {
    let list = body["tools"].as_array().into_iter().flatten();
    match wire {
        Wire::Anthropic => list.filter_map(|t| tool(t, "input_schema")).collect(),
        Wire::OpenAiChat => list
            .filter_map(|t| match t["type"].as_str() {
                Some("custom") => tool(&t["custom"], "format").map(free),
                _ => tool(&t["function"], "parameters"),
            })
            .collect(),
        Wire::OpenAiResponses => list
            .filter_map(|t| match t["type"].as_str() {
                Some("custom") => tool(t, "format").map(free),
                _ => tool(t, "parameters"),
            })
            .collect(),
        Wire::Gemini => {
            let functions = list
                .filter_map(|t| t["functionDeclarations"].as_array())
                .flatten();
            let schema = |t: &Value| {
                let json_schema = t.get("parametersJsonSchema").is_some();
                if json_schema {
                    "parametersJsonSchema"
                } else {
                    "parameters"
                }
            };
            functions.filter_map(|t| tool(t, schema(t))).collect()
        }
    }
}

fn tool(described: &Value, schema: &str) -> Option<DeclaredTool> {
    let name = described["name"].as_str()?.to_owned();
    let takes = described[schema]["properties"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    Some(DeclaredTool {
        name,
        takes,
        free: false,
    })
}

fn free(tool: DeclaredTool) -> DeclaredTool {
    DeclaredTool { free: true, ..tool }
}

/// The call that writes a file. Without a tool for that the shell does it, and without a shell the
/// answer is an edit in prose, as clients that offer no tools expect it.
pub(crate) fn write_file(offered: &[DeclaredTool], file: &WriteFile) -> RequestContent {
    let WriteFile { path, content } = file;
    let writers = offered.iter().filter(|tool| !tool.free && tool.is(WRITERS));
    for tool in writers {
        let to = tool.property(&["file_path", "filePath", "path", "absolute_path", "filename"]);
        let what = tool.property(&["content", "file_text", "contents", "text"]);
        if let (Some(to), Some(what)) = (to, what) {
            return call(tool, json!({to: path, what: content}));
        }
    }
    if let Some(tool) = offered
        .iter()
        .find(|tool| tool.free && tool.is(&["applypatch"]))
    {
        let lines: String = content.lines().flat_map(|line| ["+", line, "\n"]).collect();
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n");
        return call(tool, Value::String(patch));
    }
    if offered.is_empty() {
        let edit =
            format!("{path}\n```\n<<<<<<< SEARCH\n=======\n{content}\n>>>>>>> REPLACE\n```\n");
        return RequestContent::Text(edit);
    }
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    run_command(
        offered,
        &format!("printf %s {} > {}", quote(content), quote(path)),
    )
}

/// The call that runs a command, or the command as text if the client has no tool for it.
pub(crate) fn run_command(offered: &[DeclaredTool], command: &str) -> RequestContent {
    for tool in offered.iter().filter(|tool| tool.is(RUNNERS)) {
        let Some(name) = tool.property(&["command", "cmd", "script"]) else {
            continue;
        };
        let value = match tool.takes[name]["type"].as_str() {
            Some(kind) if kind.eq_ignore_ascii_case("array") => json!(["bash", "-lc", command]),
            _ => json!(command),
        };
        let mut input = json!({name: value});
        if tool.takes.contains_key("description") {
            input["description"] = "scripted".into();
        }
        return call(tool, input);
    }
    RequestContent::Text(format!("```bash\n{command}\n```\n"))
}

fn call(tool: &DeclaredTool, input: Value) -> RequestContent {
    RequestContent::Call(ToolUse {
        name: tool.name.clone(),
        input,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(wire: Wire, tools: &Value) -> RequestContent {
        let file = WriteFile {
            path: "a.txt".to_owned(),
            content: "it's\n".to_owned(),
        };
        write_file(&offered(wire, &json!({"tools": tools})), &file)
    }

    fn said(name: &str, input: Value) -> RequestContent {
        RequestContent::Call(ToolUse {
            name: name.to_owned(),
            input,
        })
    }

    fn function(name: &str, properties: &Value) -> Value {
        json!({"name": name, "parameters": {"type": "object", "properties": properties}})
    }

    #[test]
    fn file_is_written_with_the_clients_tool() {
        let claude = json!([{"name": "Write", "input_schema":
            {"properties": {"file_path": {}, "content": {}}}}]);
        let input = json!({"file_path": "a.txt", "content": "it's\n"});
        assert_eq!(
            write(Wire::Anthropic, &claude),
            said("Write", input.clone())
        );
        let opencode = function("write", &json!({"filePath": {}, "content": {}}));
        let opencode = json!([{"type": "function", "function": opencode}]);
        let opencode_input = json!({"filePath": "a.txt", "content": "it's\n"});
        assert_eq!(
            write(Wire::OpenAiChat, &opencode),
            said("write", opencode_input)
        );
        let gemini = function("write_file", &json!({"file_path": {}, "content": {}}));
        let gemini = json!([{"functionDeclarations": [gemini]}]);
        assert_eq!(write(Wire::Gemini, &gemini), said("write_file", input));
        let codex = json!([{"type": "custom", "name": "apply_patch"}]);
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+it's\n*** End Patch\n";
        assert_eq!(
            write(Wire::OpenAiResponses, &codex),
            said("apply_patch", patch.into())
        );
    }

    #[test]
    fn file_is_written_by_shell_or_described_without_tools() {
        let mut codex = function("exec_command", &json!({"cmd": {"type": "string"}}));
        codex["type"] = "function".into();
        let command = json!({"cmd": "printf %s 'it'\\''s\n' > 'a.txt'"});
        assert_eq!(
            write(Wire::OpenAiResponses, &json!([codex])),
            said("exec_command", command)
        );
        let RequestContent::Text(edit) = write(Wire::OpenAiChat, &json!([])) else {
            panic!("no prose");
        };
        assert!(
            edit.starts_with("a.txt\n```\n<<<<<<< SEARCH\n=======\nit's\n"),
            "{edit}"
        );
    }

    #[test]
    fn command_has_the_form_of_the_tool() {
        let tools = |properties: Value| json!([{"name": "Bash", "input_schema": {"properties": properties}}]);
        let run = |properties: Value| {
            run_command(
                &offered(Wire::Anthropic, &json!({"tools": tools(properties)})),
                "ls",
            )
        };
        let described = json!({"command": {}, "description": {}});
        let expected = json!({"command": "ls", "description": "scripted"});
        assert_eq!(run(described), said("Bash", expected));
        let list = json!({"command": {"type": "array"}});
        assert_eq!(
            run(list),
            said("Bash", json!({"command": ["bash", "-lc", "ls"]}))
        );
    }
}
