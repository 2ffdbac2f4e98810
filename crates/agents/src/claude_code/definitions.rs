//! Custom agents of Claude Code: written in the test case, or as Markdown files with a header.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{flags::invalid, settings::Definition};
use crate::agent::LaunchError;

/// The header of `.claude/agents/NAME.md`. Keys that concern only the CLI's own screen are let by.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    description: String,
    tools: Option<String>,
    model: Option<String>,
}

/// Every definition there is; one in the test case wins over a file of the same name.
pub(super) fn collect(
    written: &BTreeMap<String, Definition>,
    found: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Definition>, LaunchError> {
    let mut all = BTreeMap::new();
    for (name, markdown) in found {
        all.insert(name.clone(), parse(name, markdown)?);
    }
    all.extend(written.clone());
    Ok(all)
}

pub(super) fn unknown(name: &str, known: &BTreeMap<String, Definition>) -> LaunchError {
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    let hint = if known.is_empty() {
        "define it under `agent.config.agents`, or in `.claude/agents/` beside the test case or in the repo".to_owned()
    } else {
        format!("the known ones are: {}", known.join(", "))
    };
    invalid(&format!("there is no agent `{name}`"), Some(&hint))
}

fn parse(name: &str, markdown: &str) -> Result<Definition, LaunchError> {
    // Editors on Windows begin with a mark and end lines in their own way.
    let markdown = markdown
        .trim_start_matches('\u{feff}')
        .replace("\r\n", "\n");
    let (header, prompt) = split(&markdown);
    let header: Header = serde_saphyr::from_str(header).map_err(|error| {
        invalid(
            &format!("the header of .claude/agents/{name}.md: {error}"),
            None,
        )
    })?;
    Ok(Definition {
        description: header.description,
        prompt: prompt.trim().to_owned(),
        tools: header.tools.map(|tools| {
            tools
                .split(',')
                .map(|tool| tool.trim().to_owned())
                .collect()
        }),
        model: header.model.filter(|model| model != "inherit"),
    })
}

/// The text between the two `---` lines, and what follows.
fn split(markdown: &str) -> (&str, &str) {
    markdown
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
        .map_or(("{}", markdown), |(header, body)| {
            (header, body.trim_start_matches('-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_markdown_definition_has_a_header_and_a_prompt() {
        let text = "---\nname: zed\ndescription: Reviews\ntools: Read, Grep\nmodel: inherit\ncolor: red\n---\n\nYou are Zed.\n";
        let definition = parse("zed", text).unwrap();
        assert_eq!(definition.description, "Reviews");
        assert_eq!(definition.prompt, "You are Zed.");
        assert_eq!(definition.tools.unwrap(), ["Read", "Grep"]);
        assert_eq!(definition.model, None);
    }

    #[test]
    fn a_definition_written_on_windows_is_read_the_same() {
        let text = "\u{feff}---\r\nname: zed\r\ndescription: Reviews\r\n---\r\n\r\nYou are Zed.\r\nGo.\r\n";
        let definition = parse("zed", text).unwrap();
        assert_eq!(definition.description, "Reviews");
        assert_eq!(definition.prompt, "You are Zed.\nGo.");
    }

    #[test]
    fn without_a_header_the_whole_text_is_the_prompt() {
        assert_eq!(parse("zed", "You are Zed.").unwrap().prompt, "You are Zed.");
    }
}
