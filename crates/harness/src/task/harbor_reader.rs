//! Reads the tables of a `task.toml`: converts values, refuses unsupported ones with their
//! positions, and collects the features that require a container.

use std::{sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span, Value};
use proctor_record::fs::named;
use proctor_sandbox::{Network, docker::BuildOptions};
use serde_json::{Map, json};

use super::TaskTools;
use super::harbor_toml::{
    ArtifactEntry, EnvironmentTable, HealthcheckTable, Loose, McpTransport, NetworkMode, Number,
    Os, TaskToml, VerifierTable, WholeNumber, megabytes,
};
use crate::{
    evaluate::{Collect, CollectedArtifact, Verifier, VerifierMode},
    workspace::{Environment, Healthcheck, Image, NEEDS_DOCKER, Recipe, compose::compose_file},
};

const VERIFIER_TIMEOUT_SEC: f64 = 600.0;
const BUILD_TIMEOUT_SEC: f64 = 600.0;
const COLLECT_TIMEOUT_SEC: f64 = 60.0;

/// Collects faults, and features that require a container.
pub(super) struct HarborReader<'a> {
    pub(super) folder: &'a Utf8Path,
    pub(super) root: &'a Node,
    /// The key of the deciding reward among several.
    pub(super) reward_key: Option<String>,
    /// The faults.
    pub(super) faults: Vec<Fault>,
    /// Features that require a container.
    pub(super) local: Vec<Fault>,
}

impl HarborReader<'_> {
    /// The position of `key` in a table; the table's own if the key is missing.
    pub(super) fn span(&self, table: &str, key: &str) -> Span {
        let mut node = self.root;
        for part in table.split('.').filter(|part| !part.is_empty()) {
            // A number names an item of a list.
            let below = match &node.value {
                Value::List(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
                _ => node.get(part),
            };
            match below {
                Some(below) => node = below,
                None => return Span::default(),
            }
        }
        node.span_of(key)
    }

    pub(super) fn refuse(&mut self, table: &str, key: &str, what: &str) {
        let span = self.span(table, key);
        let message = format!("{what} is not supported");
        self.faults.push(Fault::new(span, message));
    }

    pub(super) fn refuse_unsupported(&mut self, written: &TaskToml) {
        if self.folder.join("trajectory.json").exists() {
            self.refuse("", "", "a task that starts from a `trajectory.json`");
        }
        let is_windows = written.environment.os == Some(Os::Windows);
        // A task of several steps or for Windows has its tests elsewhere.
        let has_tests = is_windows || self.folder.join("tests/test.sh").is_file();
        if written.steps.is_empty() && !has_tests {
            let message = if self.folder.join("steps").is_dir() {
                "the task has a folder `steps`, but task.toml has no `[[steps]]`"
            } else {
                "the task has no tests/test.sh"
            };
            self.faults.push(Fault::new(Span::default(), message));
        }
        if let Some(file) = compose_file(&self.folder.join("tests")) {
            let what = format!("a compose environment of the verifier (tests/{file})");
            self.refuse("", "", &what);
        }
    }

    pub(super) fn environment(&mut self, written: &TaskToml, path: &str) -> Environment {
        let table = &written.environment;
        let context = self.folder.join("environment");
        let mut environment = self.container("environment", table, &context);
        let agent = &written.agent;
        environment.user = agent.user.as_ref().map(|user| user.0.clone());
        let own = self.network("agent", agent.network_mode, agent.allowed_hosts.as_ref());
        environment.network = own.or(environment.network);
        if environment.healthcheck.is_some() {
            self.needs_container("environment", "healthcheck", "a `healthcheck`");
        }
        if compose_file(&context).is_some() {
            self.needs_container("", "", "a compose environment");
        } else {
            environment.local = self.recipe(&environment, path);
        }
        environment
    }

    /// How the workspace is created without a container.
    fn recipe(
        &mut self,
        environment: &Environment,
        path: &str,
    ) -> Result<Arc<Recipe>, ConfigError> {
        let Image::Build {
            context,
            dockerfile,
            ..
        } = &environment.image
        else {
            self.needs_container("environment", "docker_image", "a `docker_image`");
            let fault = Fault::new(Span::default(), "the task has no Dockerfile");
            return Err(ConfigError::whole(self.folder, fault));
        };
        let text = fs_err::read_to_string(dockerfile)
            .map_err(|error| ConfigError::unreadable(dockerfile, &error))?;
        let workdir = environment.workdir.as_deref();
        match Recipe::read(&text, context, workdir, path) {
            Ok(recipe) => Ok(Arc::new(recipe)),
            Err(faults) => Err(ConfigError {
                path: dockerfile.clone(),
                text: Some(text),
                faults,
            }),
        }
    }

    pub(super) fn needs_container(&mut self, table: &str, key: &str, what: &str) {
        let span = self.span(table, key);
        let fault = Fault::new(span, format!("{what} has no effect without a container"));
        self.local.push(fault.with_hint(NEEDS_DOCKER));
    }

    /// Reads a table of the environment's kind.
    fn container(&mut self, at: &str, table: &EnvironmentTable, context: &Utf8Path) -> Environment {
        if table.os == Some(Os::Windows) {
            self.refuse(at, "os", "a task for Windows");
        }
        if table.gpus.is_some_and(|gpus| gpus.0 > 0) {
            self.refuse(at, "gpus", "a task that needs `gpus`");
        }
        if table.tpu.is_some() {
            self.refuse(at, "tpu", "a task that needs a `tpu`");
        }
        let network = self.network(at, table.network_mode, table.allowed_hosts.as_ref());
        let old = table.allow_internet.map(|is_open| {
            if is_open {
                Network::Open
            } else {
                Network::None
            }
        });
        let build = self.seconds(
            at,
            "build_timeout_sec",
            Some(table.build_timeout_sec.unwrap_or(Number(BUILD_TIMEOUT_SEC))),
        );
        Environment {
            image: self.image(at, table, context),
            build_timeout: build.unwrap_or_default(),
            cpus: self.cpus(at, table.cpus),
            memory_mb: self.size(at, "memory", table.memory_mb, table.memory.as_ref()),
            storage_mb: self.size(at, "storage", table.storage_mb, table.storage.as_ref()),
            pids: None,
            workdir: self.workdir(at, table.workdir.as_deref()),
            env: table.env.clone(),
            user: None,
            network: network.or(old),
            healthcheck: table
                .healthcheck
                .as_ref()
                .map(|check| self.healthcheck(at, check)),
            compose: None,
            local: Err(ConfigError::whole(
                context,
                Fault::new(Span::default(), "the task requires a container")
                    .with_hint(NEEDS_DOCKER),
            )),
        }
    }

    /// The tools that the task gives to its agent.
    pub(super) fn tools(&mut self, table: &EnvironmentTable) -> TaskTools {
        let mut mcp_servers = Map::new();
        for (number, server) in table.mcp_servers.iter().enumerate() {
            let at = format!("environment.mcp_servers.{number}");
            self.needs_container("environment", "mcp_servers", "an MCP server");
            let (url, headers) = (&server.url, &server.headers);
            let is_stdio = server.transport == McpTransport::Stdio;
            let (needed, is_missing) = if is_stdio {
                ("command", server.command.is_none())
            } else {
                ("url", url.is_none())
            };
            if is_missing || (is_stdio && !headers.is_empty()) {
                let message = if is_missing {
                    format!("this MCP server needs a `{needed}`")
                } else {
                    "an MCP server with a `command` has no `headers`".to_owned()
                };
                let fault = Fault::new(self.span(&at, "name"), message);
                self.faults.push(fault);
            }
            let server_config = match server.transport {
                McpTransport::Stdio => {
                    json!({"type": "stdio", "command": server.command, "args": server.args})
                }
                McpTransport::Sse => json!({"type": "sse", "url": url, "headers": headers}),
                McpTransport::StreamableHttp => {
                    json!({"type": "http", "url": url, "headers": headers})
                }
            };
            // As in Harbor, a later server replaces an earlier one of its name.
            mcp_servers.insert(server.name.clone(), server_config);
        }
        if table.skills_dir.is_some() {
            self.needs_container("environment", "skills_dir", "a `skills_dir`");
        }
        TaskTools {
            mcp_servers,
            skills_dir: table.skills_dir.clone().map(Into::into),
        }
    }

    fn image(&mut self, at: &str, table: &EnvironmentTable, context: &Utf8Path) -> Image {
        let dockerfile = context.join("Dockerfile");
        let named = table.docker_image.as_ref();
        match named.filter(|name| !name.trim().is_empty()) {
            // As in Harbor, a prebuilt image takes precedence over the Dockerfile.
            Some(name) => return Image::Named(name.clone()),
            // A compose file may define the image.
            None if !dockerfile.is_file() && compose_file(context).is_none() => {
                let message = format!("missing {dockerfile} or `docker_image`");
                self.faults.push(Fault::new(self.span("", at), message));
            }
            None => {}
        }
        Image::Build {
            context: context.to_owned(),
            dockerfile,
            options: BuildOptions::default(),
        }
    }

    fn cpus(&mut self, at: &str, cpus: Option<Number>) -> Option<f64> {
        let cpus = cpus.map(|cpus| cpus.0);
        let is_bad = cpus.is_some_and(|cpus| !(cpus > 0.0 && cpus.is_finite()));
        if is_bad {
            let fault = Fault::new(self.span(at, "cpus"), "`cpus` must be more than 0");
            self.faults.push(fault);
        }
        cpus
    }

    fn size(
        &mut self,
        at: &str,
        key: &str,
        mb: Option<WholeNumber>,
        old: Option<&Loose>,
    ) -> Option<u64> {
        let new_key = format!("{key}_mb");
        let mb = mb.map(|mb| mb.0);
        // As in Harbor, an old size that is not text has no effect.
        match (mb, old.and_then(|old| old.0.as_deref())) {
            (Some(mb), Some(old)) if megabytes(old) != Some(mb) => {
                let message = format!("`{new_key}` and the old `{key}` differ");
                self.faults.push(Fault::new(self.span(at, key), message));
                None
            }
            (Some(0), _) => {
                let fault = Fault::new(
                    self.span(at, &new_key),
                    format!("`{new_key}` must be at least 1"),
                );
                self.faults.push(fault);
                None
            }
            (Some(mb), _) => Some(mb),
            (None, None) => None,
            (None, Some(old)) => {
                let size = megabytes(old);
                if size.is_none() {
                    let message = format!("`{key}` must be a size such as \"2G\"");
                    self.faults.push(Fault::new(self.span(at, key), message));
                }
                size
            }
        }
    }

    fn workdir(&mut self, at: &str, workdir: Option<&str>) -> Option<Utf8PathBuf> {
        let path = workdir.map(Utf8PathBuf::from);
        if path
            .as_ref()
            .is_some_and(|path| !path.as_str().starts_with('/'))
        {
            let span = self.span(at, "workdir");
            let message = "`workdir` must be an absolute path, such as /app";
            self.faults.push(Fault::new(span, message));
        }
        path
    }

    /// Reads the `healthcheck` of the table `at`.
    pub(super) fn healthcheck(&mut self, at: &str, check: &HealthcheckTable) -> Healthcheck {
        let at = format!("{at}.healthcheck");
        let mut seconds = |key: &str, value: Option<Number>, other: f64| {
            let Number(value) = value.unwrap_or(Number(other));
            let time = Duration::try_from_secs_f64(value).ok();
            if time.is_none() {
                let message = format!("`{key}` must be a number of seconds");
                self.faults.push(Fault::new(self.span(&at, key), message));
            }
            time.unwrap_or_default()
        };
        Healthcheck {
            command: check.command.clone(),
            interval: seconds("interval_sec", check.interval_sec, 5.0),
            timeout: seconds("timeout_sec", check.timeout_sec, 30.0),
            start_period: seconds("start_period_sec", check.start_period_sec, 0.0),
            start_interval: seconds("start_interval_sec", check.start_interval_sec, 5.0),
            retries: check
                .retries
                .map_or(3, |it| u32::try_from(it.0).unwrap_or(u32::MAX)),
        }
    }

    pub(super) fn network(
        &mut self,
        at: &str,
        mode: Option<NetworkMode>,
        hosts: Option<&Vec<String>>,
    ) -> Option<Network> {
        match (mode, hosts) {
            (Some(NetworkMode::Allowlist), Some(hosts)) if !hosts.is_empty() => {
                Some(Network::Allowlist(hosts.clone()))
            }
            // No host but the gateway.
            (Some(NetworkMode::Allowlist), _) => Some(Network::Gateway),
            (mode, Some(hosts)) if !hosts.is_empty() => {
                let span = self.span(at, "allowed_hosts");
                let message =
                    "`allowed_hosts` has no effect without `network_mode = \"allowlist\"`";
                self.faults.push(Fault::new(span, message));
                mode.map(|_| Network::Open)
            }
            (Some(NetworkMode::Public), _) => Some(Network::Open),
            (Some(NetworkMode::NoNetwork), _) => Some(Network::None),
            (None, _) => None,
        }
    }

    /// A positive time in seconds.
    pub(super) fn seconds(
        &mut self,
        table: &str,
        key: &str,
        value: Option<Number>,
    ) -> Option<Duration> {
        let Number(value) = value?;
        let time = Duration::try_from_secs_f64(value).ok();
        let time = time.filter(|time| !time.is_zero());
        if time.is_none() {
            let message = format!("`{key}` must be a positive number of seconds");
            self.faults.push(Fault::new(self.span(table, key), message));
        }
        time
    }

    /// The verifier of a task, or of one of its steps. `tests` are folders whose files are merged:
    /// later ones replace earlier ones.
    pub(super) fn verifier(
        &mut self,
        at: &str,
        (table, artifacts): (&VerifierTable, &[ArtifactEntry]),
        tests: &[Utf8PathBuf],
        environment: &Environment,
    ) -> Verifier {
        let mode = table.environment_mode.unwrap_or(match &table.environment {
            Some(_) => VerifierMode::Separate,
            None => VerifierMode::Shared,
        });
        let has_image = |folder: &&Utf8PathBuf| folder.join("Dockerfile").is_file();
        let with_image = tests.iter().rev().find(has_image);
        let context = with_image.or(tests.first());
        let context = context.map_or(self.folder, Utf8PathBuf::as_path);
        let own = match &table.environment {
            Some(own) => Some(self.container(&format!("{at}.environment"), own, context)),
            None if mode == VerifierMode::Separate && with_image.is_some() => {
                Some(self.container(at, &EnvironmentTable::default(), context))
            }
            None => None,
        };
        if own.is_some() && mode == VerifierMode::Shared {
            let span = self.span(at, "environment_mode");
            let message = "a shared verifier cannot have its own environment";
            self.faults.push(Fault::new(span, message));
        }
        if own.is_some() {
            let what = "a verifier with its own environment";
            self.needs_container(at, "environment", what);
        }
        if !table.collect.is_empty() {
            self.needs_container(at, "collect", "`verifier.collect`");
        }
        let timeout = table.timeout_sec.unwrap_or(Number(VERIFIER_TIMEOUT_SEC));
        let timeout = self.seconds(at, "timeout_sec", Some(timeout));
        Verifier {
            mode,
            tests: tests.iter().map(|folder| named::absolute(folder)).collect(),
            run_tests: None,
            env: table.env.clone(),
            local_env: environment.local_env(),
            user: table.user.as_ref().map(|user| user.0.clone()),
            timeout: timeout.unwrap_or_default(),
            network: self.network(at, table.network_mode, table.allowed_hosts.as_ref()),
            environment: own.map(Box::new),
            collect: self.collect(at, table),
            artifacts: self.artifacts(artifacts),
            reward_key: self.reward_key.clone(),
        }
    }

    fn artifacts(&mut self, entries: &[ArtifactEntry]) -> Vec<CollectedArtifact> {
        if !entries.is_empty() {
            self.needs_container("", "artifacts", "`artifacts`");
        }
        let mut found = Vec::new();
        for ArtifactEntry(entry) in entries {
            if entry.service.as_deref().is_some_and(|name| name != "main") {
                self.refuse("", "artifacts", "an artifact of a compose `service`");
            }
            found.push(CollectedArtifact {
                source: entry.source.clone().into(),
                destination: entry.destination.clone().map(Into::into),
                exclude: entry.exclude.clone(),
            });
        }
        found
    }

    fn collect(&mut self, at: &str, table: &VerifierTable) -> Vec<Collect> {
        let mut found = Vec::new();
        for (number, entry) in table.collect.iter().enumerate() {
            let at = format!("{at}.collect.{number}");
            if entry.service.as_deref().is_some_and(|name| name != "main") {
                self.refuse(&at, "service", "a compose `service`");
            }
            let timeout = entry.timeout_sec.unwrap_or(Number(COLLECT_TIMEOUT_SEC));
            let timeout = self.seconds(&at, "timeout_sec", Some(timeout));
            found.push(Collect {
                command: entry.command.clone(),
                timeout: timeout.unwrap_or_default(),
                user: entry.user.as_ref().map(|user| user.0.clone()),
            });
        }
        found
    }
}
