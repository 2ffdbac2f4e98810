//! `proctor ab`: an experiment with two variants of one agent, from the command line.

mod variant;

use camino::Utf8PathBuf;
use proctor_agents::{ADAPTERS, agent::Adapter};
use proctor_harness::{config::SuiteFile, model_access, plan::NoMatch, task::find};
use proctor_record::record;
use proctor_sandbox::host::Host;
use serde_json::{Map, Value, json};

use self::variant::{Places, literal, remove_files, variant};
use super::experiment;
use crate::{
    args::{AbArgs, DecisionArgs},
    error::{CliError, Exit},
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
        return Err(CliError::NothingToCompare);
    }
    let document = suite(args, &host)?;
    let decision = DecisionArgs {
        chooses_trials: args.run.options.trials.is_none() && !document.1.contains_key("trials"),
        ..args.decision.clone()
    };
    let file = SuiteFile::of_document(&document.0, document.1);
    let file = file.map_err(|error| CliError::Config(vec![error]))?;
    experiment::run_file(file, &[], &args.run, &decision)
}

/// The suite of the experiment, with the file that it is from. It is kept with the results, so that
/// the run can be resumed.
fn suite(args: &AbArgs, host: &Host) -> Result<(Utf8PathBuf, Map<String, Value>), CliError> {
    let given: Vec<&Utf8PathBuf> = args.run.paths.iter().chain(&args.run.config).collect();
    let own = match given.as_slice() {
        [] if args.prompt.is_none() => super::default_suite(host),
        [path] => Some((*path).clone()),
        _ => None,
    };
    let own = own.and_then(|path| Some((SuiteFile::open(&host.cwd.join(&path))?, path)));
    let (path, mut document) = match own {
        Some((file, path)) => {
            let document = file.document();
            (
                host.cwd.join(path),
                document.map_err(|error| CliError::Config(vec![error]))?,
            )
        }
        None => {
            let own = [
                ("tasks".to_owned(), tasks(args, &given, host)?),
                ("results".to_owned(), json!({"dir": record::PROJECT_DIR})),
            ];
            (COMMAND_LINE.into(), Map::from_iter(own))
        }
    };
    let base = base(&document, &args.run.options.agent)?;
    if path == COMMAND_LINE && has_key(&base, host) {
        document.insert("gateway".to_owned(), json!({}));
    }
    document.remove("orchestrators");
    let [name_a, name_b] = args.names.as_slice() else {
        unreachable!("clap takes two names");
    };
    if name_a == name_b {
        let name = name_a.clone();
        return Err(CliError::SameNames { name });
    }
    let places = Places {
        cwd: &host.cwd,
        suite: path
            .parent()
            .filter(|it| !it.as_str().is_empty())
            .unwrap_or(&host.cwd),
    };
    let a = variant(&base, name_a, &args.a, &places)?;
    let mut b = variant(&base, name_b, &args.b, &places)?;
    remove_files(&mut b, &args.without);
    document.insert("agents".to_owned(), json!([a, b]));
    let experiment = document.entry("experiment").or_insert_with(|| json!({}));
    experiment["baseline"] = json!(name_a);
    Ok((path, document))
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
fn tasks(args: &AbArgs, given: &[&Utf8PathBuf], host: &Host) -> Result<Value, CliError> {
    if let (Some(prompt), Some(check)) = (&args.prompt, &args.check) {
        return Ok(json!([{
            "name": "prompt",
            "repo": literal(host.cwd.as_str()),
            "tag": "HEAD",
            "prompt": literal(prompt),
            "test_cmd": literal(check),
            "time_limit_minutes": MINUTES,
        }]));
    }
    if given.is_empty() {
        return Err(CliError::NothingToRun);
    }
    let entry = |path: &&Utf8PathBuf| {
        let path = host.cwd.join(path);
        if !path.exists() {
            return Err(CliError::NoTasks { path });
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
        [_, _, ..] => Err(CliError::SeveralAgents),
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
                _ => Err(CliError::SeveralAgents),
            }
        }
    }
}
