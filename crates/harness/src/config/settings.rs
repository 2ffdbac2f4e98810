//! Project settings: `.youbencharc` in HOME and in the working directory, the nearer one first.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;

use super::{
    error::{ConfigError, Fault},
    interpolate::{self, Variables},
    node::{Node, Span, Value},
    source::Source,
};

const FILE_NAMES: [&str; 3] = [".youbencharc", ".youbencharc.yaml", ".youbencharc.json"];
/// Settings that youBencha knows and that nothing here reads yet.
const NOT_YET: [&str; 3] = ["output_dir", "log_level", "evaluators"];

/// What the settings files say, merged.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where workspaces are made.
    pub workspace_dir: Option<Utf8PathBuf>,
    /// Values for `${NAME}`.
    pub variables: BTreeMap<String, String>,
    /// Time limit of test cases that set none; 0 is none.
    pub timeout_ms: Option<u64>,
    /// Model of test cases that name none.
    pub model: Option<String>,
    /// Whether the workspace stays when the run is over.
    pub keep_workspace: Option<bool>,
}

/// Values of variables stay out of debug output.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("workspace_dir", &self.workspace_dir)
            .field("variables", &self.variables.keys())
            .field("timeout_ms", &self.timeout_ms)
            .field("model", &self.model)
            .field("keep_workspace", &self.keep_workspace)
            .finish()
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsAsWritten {
    workspace_dir: Option<String>,
    variables: Option<BTreeMap<String, String>>,
    timeout_ms: Option<u64>,
    keep_workspace: Option<bool>,
    agent: Option<AgentSettings>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentSettings {
    timeout_ms: Option<u64>,
    model: Option<String>,
}

impl Settings {
    /// Read the settings that hold in `cwd`. No file is no error.
    pub fn load(
        home: Option<&Utf8Path>,
        cwd: &Utf8Path,
        env: &BTreeMap<String, String>,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        let home = home.filter(|home| *home != cwd);
        for folder in home.into_iter().chain([cwd]) {
            if let Some(path) = find(folder)? {
                settings.apply(read(&path, folder, env)?);
            }
        }
        Ok(settings)
    }

    /// Lay `nearer` over these settings.
    fn apply(&mut self, nearer: Settings) {
        self.variables.extend(nearer.variables);
        self.workspace_dir = nearer.workspace_dir.or(self.workspace_dir.take());
        self.timeout_ms = nearer.timeout_ms.or(self.timeout_ms);
        self.model = nearer.model.or(self.model.take());
        self.keep_workspace = nearer.keep_workspace.or(self.keep_workspace);
    }
}

/// The settings file of a folder; two of them would leave it open which one counts.
fn find(folder: &Utf8Path) -> Result<Option<Utf8PathBuf>, ConfigError> {
    let mut there = FILE_NAMES
        .iter()
        .map(|name| folder.join(name))
        .filter(|path| path.exists());
    let first = there.next();
    match (first, there.next()) {
        (Some(first), Some(second)) => {
            let message = format!("there is also {second}; only one of them can count");
            Err(ConfigError {
                path: first,
                text: None,
                faults: vec![Fault::new(Span::default(), message).with_hint("remove one of them")],
            })
        }
        (first, _) => Ok(first),
    }
}

fn read(
    path: &Utf8Path,
    folder: &Utf8Path,
    env: &BTreeMap<String, String>,
) -> Result<Settings, ConfigError> {
    let none = BTreeMap::new();
    let variables = Variables {
        project: &none,
        env,
    };
    let (source, mut root) = Source::read(path, &variables)?;
    if root.value == Value::Null {
        return Ok(Settings::default());
    }
    let mut faults = refuse(&mut root);
    let written: SettingsAsWritten = root.read().unwrap_or_else(|fault| {
        faults.push(fault);
        SettingsAsWritten::default()
    });
    faults.extend(check(&written, &root));
    if !faults.is_empty() {
        return Err(source.error(faults));
    }
    let agent = written.agent.unwrap_or_default();
    Ok(Settings {
        workspace_dir: written.workspace_dir.map(|dir| folder.join(dir)),
        variables: written.variables.unwrap_or_default(),
        timeout_ms: agent.timeout_ms.or(written.timeout_ms),
        model: agent.model,
        keep_workspace: written.keep_workspace,
    })
}

fn refuse(root: &mut Node) -> Vec<Fault> {
    NOT_YET
        .iter()
        .filter_map(|key| root.remove(key))
        .map(|(span, key, _)| {
            Fault::new(span, format!("`{key}` is not supported yet"))
                .with_hint("remove it: a setting that does nothing is an error")
        })
        .collect()
}

fn check(written: &SettingsAsWritten, root: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    let agent_timeout = written.agent.as_ref().and_then(|agent| agent.timeout_ms);
    if written.timeout_ms.is_some() && agent_timeout.is_some() {
        let span = root.key_span_of("timeout_ms");
        faults.push(
            Fault::new(span, "`timeout_ms` has no effect beside `agent.timeout_ms`")
                .with_hint("keep one of them"),
        );
    }
    for name in written.variables.iter().flat_map(BTreeMap::keys) {
        if !interpolate::is_name(name) {
            let span = root
                .get("variables")
                .map_or(root.span, |map| map.key_span_of(name));
            faults.push(
                Fault::new(span, format!("`{name}` cannot be used as `${{{name}}}`"))
                    .with_hint("a name has letters, digits and `_`, and starts with no digit"),
            );
        }
    }
    if written.workspace_dir.as_deref().is_some_and(str::is_empty) {
        faults.push(root.fault("workspace_dir", "`workspace_dir` is empty"));
    }
    faults
}
