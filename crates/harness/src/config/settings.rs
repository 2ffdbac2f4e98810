//! Project settings: `.youbencharc` in HOME and in the working directory, the nearer one first.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span, Value};
use proctor_gateway::Price;
use serde::Deserialize;

use super::{
    agent::check_order,
    gateway,
    interpolate::{self, Variables},
    keep_workspace::{KeepWorkspace, word_or_flag},
    source::Source,
};

const FILE_NAMES: [&str; 3] = [".youbencharc", ".youbencharc.yaml", ".youbencharc.json"];
/// Settings that youBencha knows and that nothing here reads yet.
const NOT_YET: [&str; 3] = ["output_dir", "log_level", "evaluators"];

/// The merged settings files.
#[derive(Clone, Default, PartialEq)]
pub struct Settings {
    /// Where workspaces are made.
    pub workspace_dir: Option<Utf8PathBuf>,
    /// Values for `${NAME}`.
    pub variables: BTreeMap<String, String>,
    /// Time limit of test cases that set none; 0 is none.
    pub timeout_ms: Option<u64>,
    /// Model of test cases that name none.
    pub model: Option<String>,
    /// Which adapters `agent.type: auto` tries, and in which order; Proctor's own when empty.
    pub order: Vec<String>,
    /// Which workspaces are kept when their trials are over.
    pub keep_workspace: Option<KeepWorkspace>,
    /// Prices that win over the built-in ones, the nearer over the farther.
    pub prices: Vec<Price>,
}

/// Values of variables stay out of debug output.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("workspace_dir", &self.workspace_dir)
            .field("variables", &self.variables.keys())
            .field("timeout_ms", &self.timeout_ms)
            .field("model", &self.model)
            .field("order", &self.order)
            .field("keep_workspace", &self.keep_workspace)
            .field("prices", &self.prices)
            .finish()
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsAsWritten {
    workspace_dir: Option<String>,
    variables: Option<BTreeMap<String, String>>,
    timeout_ms: Option<u64>,
    #[serde(default, deserialize_with = "word_or_flag")]
    keep_workspace: Option<KeepWorkspace>,
    agent: Option<AgentSettings>,
    /// A file with prices.
    prices: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentSettings {
    timeout_ms: Option<u64>,
    model: Option<String>,
    /// Which adapters `type: auto` tries, and in which order.
    order: Option<Vec<String>>,
}

impl Settings {
    /// Reads the settings for `cwd`. A missing file is not an error.
    pub fn load(
        home: Option<&Utf8Path>,
        cwd: &Utf8Path,
        env: &BTreeMap<String, String>,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
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
        if !nearer.order.is_empty() {
            self.order = nearer.order;
        }
        self.keep_workspace = nearer.keep_workspace.or(self.keep_workspace);
        self.prices.extend(nearer.prices);
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
    let prices = written.prices.as_ref().map(|file| folder.join(file));
    let prices = prices.map_or(Ok(Vec::new()), |file| gateway::read_prices(&file));
    let prices = prices.unwrap_or_else(|message| {
        faults.push(root.fault("prices", message));
        Vec::new()
    });
    if !faults.is_empty() {
        return Err(source.error(faults));
    }
    let agent = written.agent.unwrap_or_default();
    Ok(Settings {
        workspace_dir: written.workspace_dir.map(|dir| folder.join(dir)),
        variables: written.variables.unwrap_or_default(),
        timeout_ms: agent.timeout_ms.or(written.timeout_ms),
        model: agent.model,
        order: agent.order.unwrap_or_default(),
        keep_workspace: written.keep_workspace,
        prices,
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
    let order = written
        .agent
        .as_ref()
        .and_then(|agent| agent.order.as_ref());
    if let Some(Err(message)) = order.map(|order| check_order(order)) {
        let agent = root.get("agent").unwrap_or(root);
        faults.push(agent.fault("order", message));
    }
    if written.workspace_dir.as_deref().is_some_and(str::is_empty) {
        faults.push(root.fault("workspace_dir", "`workspace_dir` is empty"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    struct Folders {
        _dir: tempfile::TempDir,
        home: Utf8PathBuf,
        cwd: Utf8PathBuf,
    }

    impl Folders {
        fn new() -> Folders {
            let dir = tempfile::tempdir().unwrap();
            let root = Utf8Path::from_path(dir.path()).unwrap().to_owned();
            let (home, cwd) = (root.join("home"), root.join("cwd"));
            std::fs::create_dir(&home).unwrap();
            std::fs::create_dir(&cwd).unwrap();
            Folders {
                _dir: dir,
                home,
                cwd,
            }
        }

        fn load(&self) -> Result<Settings, String> {
            let env = BTreeMap::from([("USER".to_owned(), "someone".to_owned())]);
            Settings::load(Some(&self.home), &self.cwd, &env).map_err(|error| {
                let folder = format!("{}{}", self.cwd, std::path::MAIN_SEPARATOR);
                error.to_string().replace(&folder, "")
            })
        }

        fn refusal(text: &str) -> String {
            let folders = Folders::new();
            std::fs::write(folders.cwd.join(".youbencharc"), text).unwrap();
            folders.load().unwrap_err()
        }
    }

    #[test]
    fn no_file_is_no_error() {
        assert_eq!(Folders::new().load(), Ok(Settings::default()));
    }

    #[test]
    fn the_working_directory_comes_before_home() {
        let folders = Folders::new();
        let home = "variables: {A: home, B: home}\nworkspace_dir: w\nagent: {model: opus}\ntimeout_ms: 1\n";
        std::fs::write(folders.home.join(".youbencharc"), home).unwrap();
        let cwd = r#"{"variables": {"A": "by ${USER}"}, "agent": {"timeout_ms": 2}, "keep_workspace": true}"#;
        std::fs::write(folders.cwd.join(".youbencharc.json"), cwd).unwrap();
        let settings = folders.load().unwrap();
        assert_eq!(settings.variables["A"], "by someone");
        assert_eq!(settings.variables["B"], "home");
        assert_eq!(settings.workspace_dir, Some(folders.home.join("w")));
        assert_eq!(settings.timeout_ms, Some(2));
        assert_eq!(settings.model.as_deref(), Some("opus"));
        assert_eq!(settings.keep_workspace, Some(KeepWorkspace::All));
    }

    #[test]
    fn settings_that_do_nothing_are_refused() {
        assert_snapshot!(Folders::refusal("log_level: debug\noutput_dir: x\n"), @"
        .youbencharc:1:1: `log_level` is not supported yet
         1 | log_level: debug
           | ^^^^^^^^^
        hint: remove it: a setting that does nothing is an error

        .youbencharc:2:1: `output_dir` is not supported yet
         2 | output_dir: x
           | ^^^^^^^^^^
        hint: remove it: a setting that does nothing is an error
        ");
        assert_snapshot!(Folders::refusal("timeout_ms: 1\nagent: {timeout_ms: 2}\n"), @"
        .youbencharc:1:1: `timeout_ms` has no effect beside `agent.timeout_ms`
         1 | timeout_ms: 1
           | ^^^^^^^^^^
        hint: keep one of them
        ");
        assert_snapshot!(Folders::refusal("variables: {my-name: x}\n"), @"
        .youbencharc:1:13: `my-name` cannot be used as `${my-name}`
         1 | variables: {my-name: x}
           |             ^^^^^^^
        hint: a name has letters, digits and `_`, and starts with no digit
        ");
        assert_snapshot!(Folders::refusal("variables: {PORT: 80}\n"), @"
        .youbencharc:1:19: expected a string, found the whole number 80
         1 | variables: {PORT: 80}
           |                   ^^
        hint: put it in quotes
        ");
        assert_snapshot!(Folders::refusal("agent: {modle: x}\n"), @"
        .youbencharc:1:9: unknown key `modle`
         1 | agent: {modle: x}
           |         ^^^^^
        hint: did you mean `model`?
        ");
    }

    #[test]
    fn two_files_in_one_folder_are_refused() {
        let folders = Folders::new();
        std::fs::write(folders.cwd.join(".youbencharc"), "").unwrap();
        assert_eq!(folders.load(), Ok(Settings::default()));
        std::fs::write(folders.cwd.join(".youbencharc.yaml"), "").unwrap();
        assert!(
            folders
                .load()
                .unwrap_err()
                .contains("only one of them can count")
        );
    }
}
