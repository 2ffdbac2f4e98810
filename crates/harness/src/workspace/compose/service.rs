//! Reads one service of a compose file.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node, Value};
use proctor_process::Readiness;
use proctor_record::fs::named;
use proctor_sandbox::docker::{
    BuildOptions, MountSource, Restart, ServiceCheck, ServiceMount, ServiceSettings, ServiceSpec,
    StartCondition,
};

use super::{ComposeContext, ServiceImage, file::entries, values};
use crate::workspace::Image;

/// Capabilities that do not lead out of a container.
const CAPABILITIES: [&str; 6] = [
    "NET_ADMIN",
    "NET_RAW",
    "SYS_PTRACE",
    "SYS_NICE",
    "IPC_LOCK",
    "SYS_RESOURCE",
];
/// The folders of logs, which Proctor copies. Old tasks mount them.
const LOGS: [&str; 4] = ["/logs", "/logs/verifier", "/logs/agent", "/logs/artifacts"];
/// Keys that are about the terminal, the registry, or how Compose shows and stops things.
const WITHOUT_EFFECT: [&str; 14] = [
    "attach",
    "container_name",
    "expose",
    "labels",
    "logging",
    "platform",
    "ports",
    "pull_policy",
    "scale",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "tty",
    "annotations",
];

/// A service as written.
pub(super) struct ReadService {
    pub(super) image: ServiceImage,
    pub(super) spec: ServiceSpec,
    /// Whether it has `profiles`.
    pub(super) is_optional: bool,
}

impl ReadService {
    /// A service of which nothing is written.
    pub(super) fn plain(name: &str) -> ReadService {
        ReadService {
            image: ServiceImage::Main,
            spec: ServiceSpec {
                name: name.to_owned(),
                settings: ServiceSettings {
                    networks: BTreeMap::from([("default".to_owned(), Vec::new())]),
                    ..ServiceSettings::default()
                },
                depends_on: BTreeMap::new(),
                check: ServiceCheck::Image,
            },
            is_optional: false,
        }
    }

    /// The image of the main service.
    pub(super) fn own_image(&self, context: &ComposeContext<'_>) -> Image {
        match &self.image {
            ServiceImage::Main => context.image.clone(),
            ServiceImage::Own(image) => image.clone(),
        }
    }
}

/// Reads the keys of one service.
pub(super) struct ServiceReader<'a> {
    context: &'a ComposeContext<'a>,
    name: &'a str,
    pub(super) faults: Vec<Fault>,
    pub(super) notes: Vec<String>,
}

impl<'a> ServiceReader<'a> {
    pub(super) fn new(context: &'a ComposeContext<'a>, name: &'a str) -> Self {
        Self {
            context,
            name,
            faults: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn refuse(&mut self, node: &Node, what: &str) {
        let message = format!("{what} of the service `{}` is not supported", self.name);
        self.faults.push(Fault::new(node.span, message));
    }

    fn bad(&mut self, node: &Node, key: &str) {
        let message = format!(
            "invalid `{key}` of the service `{}`: {}",
            self.name, node.value
        );
        self.faults.push(Fault::new(node.span, message));
    }

    /// The value of a key, or a fault.
    fn value<T>(&mut self, key: &str, node: &Node, value: Option<T>) -> Option<T> {
        if value.is_none() && node.value != Value::Null {
            self.bad(node, key);
        }
        value
    }

    pub(super) fn read(&mut self, node: &Node) -> Option<ReadService> {
        let mut read = ReadService::plain(self.name);
        if !matches!(node.value, Value::Map(_) | Value::Null) {
            self.bad(node, self.name);
            return None;
        }
        // Files first: `environment` takes precedence over them.
        if let Some(files) = node.get("env_file") {
            self.env_files(files, &mut read.spec.settings.env);
        }
        for (key, value) in entries(node) {
            self.key(key, value, &mut read);
        }
        read.image = self.image(node)?;
        // The name of a container is also its name in the network.
        let own_name = node.get("container_name").and_then(values::text);
        for aliases in read.spec.settings.networks.values_mut() {
            aliases.extend(own_name.clone());
        }
        Some(read)
    }

    fn key(&mut self, key: &str, node: &Node, read: &mut ReadService) {
        let settings = &mut read.spec.settings;
        match key {
            "image" | "build" | "env_file" => {}
            "command" => settings.command = self.value(key, node, values::command(node)),
            "entrypoint" => settings.entrypoint = self.value(key, node, values::command(node)),
            "environment" => {
                let env = self.value(key, node, values::pairs(node));
                settings.env.extend(env.unwrap_or_default());
            }
            "working_dir" => settings.workdir = self.value(key, node, values::text(node)),
            "user" => settings.user = self.value(key, node, values::text(node)),
            "hostname" => settings.hostname = self.value(key, node, values::text(node)),
            "init" => settings.has_init = values::text(node).as_deref() == Some("true"),
            "restart" => settings.restart = self.restart(node),
            "shm_size" => settings.shm_size = self.value(key, node, values::bytes(node)),
            "tmpfs" => {
                let paths = self
                    .value(key, node, values::texts(node))
                    .unwrap_or_default();
                settings.tmpfs.extend(paths);
            }
            "extra_hosts" => settings.extra_hosts = self.extra_hosts(node),
            "cap_add" => settings.capabilities = self.capabilities(node),
            "networks" => settings.networks = self.networks(node),
            "network_mode" => match values::text(node).as_deref() {
                Some("none") => settings.networks.clear(),
                Some("bridge" | "default") => {}
                _ => self.refuse(node, "this `network_mode`"),
            },
            "volumes" => settings.mounts = self.volumes(node),
            "depends_on" => read.spec.depends_on = self.depends_on(node),
            "healthcheck" => read.spec.check = self.healthcheck(node),
            "profiles" => read.is_optional = true,
            "mem_limit" => settings.limits.memory = self.value(key, node, values::bytes(node)),
            "cpus" => settings.limits.cpus = self.number(key, node),
            "pids_limit" => {
                let number = values::text(node).and_then(|text| text.parse().ok());
                settings.limits.pids = self.value(key, node, number);
            }
            "deploy" => self.deploy(node, read),
            "privileged" | "read_only" if values::text(node).as_deref() == Some("false") => {}
            key if WITHOUT_EFFECT.contains(&key) || key.starts_with("x-") => {
                if key == "ports" {
                    let name = self.name;
                    self.notes
                        .push(format!("`ports` of the service `{name}` are not published"));
                }
            }
            key => self.refuse(node, &format!("`{key}`")),
        }
    }

    fn image(&mut self, node: &Node) -> Option<ServiceImage> {
        let named = node.get("image").and_then(values::text);
        let named = named.filter(|name| !name.is_empty());
        let is_main = self.name == self.context.main;
        match (node.get("build"), named) {
            (Some(build), _) if build.value != Value::Null => {
                // A prebuilt image takes precedence over the build of the main service.
                if is_main && matches!(self.context.image, Image::Named(_)) {
                    return Some(ServiceImage::Main);
                }
                self.build(build).map(ServiceImage::Own)
            }
            (_, Some(name)) if name == self.context.image_name => Some(ServiceImage::Main),
            // Harbor builds the main service even if it has an image, which names the result.
            (_, Some(_)) if is_main && self.has_dockerfile() => Some(ServiceImage::Main),
            (_, Some(name)) => Some(ServiceImage::Own(Image::Named(name))),
            (_, None) if is_main => Some(ServiceImage::Main),
            (_, None) => {
                let message = format!(
                    "the service `{}` has neither `image` nor `build`",
                    self.name
                );
                self.faults.push(Fault::new(node.span, message));
                None
            }
        }
    }

    /// Whether the main service is built without a `build` of its own.
    fn has_dockerfile(&self) -> bool {
        matches!(&self.context.image, Image::Build { dockerfile, .. } if dockerfile.is_file())
    }

    fn build(&mut self, node: &Node) -> Option<Image> {
        let mut context = values::text(node).unwrap_or_else(|| ".".to_owned());
        let mut dockerfile = "Dockerfile".to_owned();
        let mut options = BuildOptions::default();
        for (key, value) in entries(node) {
            match key {
                "context" => context = self.value(key, value, values::text(value))?,
                "dockerfile" => dockerfile = self.value(key, value, values::text(value))?,
                "args" => options.args = self.value(key, value, values::pairs(value))?,
                "target" => options.target = values::text(value),
                "network" | "labels" | "tags" | "cache_from" | "platforms" | "pull" => {}
                key => self.refuse(value, &format!("`build.{key}`")),
            }
        }
        let context = named::absolute(&self.context.folder.join(context));
        let dockerfile = context.join(dockerfile);
        if !dockerfile.is_file() {
            let message = format!("the service `{}` has no {dockerfile}", self.name);
            self.faults.push(Fault::new(node.span, message));
        }
        Some(Image::Build {
            context,
            dockerfile,
            options,
        })
    }

    fn env_files(&mut self, node: &Node, env: &mut BTreeMap<String, String>) {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            let path = item.get("path").unwrap_or(item);
            let Some(path) = self.value("env_file", path, values::text(path)) else {
                continue;
            };
            let is_optional = item.get("required").and_then(values::text);
            let path = self.context.folder.join(path);
            match fs_err::read_to_string(&path) {
                Ok(text) => env.extend(values::env_file(&text)),
                Err(_) if is_optional.as_deref() == Some("false") => {}
                Err(error) => {
                    let message = format!("cannot read `env_file`: {error}");
                    self.faults.push(Fault::new(item.span, message));
                }
            }
        }
    }

    fn restart(&mut self, node: &Node) -> Restart {
        let text = match &node.value {
            // `no` may be written without quotes.
            Value::Bool(false) => "no".to_owned(),
            _ => values::text(node).unwrap_or_default(),
        };
        match text.split(':').next().unwrap_or_default() {
            "always" | "unless-stopped" => Restart::Always,
            "on-failure" => Restart::OnFailure,
            "no" | "" => Restart::No,
            _ => {
                self.bad(node, "restart");
                Restart::No
            }
        }
    }

    fn extra_hosts(&mut self, node: &Node) -> Vec<String> {
        let hosts = match &node.value {
            Value::Map(_) => values::pairs(node).map(|all| {
                let lines = all.into_iter().map(|(name, ip)| format!("{name}:{ip}"));
                lines.collect()
            }),
            _ => values::texts(node),
        };
        let hosts: Vec<String> = self.value("extra_hosts", node, hosts).unwrap_or_default();
        if hosts.iter().any(|host| host.contains("host-gateway")) {
            self.refuse(node, "`host-gateway`");
        }
        hosts
            .into_iter()
            .map(|host| host.replacen('=', ":", 1))
            .collect()
    }

    fn capabilities(&mut self, node: &Node) -> Vec<String> {
        let names = self
            .value("cap_add", node, values::texts(node))
            .unwrap_or_default();
        for name in &names {
            let plain = name.strip_prefix("CAP_").unwrap_or(name);
            if !CAPABILITIES.contains(&plain) {
                self.refuse(node, &format!("the capability `{name}`"));
            }
        }
        names
    }

    fn networks(&mut self, node: &Node) -> BTreeMap<String, Vec<String>> {
        if !matches!(node.value, Value::Map(_)) {
            let names = self.value("networks", node, values::texts(node));
            let names = names.unwrap_or_default().into_iter();
            return names.map(|name| (name, Vec::new())).collect();
        }
        let mut found = BTreeMap::new();
        for (name, node) in entries(node) {
            let mut aliases = Vec::new();
            for (key, value) in entries(node) {
                match key {
                    "aliases" => aliases = values::texts(value).unwrap_or_default(),
                    key => self.refuse(value, &format!("`networks.{name}.{key}`")),
                }
            }
            found.insert(name.to_owned(), aliases);
        }
        found
    }

    fn volumes(&mut self, node: &Node) -> Vec<ServiceMount> {
        let Value::List(items) = &node.value else {
            self.bad(node, "volumes");
            return Vec::new();
        };
        let found = items.iter().filter_map(|item| match &item.value {
            Value::Map(_) => self.long_volume(item),
            _ => self.short_volume(item),
        });
        found.collect()
    }

    /// `SOURCE:TARGET[:ro]`, or a path of an anonymous volume.
    fn short_volume(&mut self, node: &Node) -> Option<ServiceMount> {
        let text = self.value("volumes", node, values::text(node))?;
        let parts: Vec<&str> = text.split(':').collect();
        let (source, target, options) = match parts[..] {
            [target] => ("", target, ""),
            [source, target] => (source, target, ""),
            [source, target, options] => (source, target, options),
            _ => {
                self.bad(node, "volumes");
                return None;
            }
        };
        let source = match source {
            "" => MountSource::Anonymous,
            path if path.starts_with(['.', '/', '~']) => {
                return self.host_mount(node, path, target, options);
            }
            name => MountSource::Volume(name.to_owned()),
        };
        self.mount(node, source, target, options)
    }

    fn long_volume(&mut self, node: &Node) -> Option<ServiceMount> {
        let text = |key: &str| node.get(key).and_then(values::text).unwrap_or_default();
        let (source, target) = (text("source"), text("target"));
        let options = if text("read_only") == "true" {
            "ro"
        } else {
            ""
        };
        match text("type").as_str() {
            "bind" => self.host_mount(node, &source, &target, options),
            "volume" if source.is_empty() => {
                self.mount(node, MountSource::Anonymous, &target, options)
            }
            "volume" => self.mount(node, MountSource::Volume(source), &target, options),
            "tmpfs" => self.mount(node, MountSource::Memory, &target, options),
            _ => {
                self.bad(node, "volumes");
                None
            }
        }
    }

    /// A file or folder of the task. The container gets a copy: the task itself never changes.
    fn host_mount(
        &mut self,
        node: &Node,
        source: &str,
        target: &str,
        options: &str,
    ) -> Option<ServiceMount> {
        if LOGS.contains(&target) && source == target {
            return None;
        }
        let path = named::absolute(&self.context.folder.join(source));
        let path = normal(&path);
        let task = named::absolute(&self.context.task);
        if !path.starts_with(&task) {
            let what = format!("the volume `{source}` outside the task");
            self.refuse(node, &what);
            return None;
        }
        self.mount(node, MountSource::Copy(path.into()), target, options)
    }

    fn mount(
        &mut self,
        node: &Node,
        source: MountSource,
        target: &str,
        options: &str,
    ) -> Option<ServiceMount> {
        if !target.starts_with('/') {
            self.bad(node, "volumes");
            return None;
        }
        Some(ServiceMount {
            source,
            inside: target.to_owned(),
            read_only: options.split(',').any(|option| option == "ro"),
        })
    }

    fn depends_on(&mut self, node: &Node) -> BTreeMap<String, StartCondition> {
        if !matches!(node.value, Value::Map(_)) {
            let names = self.value("depends_on", node, values::texts(node));
            let names = names.unwrap_or_default().into_iter();
            return names.map(|name| (name, StartCondition::Started)).collect();
        }
        let mut found = BTreeMap::new();
        for (name, needs) in entries(node) {
            let condition = needs.get("condition").and_then(values::text);
            let condition = match condition.as_deref() {
                None | Some("service_started") => StartCondition::Started,
                Some("service_healthy") if name == self.context.main => {
                    self.refuse(needs, "waiting for the health of the main service");
                    continue;
                }
                Some("service_healthy") => StartCondition::Healthy,
                Some("service_completed_successfully") => StartCondition::Completed,
                Some(_) => {
                    self.bad(needs, "depends_on");
                    continue;
                }
            };
            found.insert(name.to_owned(), condition);
        }
        found
    }

    fn healthcheck(&mut self, node: &Node) -> ServiceCheck {
        let disabled = node.get("disable").and_then(values::text);
        if disabled.as_deref() == Some("true") {
            return ServiceCheck::None;
        }
        let argv = match node.get("test").map(|test| &test.value) {
            Some(Value::String(line)) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            Some(Value::List(items)) => {
                let mut words: Vec<String> = items.iter().filter_map(values::text).collect();
                match words.first().map(String::as_str) {
                    Some("NONE") => return ServiceCheck::None,
                    Some("CMD") => words.split_off(1),
                    Some("CMD-SHELL") => {
                        let shell = ["sh".to_owned(), "-c".to_owned()];
                        shell.into_iter().chain(words.split_off(1)).collect()
                    }
                    _ => {
                        self.bad(node, "healthcheck.test");
                        return ServiceCheck::None;
                    }
                }
            }
            _ => return ServiceCheck::Image,
        };
        let mut time = |key: &str, other: u64| {
            let Some(node) = node.get(key) else {
                return Duration::from_secs(other);
            };
            let time = self.value(&format!("healthcheck.{key}"), node, values::duration(node));
            time.unwrap_or_default()
        };
        ServiceCheck::Own(Readiness {
            argv,
            interval: time("interval", 30),
            timeout: time("timeout", 30),
            start_period: time("start_period", 0),
            start_interval: time("start_interval", 5),
            retries: node
                .get("retries")
                .and_then(values::text)
                .and_then(|text| text.parse().ok())
                .unwrap_or(3),
        })
    }

    fn number(&mut self, key: &str, node: &Node) -> Option<f64> {
        let text = values::text(node).filter(|text| !text.is_empty())?;
        self.value(key, node, text.parse().ok())
    }

    /// `deploy.resources.limits`; reservations have no effect on one machine.
    fn deploy(&mut self, node: &Node, read: &mut ReadService) {
        for (key, value) in entries(node) {
            match key {
                "resources" => {}
                "replicas" if values::text(value).as_deref() == Some("1") => {}
                key => self.refuse(value, &format!("`deploy.{key}`")),
            }
        }
        let resources = node.get("resources");
        if let Some(devices) = resources
            .and_then(|it| it.get("reservations"))
            .and_then(|it| it.get("devices"))
        {
            self.refuse(devices, "`devices`");
        }
        let limits = resources.and_then(|it| it.get("limits"));
        let Some(limits) = limits else { return };
        let of = |key: &str| {
            let node = limits.get(key)?;
            let is_set = values::text(node).is_some_and(|text| !text.is_empty());
            is_set.then_some(node)
        };
        let settings = &mut read.spec.settings;
        if let Some(node) = of("cpus") {
            settings.limits.cpus = self.number("cpus", node);
        }
        if let Some(node) = of("memory") {
            settings.limits.memory = self.value("memory", node, values::bytes(node));
        }
        if let Some(node) = of("pids") {
            let number = values::text(node).and_then(|text| text.parse().ok());
            settings.limits.pids = self.value("pids", node, number);
        }
    }
}

/// A path without `.` and `..`.
fn normal(path: &Utf8Path) -> Utf8PathBuf {
    let mut parts = Utf8PathBuf::new();
    for part in path.components() {
        match part.as_str() {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}
