//! A task from a folder in Harbor's format, unmodified: `task.toml`, `instruction.md`,
//! `environment/`, `tests/test.sh`, `solution/solve.sh`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::Utf8Path;
use proctor_agents::agent::{PromptSource, read_prompt_file};
use proctor_document::{ConfigError, Fault, Span};
use proctor_record::{
    fs::{dir, named},
    record::TaskKind,
};

use super::{
    Asks, Files, RunFolder, Task, TaskLimits,
    find::TASK_FILE,
    harbor_compose,
    harbor_reader::HarborReader,
    harbor_steps::with_steps,
    harbor_toml::{TaskToml, ignore_unknown_keys},
};
use crate::{
    config::{
        Hooks, OutputLimits, ProgressLimits, Reference, Settings, Solution, Source, Variables,
    },
    evaluate::Evaluator,
};

/// Reads and checks a task folder.
pub fn load(
    folder: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Task, ConfigError> {
    let variables = Variables {
        project: &settings.variables,
        env,
    };
    let read = Source::read_harbor(&folder.join(TASK_FILE), &variables);
    let (source, mut root, unset) = read?;
    let source = Arc::new(source);
    let mut notes = ignore_unknown_keys(&mut root);
    let read = root.read::<TaskToml>();
    let written = read.map_err(|fault| source.error(vec![fault]))?;
    let mut reader = HarborReader {
        folder,
        root: &root,
        reward_key: written
            .metadata
            .reward_key
            .as_ref()
            .and_then(|key| key.0.clone()),
        faults: Vec::new(),
        local: Vec::new(),
    };
    reader.refuse_unsupported(&written);
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let environment = reader.environment(&written, path);
    let steps = reader.steps(&written, &environment);
    let tests = [folder.join("tests")];
    let judged = (&written.verifier, written.artifacts.as_slice());
    let verifier = match steps.as_slice() {
        [] => vec![reader.verifier("verifier", judged, &tests, &environment)],
        _ => Vec::new(),
    };
    let tools = reader.tools(&written.environment);
    let timeout = reader.seconds("agent", "timeout_sec", written.agent.timeout_sec);
    let (faults, local) = (reader.faults, reader.local);
    if !faults.is_empty() {
        return Err(source.error(faults));
    }
    let mut environment = environment;
    harbor_compose::add_to(&mut environment, folder)?;
    if !local.is_empty() {
        environment.local = Err(source.error(local));
    }
    let compose = environment.compose.iter();
    notes.extend(compose.flat_map(|compose| compose.notes.iter().cloned()));
    let instruction = match steps.as_slice() {
        [] => instruction(&folder.join("instruction.md"))?,
        // Each step has its own.
        _ => String::new(),
    };
    let folder_name = named::absolute(folder);
    let folder_name = folder_name.file_name().unwrap_or("task").to_owned();
    let about = written.task;
    let name = about.as_ref().map_or(&folder_name, |task| &task.name);
    let last = name.rsplit('/').next().unwrap_or(name).to_owned();
    let description = about.as_ref().and_then(|task| task.description.clone());
    let hash = dir::hash(folder.as_std_path());
    let evaluators = verifier.into_iter().map(Evaluator::of_verifier);
    let task = Task {
        notes,
        unset,
        name: name.clone(),
        description: description.unwrap_or_else(|| first_line(&instruction)),
        kind: TaskKind::Folder,
        category: written.metadata.category.and_then(|category| category.0),
        aliases: vec![last, folder_name.clone()],
        asks: Asks::Prompt(PromptSource::Text(instruction)),
        reference: reference(folder, &written.solution.env),
        limits: limits(timeout, written.metadata.tell_deadline.as_ref()),
        files: Files::Image(Box::new(environment)),
        install: None,
        evaluators: evaluators.collect::<Vec<_>>().into(),
        steps: None,
        tools,
        patterns: Vec::new(),
        hooks: Hooks::default(),
        run_folder: RunFolder::default(),
        folder: named::absolute(folder),
        config_hash: hash.map_err(|error| ConfigError::unreadable(folder, &error))?,
        source,
    };
    with_steps(task, steps, written.strategy, &written.solution.env)
}

fn limits(timeout: Option<Duration>, tell_deadline: Option<&serde_json::Value>) -> TaskLimits {
    TaskLimits {
        timeout,
        tells_deadline: tell_deadline.and_then(serde_json::Value::as_bool) == Some(true),
        idle_timeout: None,
        progress: ProgressLimits::default(),
        output: OutputLimits::default(),
    }
}

/// `solution/solve.sh`, if it exists.
pub(super) fn reference(folder: &Utf8Path, env: &BTreeMap<String, String>) -> Option<Reference> {
    let solution = named::absolute(&folder.join("solution"));
    let is_there = solution.join("solve.sh").is_file();
    is_there.then_some(Reference::Script(Solution {
        folder: solution,
        script: None,
        env: env.clone(),
    }))
}

/// The prompt, without leading lines that only mark the file for crawlers.
pub(super) fn instruction(path: &Utf8Path) -> Result<String, ConfigError> {
    let whole = |problem: String| ConfigError::whole(path, Fault::new(Span::default(), problem));
    let text = read_prompt_file(path).map_err(whole)?;
    let asked = without_canary(&text);
    if asked.trim().is_empty() {
        return Err(whole("the instruction is empty".to_owned()));
    }
    Ok(asked.to_owned())
}

fn without_canary(text: &str) -> &str {
    let is_canary = |line: &str| {
        let line = line.trim();
        let is_marked =
            line.starts_with('#') || (line.starts_with("<!--") && line.ends_with("-->"));
        is_marked && line.to_ascii_lowercase().contains("canary")
    };
    let mut rest = text;
    let mut found = false;
    while let Some(line) = rest.split_inclusive('\n').next() {
        let is_blank = line.trim().is_empty();
        let is_skipped = is_canary(line) || (found && is_blank);
        if !is_skipped {
            break;
        }
        found = true;
        rest = &rest[line.len()..];
    }
    rest
}

pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().trim_start_matches(['#', ' ']);
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::without_canary;

    #[test]
    fn leading_canary_lines_are_removed() {
        for (text, expect) in [
            ("do it\n", "do it\n"),
            ("<!-- canary 123 -->\n\n\ndo it\n", "do it\n"),
            ("# BENCH Canary GUID x\n# canary 2\ndo it", "do it"),
            ("\ndo it", "\ndo it"),
            ("# Title\n# canary\n", "# Title\n# canary\n"),
            ("canary is a bird\n", "canary is a bird\n"),
        ] {
            assert_eq!(without_canary(text), expect, "{text:?}");
        }
    }
}
