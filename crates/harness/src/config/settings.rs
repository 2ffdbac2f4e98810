//! Project settings: `.youbencharc` in HOME and in the working directory. The working directory
//! takes precedence.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::{self as agents, ADAPTERS};
use proctor_document::{ConfigError, Fault, Node, Span, Value, unknown_name};
use proctor_gateway::Price;
use serde::Deserialize;

use super::{
    agent::check_order,
    gateway,
    interpolate::{self, Variables},
    keep_workspace::{KeepWorkspace, word_or_flag},
    relative_to::RelativeTo,
    source::Source,
};

const FILE_NAMES: [&str; 7] = [
    ".youbencharc",
    ".youbencharc.yaml",
    ".youbencharc.yml",
    ".youbencharc.json",
    ".youbencha.yaml",
    ".youbencha.yml",
    ".youbencha.json",
];

/// The merged settings files.
#[derive(Clone, Default, PartialEq)]
pub struct Settings {
    /// The parent directory of workspaces.
    pub workspace_dir: Option<Utf8PathBuf>,
    /// Where `proctor eval` puts results.
    pub output_dir: Option<Utf8PathBuf>,
    /// How much is shown of a run's progress.
    pub log_level: Option<LogLevel>,
    /// Values for `${NAME}`.
    pub variables: BTreeMap<String, String>,
    /// Time limit of test cases without one; 0 means no limit.
    pub timeout_ms: Option<u64>,
    /// Model of test cases without one.
    pub model: Option<String>,
    /// The agent of commands that need one and are given none.
    pub agent_type: Option<String>,
    /// The adapters that `agent.type: auto` tries, in order. Empty: Proctor's default order.
    pub order: Vec<String>,
    /// Which workspaces of finished trials are kept.
    pub keep_workspace: Option<KeepWorkspace>,
    /// Prices that override the built-in ones; the working directory's override those of HOME.
    pub prices: Vec<Price>,
    /// Where relative paths of directories and hooks begin. The name of the program decides it.
    pub relative_to: RelativeTo,
    /// The directory of datasets from git, in the user's cache. The machine decides it.
    pub datasets: Option<Utf8PathBuf>,
}

/// How much is shown of a run's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Every event, on its own line.
    Debug,
    /// As usual.
    Info,
    /// No progress.
    Warn,
    /// No progress.
    Error,
}

/// Omits the values of variables.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("workspace_dir", &self.workspace_dir)
            .field("output_dir", &self.output_dir)
            .field("log_level", &self.log_level)
            .field("variables", &self.variables.keys())
            .field("timeout_ms", &self.timeout_ms)
            .field("model", &self.model)
            .field("agent_type", &self.agent_type)
            .field("order", &self.order)
            .field("keep_workspace", &self.keep_workspace)
            .field("prices", &self.prices)
            .field("relative_to", &self.relative_to)
            .field("datasets", &self.datasets)
            .finish()
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsAsWritten {
    workspace_dir: Option<String>,
    output_dir: Option<String>,
    log_level: Option<LogLevel>,
    evaluators: Option<EvaluatorSettings>,
    variables: Option<BTreeMap<String, String>>,
    timeout_ms: Option<u64>,
    #[serde(default, deserialize_with = "word_or_flag")]
    keep_workspace: Option<KeepWorkspace>,
    agent: Option<AgentSettings>,
    /// A file with prices.
    prices: Option<String>,
}

/// youBencha's limits of evaluators.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluatorSettings {
    /// The most evaluators at the same time. Any limit holds: evaluators run one after the other.
    max_concurrent: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentSettings {
    #[serde(rename = "type")]
    kind: Option<String>,
    timeout_ms: Option<u64>,
    model: Option<String>,
    /// The adapters that `type: auto` tries, in order.
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
            if let Some(path) = Settings::file_in(folder)? {
                settings.apply(read(&path, folder, env)?);
            }
        }
        Ok(settings)
    }

    /// The settings file of a directory. Two files are an error, because their precedence would be
    /// undefined.
    pub fn file_in(folder: &Utf8Path) -> Result<Option<Utf8PathBuf>, ConfigError> {
        let mut there = FILE_NAMES
            .iter()
            .map(|name| folder.join(name))
            .filter(|path| path.exists());
        let first = there.next();
        match (first, there.next()) {
            (Some(first), Some(second)) => {
                let message = format!("{second} exists, too; only one settings file is allowed");
                Err(ConfigError {
                    path: first,
                    text: None,
                    faults: vec![
                        Fault::new(Span::default(), message).with_hint("remove one of them"),
                    ],
                })
            }
            (first, _) => Ok(first),
        }
    }

    /// Overrides these settings with `nearer`.
    fn apply(&mut self, nearer: Settings) {
        self.variables.extend(nearer.variables);
        self.workspace_dir = nearer.workspace_dir.or(self.workspace_dir.take());
        self.output_dir = nearer.output_dir.or(self.output_dir.take());
        self.log_level = nearer.log_level.or(self.log_level);
        self.timeout_ms = nearer.timeout_ms.or(self.timeout_ms);
        self.model = nearer.model.or(self.model.take());
        self.agent_type = nearer.agent_type.or(self.agent_type.take());
        if !nearer.order.is_empty() {
            self.order = nearer.order;
        }
        self.keep_workspace = nearer.keep_workspace.or(self.keep_workspace);
        self.prices.extend(nearer.prices);
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
    let (source, root) = Source::read(path, &variables)?;
    if root.value == Value::Null {
        return Ok(Settings::default());
    }
    let mut faults = Vec::new();
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
        output_dir: written.output_dir.map(|dir| folder.join(dir)),
        log_level: written.log_level,
        variables: written.variables.unwrap_or_default(),
        timeout_ms: agent.timeout_ms.or(written.timeout_ms),
        model: agent.model,
        agent_type: agent.kind,
        order: agent.order.unwrap_or_default(),
        keep_workspace: written.keep_workspace,
        prices,
        relative_to: RelativeTo::default(),
        datasets: None,
    })
}

fn check(written: &SettingsAsWritten, root: &Node) -> Vec<Fault> {
    let mut faults = Vec::new();
    let most = written.evaluators.as_ref().and_then(|it| it.max_concurrent);
    if most == Some(0) {
        let evaluators = root.get("evaluators").unwrap_or(root);
        faults.push(evaluators.fault("max_concurrent", "`max_concurrent` is at least 1"));
    }
    let agent_type = written
        .agent
        .as_ref()
        .and_then(|agent| agent.kind.as_deref());
    if let Some(kind) = agent_type.filter(|kind| agents::find(kind).is_none()) {
        let agent = root.get("agent").unwrap_or(root);
        let known: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name()).collect();
        faults.push(unknown_name(
            agent.span_of("type"),
            "agent type",
            kind,
            &known,
        ));
    }
    for name in written.variables.iter().flat_map(BTreeMap::keys) {
        if !interpolate::is_name(name) {
            let span = root
                .get("variables")
                .map_or(root.span, |map| map.key_span_of(name));
            faults.push(
                Fault::new(span, format!("invalid variable name `{name}`"))
                    .with_hint("use letters, digits and `_`; do not start with a digit"),
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
    for (key, dir) in [
        ("workspace_dir", &written.workspace_dir),
        ("output_dir", &written.output_dir),
    ] {
        if dir.as_deref().is_some_and(str::is_empty) {
            faults.push(root.fault(key, format!("`{key}` is empty")));
        }
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
    fn missing_file_is_accepted() {
        assert_eq!(Folders::new().load(), Ok(Settings::default()));
    }

    #[test]
    fn working_directory_takes_precedence_over_home() {
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
    fn every_key_of_youbencha_is_understood() {
        let folders = Folders::new();
        let text = "workspace_dir: w\noutput_dir: o\ntimeout_ms: 1\nlog_level: warn\nkeep_workspace: true\nvariables: {A: b}\nagent: {type: copilot-cli, timeout_ms: 2, model: gpt-5}\nevaluators: {max_concurrent: 4}\n";
        std::fs::write(folders.cwd.join(".youbencha.yml"), text).unwrap();
        let settings = folders.load().unwrap();
        assert_eq!(settings.output_dir, Some(folders.cwd.join("o")));
        assert_eq!(settings.log_level, Some(LogLevel::Warn));
        // The limit of agents is the more specific one.
        assert_eq!(settings.timeout_ms, Some(2));
        assert_eq!(settings.agent_type.as_deref(), Some("copilot-cli"));
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (text, word) in [
            ("log_level: loud\n", "loud"),
            ("agent: {type: copilot}\n", "copilot-cli"),
            ("evaluators: {max_concurrent: 0}\n", "at least 1"),
            ("output_dir: ''\n", "`output_dir` is empty"),
        ] {
            let refusal = Folders::refusal(text);
            assert!(refusal.contains(word), "{text}: {refusal}");
        }
        assert_snapshot!(Folders::refusal("variables: {my-name: x}\n"), @"
        .youbencharc:1:13: invalid variable name `my-name`
         1 | variables: {my-name: x}
           |             ^^^^^^^
        hint: use letters, digits and `_`; do not start with a digit
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
    fn two_settings_files_in_one_directory_are_refused() {
        let folders = Folders::new();
        std::fs::write(folders.cwd.join(".youbencharc"), "").unwrap();
        assert_eq!(folders.load(), Ok(Settings::default()));
        std::fs::write(folders.cwd.join(".youbencharc.yaml"), "").unwrap();
        assert!(
            folders
                .load()
                .unwrap_err()
                .contains("only one settings file is allowed")
        );
    }
}
