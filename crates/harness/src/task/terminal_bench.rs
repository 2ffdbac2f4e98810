//! A task of Terminal-Bench 1, read directly: `task.yaml`, `Dockerfile`, `docker-compose.yaml` with
//! the service `client` and others, `run-tests.sh`, `tests/` and `solution.sh` or `solution.yaml`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::Utf8Path;
use proctor_agents::agent::PromptSource;
use proctor_document::{ConfigError, Fault, Node, Span, Value};
use proctor_record::{
    fs::{dir, named},
    record::TaskKind,
};
use proctor_sandbox::docker::BuildOptions;
use serde::Deserialize;

use super::{Asks, Files, RunFolder, Task, TaskLimits, TaskTools, find::TERMINAL_BENCH_FILE};
use crate::{
    config::{Hooks, OutputLimits, ProgressLimits, Reference, Settings, Solution, Source},
    evaluate::{Evaluator, Verifier, VerifierMode},
    workspace::{
        Environment, Image, NEEDS_DOCKER, Recipe,
        compose::{self, ComposeContext},
    },
};

const COMPOSE_FILE: &str = "docker-compose.yaml";
/// The service of the agent.
const SERVICE: &str = "client";
/// The name of its image in compose files.
const SERVICE_IMAGE: &str = "proctor-client";
const AGENT_TIMEOUT_SEC: f64 = 360.0;
const TEST_TIMEOUT_SEC: f64 = 60.0;
const BUILD_TIMEOUT: Duration = Duration::from_mins(10);
/// Variables of compose files that name paths in the container.
const PATHS: [(&str, &str); 3] = [
    ("${T_BENCH_TEST_DIR}", "/tests"),
    ("${T_BENCH_CONTAINER_LOGS_PATH}", "/logs"),
    ("${T_BENCH_CONTAINER_AGENT_LOGS_PATH}", "/logs/agent"),
];
/// The variables of compose files. Folders of logs are those that Proctor has itself.
const VARIABLES: [(&str, &str); 8] = [
    ("T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME", SERVICE),
    ("T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME", SERVICE_IMAGE),
    ("T_BENCH_TASK_DOCKER_NAME_PREFIX", "tb"),
    ("T_BENCH_TEST_DIR", "/tests"),
    ("T_BENCH_CONTAINER_LOGS_PATH", "/logs"),
    ("T_BENCH_CONTAINER_AGENT_LOGS_PATH", "/logs/agent"),
    ("T_BENCH_TASK_LOGS_PATH", "/logs"),
    ("T_BENCH_TASK_AGENT_LOGS_PATH", "/logs/agent"),
];
/// Keys of the service that have no effect on a single container.
const WITHOUT_EFFECT: [&str; 7] = [
    "container_name",
    "command",
    "stdin_open",
    "tty",
    "init",
    "restart",
    "platform",
];

/// The file. Further keys describe the task only.
#[derive(Debug, Deserialize)]
struct TaskYaml {
    instruction: String,
    category: Option<String>,
    parser_name: Option<String>,
    max_agent_timeout_sec: Option<f64>,
    max_test_timeout_sec: Option<f64>,
}

/// A command of `solution.yaml`.
#[derive(Debug, Deserialize)]
struct SolutionCommand {
    command: String,
    append_enter: Option<bool>,
}

/// The parts of the service that are used.
#[derive(Default)]
struct Client {
    dockerfile: Option<String>,
    context: Option<String>,
    image: Option<String>,
    workdir: Option<String>,
    env: BTreeMap<String, String>,
}

/// Reads and checks a task folder.
pub fn load(
    folder: &Utf8Path,
    env: &BTreeMap<String, String>,
    _settings: &Settings,
) -> Result<Task, ConfigError> {
    let (source, root) = Source::read_as_is(&folder.join(TERMINAL_BENCH_FILE))?;
    let source = Arc::new(source);
    let one = |fault| source.error(vec![fault]);
    let written: TaskYaml = root.read().map_err(one)?;
    let [agent, tests] = limits(&written, &root).map_err(|faults| source.error(faults))?;
    let run_tests = folder.join("run-tests.sh");
    if !run_tests.is_file() {
        let fault = Fault::new(Span::default(), "the task has no run-tests.sh");
        return Err(one(fault));
    }
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let environment = match client(folder)? {
        Some(client) => environment(folder, client, path)?,
        None => environment_of_services(folder)?,
    };
    let mut notes = Vec::new();
    if let Some(compose) = &environment.compose {
        notes.extend(compose.notes.iter().cloned());
    }
    let reference = reference(folder, &mut notes)?;
    let folder_name = named::absolute(folder);
    let name = folder_name.file_name().unwrap_or("task").to_owned();
    let hash = dir::hash(folder.as_std_path());
    let first_line = written.instruction.trim().lines().next();
    Ok(Task {
        description: first_line.unwrap_or_default().chars().take(200).collect(),
        aliases: vec![name.clone()],
        name,
        kind: TaskKind::Folder,
        category: written.category,
        notes,
        unset: Vec::new(),
        asks: Asks::Prompt(PromptSource::Text(written.instruction)),
        reference,
        limits: TaskLimits {
            timeout: Some(agent),
            tells_deadline: false,
            idle_timeout: None,
            progress: ProgressLimits::default(),
            output: OutputLimits::default(),
        },
        evaluators: vec![Evaluator::of_verifier(verifier(
            folder,
            &environment,
            tests,
        ))]
        .into(),
        files: Files::Image(Box::new(environment)),
        steps: None,
        tools: TaskTools::default(),
        install: None,
        patterns: Vec::new(),
        hooks: Hooks::default(),
        run_folder: RunFolder::default(),
        folder: folder_name,
        config_hash: hash.map_err(|error| ConfigError::unreadable(folder, &error))?,
        source,
    })
}

/// The time limits of the agent and of the tests, and a parser that is supported.
fn limits(written: &TaskYaml, root: &Node) -> Result<[Duration; 2], Vec<Fault>> {
    let mut faults = Vec::new();
    let parser = written.parser_name.as_deref().unwrap_or("pytest");
    if parser != "pytest" {
        let message = format!("the parser `{parser}` is not supported, only `pytest`");
        faults.push(root.fault("parser_name", message));
    }
    if written.instruction.trim().is_empty() {
        faults.push(root.fault("instruction", "the instruction is empty"));
    }
    let mut seconds = |key: &str, value: Option<f64>, usual: f64| {
        let time = Duration::try_from_secs_f64(value.unwrap_or(usual)).ok();
        let time = time.filter(|time| !time.is_zero());
        if time.is_none() {
            let message = format!("`{key}` must be a positive number of seconds");
            faults.push(root.fault(key, message));
        }
        time.unwrap_or_default()
    };
    let agent = written.max_agent_timeout_sec;
    let agent = seconds("max_agent_timeout_sec", agent, AGENT_TIMEOUT_SEC);
    let tests = written.max_test_timeout_sec;
    let tests = seconds("max_test_timeout_sec", tests, TEST_TIMEOUT_SEC);
    if faults.is_empty() {
        Ok([agent, tests])
    } else {
        Err(faults)
    }
}

/// The service of the agent in the compose file; `None` if it has other services or keys than those
/// of a plain container.
fn client(folder: &Utf8Path) -> Result<Option<Client>, ConfigError> {
    let path = folder.join(COMPOSE_FILE);
    if !path.is_file() {
        return Ok(Some(Client::default()));
    }
    let (source, root) = Source::read_as_is(&path)?;
    let refuse = |fault| source.error(vec![fault]);
    let services = root.get("services").map(|services| &services.value);
    let Some(Value::Map(services)) = services else {
        return Err(refuse(root.fault("services", "the file has no `services`")));
    };
    let service = services.iter().find(|(_, name, _)| name == SERVICE);
    let Some((_, _, service)) = service else {
        let message = format!("the file has no service `{SERVICE}`");
        return Err(refuse(root.fault("services", message)));
    };
    Ok(read_service(service).filter(|_| services.len() == 1))
}

fn read_service(service: &Node) -> Option<Client> {
    let mut client = Client::default();
    let Value::Map(entries) = &service.value else {
        return None;
    };
    for (_, key, value) in entries {
        let text = || value.as_str().map(str::to_owned);
        match key.as_str() {
            "build" => {
                let inner = |key: &str| value.get(key).and_then(Node::as_str).map(str::to_owned);
                client.context = text().or_else(|| inner("context"));
                client.dockerfile = inner("dockerfile");
            }
            // A name for the image that is built.
            "image" => client.image = text().filter(|_| service.get("build").is_none()),
            "working_dir" => client.workdir = text(),
            "environment" => client.env = variables(value),
            "volumes" if has_only_logs(value) => {}
            key if WITHOUT_EFFECT.contains(&key) => {}
            _ => return None,
        }
    }
    Some(client)
}

/// The environment of a compose file with several services, or with settings of the container.
fn environment_of_services(folder: &Utf8Path) -> Result<Environment, ConfigError> {
    let place = named::absolute(folder);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let context = ComposeContext {
        main: SERVICE,
        task: place.clone(),
        variables: VARIABLES.map(owned).into(),
        image: Image::Build {
            dockerfile: place.join("Dockerfile"),
            context: place.clone(),
            options: BuildOptions::default(),
        },
        folder: place,
        image_name: SERVICE_IMAGE.to_owned(),
    };
    let compose = compose::read(&folder.join(COMPOSE_FILE), &context)?;
    let fault = Fault::new(
        Span::default(),
        "a compose environment requires a container",
    );
    let local = ConfigError::whole(folder, fault.with_hint(NEEDS_DOCKER));
    Ok(Environment {
        compose: Some(Arc::new(compose.clone())),
        ..container(compose.image, Err(local))
    })
}

/// The variables of a service: a map, or a list of `NAME=value`.
fn variables(node: &Node) -> BTreeMap<String, String> {
    let plain = |text: &str| {
        let paths = PATHS.iter();
        paths.fold(text.to_owned(), |text, (name, path)| {
            text.replace(name, path)
        })
    };
    match &node.value {
        Value::Map(entries) => {
            let text = |value: &Node| value.read::<serde_json::Value>().unwrap_or_default();
            let text = |value: &Node| match text(value) {
                serde_json::Value::String(text) => plain(&text),
                other => other.to_string(),
            };
            let entries = entries.iter();
            entries
                .map(|(_, name, value)| (name.clone(), text(value)))
                .collect()
        }
        Value::List(items) => {
            let pairs = items
                .iter()
                .filter_map(|item| item.as_str()?.split_once('='));
            pairs
                .map(|(name, value)| (name.to_owned(), plain(value)))
                .collect()
        }
        _ => BTreeMap::new(),
    }
}

/// Whether all volumes are the folders of logs, which Proctor has itself.
fn has_only_logs(node: &Node) -> bool {
    let is_log = |item: &Node| item.as_str().is_some_and(|it| it.starts_with("${T_BENCH_"));
    matches!(&node.value, Value::List(items) if items.iter().all(is_log))
}

fn environment(folder: &Utf8Path, client: Client, path: &str) -> Result<Environment, ConfigError> {
    let whole = |message: String| ConfigError::whole(folder, Fault::new(Span::default(), message));
    let image = if let Some(name) = client.image {
        Image::Named(name)
    } else {
        let context = folder.join(client.context.as_deref().unwrap_or("."));
        let dockerfile = context.join(client.dockerfile.as_deref().unwrap_or("Dockerfile"));
        if !dockerfile.is_file() {
            return Err(whole(format!("missing {dockerfile}")));
        }
        Image::Build {
            context,
            dockerfile,
            options: BuildOptions::default(),
        }
    };
    let local = match &image {
        Image::Named(_) => Err(whole("the task has no Dockerfile".to_owned())),
        Image::Build {
            context,
            dockerfile,
            ..
        } => {
            let text = fs_err::read_to_string(dockerfile)
                .map_err(|error| ConfigError::unreadable(dockerfile, &error))?;
            let workdir = client.workdir.as_deref().map(Utf8Path::new);
            let recipe = Recipe::read(&text, context, workdir, path);
            recipe.map(Arc::new).map_err(|faults| ConfigError {
                path: dockerfile.clone(),
                text: Some(text),
                faults,
            })
        }
    };
    Ok(Environment {
        workdir: client.workdir.map(Into::into),
        env: client.env,
        ..container(image, local)
    })
}

fn container(image: Image, local: Result<Arc<Recipe>, ConfigError>) -> Environment {
    Environment {
        image,
        build_timeout: BUILD_TIMEOUT,
        cpus: None,
        memory_mb: None,
        storage_mb: None,
        pids: None,
        workdir: None,
        env: BTreeMap::new(),
        user: None,
        network: None,
        healthcheck: None,
        compose: None,
        local,
    }
}

fn verifier(folder: &Utf8Path, environment: &Environment, timeout: Duration) -> Verifier {
    Verifier {
        mode: VerifierMode::Shared,
        tests: vec![named::absolute(&folder.join("tests"))],
        run_tests: Some(named::absolute(&folder.join("run-tests.sh"))),
        env: BTreeMap::new(),
        local_env: environment.local_env(),
        user: None,
        timeout,
        network: None,
        environment: None,
        collect: Vec::new(),
        artifacts: Vec::new(),
        reward_key: None,
    }
}

/// `solution.sh`, or the commands of `solution.yaml` as a script.
fn reference(folder: &Utf8Path, notes: &mut Vec<String>) -> Result<Option<Reference>, ConfigError> {
    let [script, commands] = ["solution.sh", "solution.yaml"].map(|name| folder.join(name));
    let text = if script.is_file() {
        let text = fs_err::read_to_string(&script);
        text.map_err(|error| ConfigError::unreadable(&script, &error))?
    } else if commands.is_file() {
        let (source, root) = Source::read_as_is(&commands)?;
        let read = root.read::<Vec<SolutionCommand>>();
        let read = read.map_err(|fault| source.error(vec![fault]))?;
        if read.iter().any(|it| it.append_enter == Some(false)) {
            let note =
                "solution.yaml types keys into a terminal, so there is no reference solution";
            notes.push(note.to_owned());
            return Ok(None);
        }
        let lines = read.iter().map(|it| format!("{}\n", it.command));
        format!("#!/bin/bash\n{}", lines.collect::<String>())
    } else {
        return Ok(None);
    };
    Ok(Some(Reference::Script(Solution {
        folder: named::absolute(folder),
        script: Some(text),
        env: BTreeMap::new(),
    })))
}

#[cfg(test)]
mod tests {
    use proctor_sandbox::docker::MountSource;
    use tempfile::TempDir;

    use super::*;

    fn load_with(compose: &str) -> (TempDir, Result<Task, ConfigError>) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let folder = Utf8Path::from_path(&folder).unwrap();
        for (name, text) in [
            ("task.yaml", "instruction: Greet.\n"),
            ("Dockerfile", "FROM a\n"),
            ("run-tests.sh", ""),
            ("db/Dockerfile", "FROM b\n"),
            ("seed.sql", ""),
            (COMPOSE_FILE, compose),
        ] {
            let path = folder.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        let task = load(folder, &BTreeMap::new(), &Settings::default());
        (dir, task)
    }

    #[test]
    fn services_are_read_with_the_variables_of_terminal_bench() {
        let (_dir, task) = load_with(
            r#"
services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [sh, -c, sleep infinity]
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}"]
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
    depends_on: [db]
  db:
    build: ./db
    container_name: ${T_BENCH_TASK_DOCKER_NAME_PREFIX}__db
    volumes: ["./seed.sql:/seed.sql"]
"#,
        );
        let task = task.unwrap_or_else(|error| panic!("{error}"));
        let environment = task.environment().unwrap();
        let compose = environment.compose.as_ref().unwrap();
        assert_eq!(compose.main_name, "client");
        assert_eq!(compose.main.env["TEST_DIR"], "/tests");
        assert!(compose.main.mounts.is_empty(), "{:?}", compose.main.mounts);
        assert!(
            matches!(&environment.image, Image::Build { dockerfile, .. } if dockerfile.file_name() == Some("Dockerfile"))
        );
        let [db] = compose.services.as_slice() else {
            panic!("{compose:?}");
        };
        assert_eq!(db.spec.name, "db");
        assert!(
            matches!(&db.spec.settings.mounts[0].source, MountSource::Copy(path) if path.ends_with("seed.sql"))
        );
        let why = task.needs_container().unwrap().to_string();
        assert!(why.contains("compose environment"), "{why}");
    }

    #[test]
    fn settings_of_the_only_service_are_read_too() {
        let (_dir, task) =
            load_with("services: {client: {build: ., ports: [80], cap_add: [NET_ADMIN]}}\n");
        let task = task.unwrap_or_else(|error| panic!("{error}"));
        let notes = task.notes.join("\n");
        assert!(notes.contains("`ports`"), "{notes}");
        let (_dir, task) = load_with("services: {client: {build: ., privileged: true}}\n");
        let error = task.unwrap_err().to_string();
        assert!(error.contains("`privileged`"), "{error}");
        let (_dir, task) = load_with("services: {main: {build: .}}\n");
        let error = task.unwrap_err().to_string();
        assert!(error.contains("no service `client`"), "{error}");
    }
}
