//! Reads a compose file.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault, Format, Node, Value};
use proctor_record::fs::dir;

use super::{
    Compose, ComposeContext, Sidecar,
    service::{ReadService, ServiceReader},
    values,
    variables::Substitution,
};

/// The names of compose files, in Compose's order of precedence for tasks.
const COMPOSE_FILES: [&str; 4] = [
    "docker-compose.yaml",
    "docker-compose.yml",
    "compose.yaml",
    "compose.yml",
];

/// The compose file of a folder.
pub fn compose_file(folder: &Utf8Path) -> Option<&'static str> {
    let mut files = COMPOSE_FILES.into_iter();
    files.find(|file| folder.join(file).exists())
}

/// Reads and checks a compose file. A file without the main service gets one, as in Harbor.
pub fn read(path: &Utf8Path, context: &ComposeContext<'_>) -> Result<Compose, ConfigError> {
    let text =
        fs_err::read_to_string(path).map_err(|error| ConfigError::unreadable(path, &error))?;
    let failed = |faults: Vec<Fault>| ConfigError {
        path: path.to_owned(),
        text: Some(text.clone()),
        faults,
    };
    let mut root = Format::of(path).parse(&text).map_err(failed)?;
    let mut filled = Substitution {
        values: &context.variables,
        unset: BTreeSet::new(),
        faults: Vec::new(),
    };
    filled.fill(&mut root);
    let (unset, faults) = (filled.unset, filled.faults);
    let mut reader = FileReader {
        context,
        faults,
        notes: Vec::new(),
        networks: BTreeMap::new(),
        volumes: BTreeSet::new(),
    };
    if !unset.is_empty() {
        let names: Vec<String> = unset.into_iter().collect();
        let names = names.join(", ");
        reader.notes.push(format!(
            "variables of the compose file that are unset and therefore empty: {names}"
        ));
    }
    match reader.read(&root) {
        Some(compose) if reader.faults.is_empty() => Ok(compose),
        _ => Err(failed(reader.faults)),
    }
}

struct FileReader<'a> {
    context: &'a ComposeContext<'a>,
    faults: Vec<Fault>,
    notes: Vec<String>,
    networks: BTreeMap<String, bool>,
    volumes: BTreeSet<String>,
}

impl FileReader<'_> {
    fn read(&mut self, root: &Node) -> Option<Compose> {
        let Value::Map(entries) = &root.value else {
            let message = "a compose file must be a map with `services`";
            self.faults.push(Fault::new(root.span, message));
            return None;
        };
        let mut services = &[][..];
        for (span, key, node) in entries {
            match key.as_str() {
                "services" => match &node.value {
                    Value::Map(all) => services = all,
                    Value::Null => {}
                    _ => self
                        .faults
                        .push(Fault::new(node.span, "`services` must be a map")),
                },
                "networks" => self.networks(node),
                "volumes" => self.volumes(node),
                // The version has had no meaning for years.
                "version" | "name" => {}
                key if key.starts_with("x-") => {}
                key => {
                    let message = format!("`{key}` of a compose file is not supported");
                    self.faults.push(Fault::new(*span, message));
                }
            }
        }
        let mut main = None;
        let mut sidecars = Vec::new();
        for (_, name, node) in services {
            let Some(read) = self.service(name, node) else {
                continue;
            };
            if name == self.context.main {
                main = Some(read);
            } else if read.is_optional {
                self.notes.push(format!(
                    "service `{name}` has `profiles` and is not started"
                ));
            } else {
                sidecars.push(read);
            }
        }
        let main = main.unwrap_or_else(|| ReadService::plain(self.context.main));
        self.check_dependencies(root, &main, &sidecars);
        Some(self.assemble(main, sidecars))
    }

    fn service(&mut self, name: &str, node: &Node) -> Option<ReadService> {
        let mut reader = ServiceReader::new(self.context, name);
        let read = reader.read(node);
        self.faults.append(&mut reader.faults);
        self.notes.append(&mut reader.notes);
        read
    }

    fn networks(&mut self, node: &Node) {
        for (name, node) in entries(node) {
            let mut is_internal = false;
            for (key, value) in entries(node) {
                match (key, values::text(value).as_deref()) {
                    ("internal", Some("true")) => is_internal = true,
                    ("internal" | "name" | "attachable" | "labels", _)
                    | ("driver", Some("bridge" | "default")) => {}
                    _ => {
                        let message = format!("`{key}` of the network `{name}` is not supported");
                        self.faults.push(Fault::new(value.span, message));
                    }
                }
            }
            self.networks.insert(name.to_owned(), is_internal);
        }
    }

    fn volumes(&mut self, node: &Node) {
        for (name, node) in entries(node) {
            for (key, value) in entries(node) {
                match (key, values::text(value).as_deref()) {
                    ("name" | "labels", _) | ("driver", Some("local")) => {}
                    _ => {
                        let message = format!("`{key}` of the volume `{name}` is not supported");
                        self.faults.push(Fault::new(value.span, message));
                    }
                }
            }
            self.volumes.insert(name.to_owned());
        }
    }

    /// Refuses names that do not exist, and cycles.
    fn check_dependencies(&mut self, root: &Node, main: &ReadService, all: &[ReadService]) {
        let services: Vec<&ReadService> = all.iter().chain([main]).collect();
        let span = root.span_of("services");
        for service in &services {
            let name = &service.spec.name;
            for needed in service.spec.depends_on.keys() {
                if !services.iter().any(|it| it.spec.name == *needed) {
                    let message =
                        format!("service `{name}` depends on `{needed}`, which does not exist");
                    self.faults.push(Fault::new(span, message));
                }
            }
            for network in service.spec.settings.networks.keys() {
                if network != "default" && !self.networks.contains_key(network) {
                    let message = format!(
                        "service `{name}` uses the network `{network}`, which is not defined"
                    );
                    self.faults.push(Fault::new(span, message));
                }
            }
        }
        let mut ready: BTreeSet<&str> = BTreeSet::new();
        loop {
            let before = ready.len();
            for service in &services {
                if service
                    .spec
                    .depends_on
                    .keys()
                    .all(|it| ready.contains(it.as_str()))
                {
                    ready.insert(&service.spec.name);
                }
            }
            if ready.len() == before {
                break;
            }
        }
        if ready.len() < services.len() && self.faults.is_empty() {
            let message = "the services depend on each other in a cycle";
            self.faults.push(Fault::new(span, message));
        }
    }

    fn assemble(&mut self, main: ReadService, sidecars: Vec<ReadService>) -> Compose {
        let is_default = |it: &ReadService| it.spec.settings.networks.contains_key("default");
        if is_default(&main) || sidecars.iter().any(is_default) {
            self.networks.entry("default".to_owned()).or_insert(false);
        }
        Compose {
            main_name: main.spec.name.clone(),
            image: main.own_image(self.context),
            main: main.spec.settings,
            check: main.spec.check,
            services: sidecars
                .into_iter()
                .map(|read| Sidecar {
                    image: read.image,
                    spec: read.spec,
                })
                .collect(),
            networks: std::mem::take(&mut self.networks),
            volumes: std::mem::take(&mut self.volumes),
            digest: dir::digest(&self.context.folder),
            notes: std::mem::take(&mut self.notes),
        }
    }
}

/// The entries of a map; none of anything else.
pub(super) fn entries(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|(_, key, node)| (key.as_str(), node))
}
