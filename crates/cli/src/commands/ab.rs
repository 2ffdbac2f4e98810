//! `proctor ab`: an experiment with two variants of one agent, from the command line.

mod variant;

use camino::Utf8PathBuf;
use proctor_agents::{ADAPTERS, agent::Adapter};
use proctor_harness::{
    config::{GitSource, SuiteFile},
    model_access,
    plan::NoMatch,
    task::find,
};
use proctor_record::record;
use proctor_sandbox::host::Host;
use serde_json::{Map, Value, json};

pub(super) use self::variant::{Places, literal, place_of};
use self::variant::{remove_files, variant};
use super::experiment;
use crate::{
    args::{AbArgs, DecisionArgs, RunArgs},
    error::{AbError, CliError, Exit},
    host,
};

/// The agents that calibrate tasks, which are not what a user wants to compare.
const CALIBRATION: [&str; 2] = ["null", "oracle"];
/// The name of a suite that is made from arguments.
const COMMAND_LINE: &str = "command line";
/// The time limit of the task of `--prompt`.
const MINUTES: u32 = 30;

pub fn ab(args: &AbArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    if args.a.is_empty() && args.b.is_empty() && args.without.is_empty() {
        return Err(AbError::Nothing.into());
    }
    let base = base_suite(args, &host)?;
    let decision = DecisionArgs {
        chooses_trials: args.run.options.trials.is_none() && !base.document.contains_key("trials"),
        ..args.decision.clone()
    };
    let file = suite(base, args, &host)?;
    experiment::run_file(file, &[], &args.run, &decision)
}

/// The suite whose agent is varied, or one with the task of `--prompt`.
fn base_suite(args: &AbArgs, host: &Host) -> Result<BaseSuite, CliError> {
    let task = args.prompt.as_ref().zip(args.check.as_ref());
    let task = task.map(|(prompt, check)| {
        json!({
            "name": "prompt",
            "repo": literal(host.cwd.as_str()),
            "tag": "HEAD",
            "prompt": literal(prompt),
            "test_cmd": literal(check),
            "time_limit_minutes": MINUTES,
        })
    });
    BaseSuite::read(&args.run, task, host)
}

/// The suite of the experiment. It is kept with the results, so that the run can be resumed.
fn suite(mut base: BaseSuite, args: &AbArgs, host: &Host) -> Result<SuiteFile, CliError> {
    let [name_a, name_b] = args.names.as_slice() else {
        unreachable!("clap takes two names");
    };
    if name_a == name_b {
        let name = name_a.clone();
        return Err(AbError::SameNames { name }.into());
    }
    let places = base.places(host);
    let a = variant(&base.agent, name_a, &args.a, &places)?;
    let mut b = variant(&base.agent, name_b, &args.b, &places)?;
    remove_files(&mut b, &args.without);
    let experiment = base.document.entry("experiment");
    experiment.or_insert_with(|| json!({}))["baseline"] = json!(name_a);
    base.with_agents(json!([a, b]))
}

/// The suite of the command line, whose agents are replaced by variants of one of them.
pub(super) struct BaseSuite {
    path: Utf8PathBuf,
    pub(super) document: Map<String, Value>,
    /// The agent that the variants are made from.
    pub(super) agent: Value,
}

impl BaseSuite {
    /// Reads the suite, or makes one of the given tasks. `task` takes the place of paths.
    pub(super) fn read(
        run: &RunArgs,
        task: Option<Value>,
        host: &Host,
    ) -> Result<BaseSuite, CliError> {
        let given = run.paths.iter().chain(&run.config).cloned();
        let given = super::pinned(given, host, &super::settings(host)?)?;
        let own = match given.as_slice() {
            [] if task.is_none() => super::default_suite(host),
            [path] => Some(path.clone()),
            _ => None,
        };
        let own = own.and_then(|path| Some((SuiteFile::open(&host.cwd.join(&path))?, path)));
        let (path, mut document) = if let Some((file, path)) = own {
            let document = file.document();
            (
                host.cwd.join(path),
                document.map_err(|error| CliError::Config(vec![error]))?,
            )
        } else {
            let tasks = match task {
                Some(task) => json!([task]),
                None => tasks(&given, host)?,
            };
            let own = [
                ("tasks".to_owned(), tasks),
                ("results".to_owned(), json!({"dir": record::PROJECT_DIR})),
            ];
            (COMMAND_LINE.into(), Map::from_iter(own))
        };
        let agent = base(&document, &run.options.agent)?;
        if path == COMMAND_LINE && has_key(&agent, host) {
            document.insert("gateway".to_owned(), json!({}));
        }
        document.remove("orchestrators");
        Ok(BaseSuite {
            path,
            document,
            agent,
        })
    }

    /// The directories that paths are relative to.
    pub(super) fn places<'a>(&'a self, host: &'a Host) -> Places<'a> {
        let folder = self.path.parent();
        Places {
            cwd: &host.cwd,
            suite: folder
                .filter(|it| !it.as_str().is_empty())
                .unwrap_or(&host.cwd),
        }
    }

    /// The suite with these agents.
    pub(super) fn with_agents(mut self, agents: Value) -> Result<SuiteFile, CliError> {
        self.document.insert("agents".to_owned(), agents);
        SuiteFile::of_document(&self.path, self.document)
            .map_err(|error| CliError::Config(vec![error]))
    }

    /// The suite with these variants of the agent, which may differ in one key only.
    pub(super) fn with_variants(
        mut self,
        variants: Vec<Value>,
        key: &str,
    ) -> Result<SuiteFile, CliError> {
        if self.agent.get("variants").is_some() {
            return Err(AbError::SeveralAgents.into());
        }
        self.document.remove("experiment");
        self.document.insert("vary".to_owned(), json!([key]));
        let mut agent = self.agent.clone();
        agent["variants"] = variants.into();
        self.with_agents(json!([agent]))
    }
}

/// Whether the gateway can send the agent's requests to its provider. Only the gateway sees all
/// files that reach the model.
fn has_key(agent: &Value, host: &Host) -> bool {
    let kind = agent["type"].as_str().unwrap_or_default();
    let provider = match proctor_agents::find(kind).map(Adapter::provider) {
        Some("google") => "gemini",
        Some(provider) => provider,
        None => return false,
    };
    let known = model_access::providers(&host.env);
    known.iter().any(|(name, _)| *name == provider)
}

/// The entries of `tasks`.
fn tasks(given: &[Utf8PathBuf], host: &Host) -> Result<Value, CliError> {
    if given.is_empty() {
        return Err(CliError::NothingToRun);
    }
    let entry = |path: &Utf8PathBuf| {
        if let Some(source) = GitSource::parse(path.as_str()) {
            return Ok(source.entry());
        }
        let path = host.cwd.join(path);
        if !path.exists() {
            return Err(AbError::NoTasks { path }.into());
        }
        if SuiteFile::open(&path).is_some() {
            return Err(CliError::SuiteAmongOthers { suite: path });
        }
        let key = if find::is_dataset(&path) {
            "folder"
        } else {
            "testcase"
        };
        Ok(json!({key: literal(path.as_str())}))
    };
    let entries: Result<Vec<Value>, CliError> = given.iter().map(entry).collect();
    Ok(json!(entries?))
}

/// The agent that both variants are made from: the named one of a suite, its only one, or one of
/// the named type.
fn base(document: &Map<String, Value>, named: &[String]) -> Result<Value, CliError> {
    let agents = document.get("agents").and_then(Value::as_array);
    let agents: Vec<&Value> = agents.into_iter().flatten().collect();
    let name = |agent: &&Value| {
        agent["name"]
            .as_str()
            .or(agent["type"].as_str())
            .map(str::to_owned)
    };
    match named {
        [_, _, ..] => Err(AbError::SeveralAgents.into()),
        [wanted] => {
            let mut own = agents.iter();
            match own.find(|agent| name(agent).as_ref() == Some(wanted)) {
                Some(agent) => Ok((*agent).clone()),
                None if proctor_agents::find(wanted).is_some() => Ok(json!({"type": wanted})),
                None => {
                    let kinds = ADAPTERS.iter().map(|it| it.name().to_owned());
                    let known = agents.iter().filter_map(name).chain(kinds);
                    Err(CliError::NoMatch(NoMatch {
                        what: "agent",
                        name: wanted.clone(),
                        known: known.collect(),
                    }))
                }
            }
        }
        [] => {
            let is_contender = |agent: &&&Value| {
                let kind = agent["type"].as_str().unwrap_or_default();
                !CALIBRATION.contains(&kind)
            };
            let contenders: Vec<&&Value> = agents.iter().filter(is_contender).collect();
            match contenders.as_slice() {
                [] => Ok(json!({"type": "auto"})),
                [agent] => Ok((**agent).clone()),
                _ => Err(AbError::SeveralAgents.into()),
            }
        }
    }
}
