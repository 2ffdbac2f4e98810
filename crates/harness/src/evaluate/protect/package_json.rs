//! `package.json` and `composer.json`: keys that determine how tests are found and run come from the task, all others
//! from the work.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{manifest::PROGRAMS, recipes::Recipe};

/// Keys of `package.json` and `composer.json` that come from the task.
const KEYS: &[&str] = &[
    "ava",
    "babel",
    "biome",
    "c8",
    "commitlint",
    "config",
    "cucumber",
    "cypress",
    "directories",
    "eslintConfig",
    "eslintIgnore",
    "husky",
    "jasmine",
    "jest",
    "karma",
    "knip",
    "lint-staged",
    "mocha",
    "nx",
    "nyc",
    "overrides",
    "oxlint",
    "packageManager",
    "playwright",
    "pnpm",
    "postcss",
    "prettier",
    "qunit",
    "resolutions",
    "semistandard",
    "simple-git-hooks",
    "standard",
    "stylelint",
    "tap",
    "testem",
    "ts-node",
    "ts-standard",
    "tsd",
    "turbo",
    "vitest",
    "volta",
    "web-test-runner",
    "wireit",
    "xo",
];

/// Beginnings of further such keys, such as `jest-junit`.
const PREFIXES: &[&str] = &["jest", "mocha", "vitest"];

/// Maps of `package.json` whose entries come from the task if the task has them. Tests load their
/// helpers through them.
const MAPS: &[&str] = &["devDependencies", "imports"];

/// A JSON object that keeps the order of its keys: the order of `exports` matters.
#[derive(Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut object = Object::default();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    object.set(&key, Some(value));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl Object {
    fn read(bytes: &[u8]) -> Option<Object> {
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        serde_json::from_slice(bytes).ok()
    }

    fn get(&self, key: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_ref())
    }

    /// Sets or removes a key. The last value of a duplicate key is used, as in runners.
    fn set(&mut self, key: &str, value: Option<Box<RawValue>>) {
        let place = self.0.iter().position(|(name, _)| name == key);
        match (place, value) {
            (Some(place), Some(value)) => self.0[place].1 = value,
            (Some(place), None) => drop(self.0.remove(place)),
            (None, Some(value)) => self.0.push((key.to_owned(), value)),
            (None, None) => {}
        }
    }

    /// The object under a key; empty if there is none.
    fn map(&self, key: &str) -> Object {
        let raw = self.get(key);
        raw.and_then(|raw| Object::read(raw.get().as_bytes()))
            .unwrap_or_default()
    }

    fn text(&self) -> Option<String> {
        let entry = |(key, value): &(String, Box<RawValue>)| {
            Some(format!(
                "{}:{}",
                serde_json::to_string(key).ok()?,
                value.get()
            ))
        };
        let entries: Option<Vec<String>> = self.0.iter().map(entry).collect();
        Some(format!("{{{}}}", entries?.join(",")))
    }
}

/// Whether two JSON texts are equal.
fn is_same(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    let read = |raw: &RawValue| serde_json::from_str::<serde_json::Value>(raw.get()).ok();
    one.map(read) == other.map(read)
}

/// The merged text, and the keys that were replaced or removed.
pub(super) fn merge(task: Option<&[u8]>, work: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let mut merged = Object::read(work)?;
    let task = task.and_then(Object::read).unwrap_or_default();
    let mut keys = Vec::new();
    let mut put = |merged: &mut Object, key: &str, wanted: Option<Box<RawValue>>| {
        if !is_same(wanted.as_deref(), merged.get(key)) {
            merged.set(key, wanted);
            keys.push(key.to_owned());
        }
    };
    for key in decisive_keys(&task, &merged) {
        put(&mut merged, &key, task.get(&key).map(ToOwned::to_owned));
    }
    // A package can import itself by its name, before any other package.
    if let Some(name) = task.get("name") {
        put(&mut merged, "name", Some(name.to_owned()));
    }
    let bin = merge_programs(&task, &merged);
    put(&mut merged, "bin", bin);
    let workspaces = merge_workspaces(&task, &merged);
    put(&mut merged, "workspaces", workspaces);
    for key in MAPS.iter().chain(&["scripts"]) {
        let of_task = task.map(key);
        let together = match *key {
            "scripts" => merge_scripts(&of_task, &merged.map(key)),
            "devDependencies" => merge_versions(&of_task, &merged.map(key)),
            _ => merge_map(&of_task, &merged.map(key)),
        };
        if merged.get(key).is_some() || task.get(key).is_some() {
            put(&mut merged, key, raw(together.text()?));
        }
    }
    Some((merged.text()?.into_bytes(), keys))
}

/// The sections of runners and linters, one after the other.
pub(super) fn runner_sections(text: &str) -> String {
    let object = Object::read(text.as_bytes()).unwrap_or_default();
    let keys = decisive_keys(&object, &Object::default());
    let sections = keys.iter().filter_map(|key| object.get(key));
    let sections: Vec<String> = sections.map(ToString::to_string).collect();
    sections.join("\n")
}

/// The scripts, in their order.
pub(super) fn scripts(text: &str) -> Vec<Recipe> {
    let object = Object::read(text.as_bytes()).unwrap_or_default();
    let recipe = |(name, line): &(String, Box<RawValue>)| Recipe {
        name: name.clone(),
        needs: Vec::new(),
        lines: serde_json::from_str(line.get()).into_iter().collect(),
    };
    object.map("scripts").0.iter().map(recipe).collect()
}

fn raw(text: String) -> Option<Box<RawValue>> {
    RawValue::from_string(text).ok()
}

/// The keys that come from the task.
fn decisive_keys(task: &Object, work: &Object) -> BTreeSet<String> {
    let all = task.0.iter().chain(&work.0).map(|(key, _)| key.as_str());
    let prefixed = all.filter(|key| PREFIXES.iter().any(|it| key.starts_with(it)));
    let known = KEYS.iter().copied().chain(prefixed);
    known.map(str::to_owned).collect()
}

/// The programs of the package, without those that would be started in the place of a runner, or of a package of the
/// task: `npx` prefers a program of the package itself.
fn merge_programs(task: &Object, work: &Object) -> Option<Box<RawValue>> {
    let bin = work.get("bin")?;
    let packages = ["dependencies", "devDependencies"].map(|key| task.map(key));
    let is_taken = |name: &str| {
        let is_package = packages.iter().any(|map| map.get(name).is_some());
        is_package || PROGRAMS.contains(&name)
    };
    let of_task = task.map("bin");
    let mut programs = work.map("bin");
    programs
        .0
        .retain(|(name, _)| !is_taken(name) || of_task.get(name).is_some());
    if programs.0.len() < work.map("bin").0.len() {
        return raw(programs.text()?);
    }
    // A single program has the name of the package.
    let name = work.get("name").map(RawValue::get).unwrap_or_default();
    let name = serde_json::from_str::<String>(name).unwrap_or_default();
    let is_single = bin.get().starts_with('"') && task.get("bin").is_none();
    let replaces = is_single && is_taken(name.rsplit('/').next().unwrap_or_default());
    (!replaces).then(|| bin.to_owned())
}

/// The workspaces of the work, and all of the task's. The work may add some and leaves out none.
fn merge_workspaces(task: &Object, work: &Object) -> Option<Box<RawValue>> {
    let list = |object: &Object| -> Vec<String> {
        let read = |raw: &RawValue| serde_json::from_str(raw.get()).ok();
        let inner = || object.map("workspaces").get("packages").and_then(read);
        let plain = object.get("workspaces").and_then(read);
        plain.or_else(inner).unwrap_or_default()
    };
    let (wanted, found) = (list(task), list(work));
    let is_new = |name: &&String| !wanted.contains(*name);
    let is_complete = wanted.iter().all(|name| found.contains(name));
    let leaves_out = found.iter().filter(is_new).any(|it| it.starts_with('!'));
    if wanted.is_empty() || (is_complete && !leaves_out) {
        return work.get("workspaces").map(ToOwned::to_owned);
    }
    let added = found
        .iter()
        .filter(is_new)
        .filter(|it| !it.starts_with('!'));
    let all: Vec<&String> = wanted.iter().chain(added).collect();
    raw(serde_json::to_string(&all).ok()?)
}

/// The task's entries, and those that only the work has. Entries that match a pattern of the task
/// are excluded: a longer name would take precedence.
fn merge_map(task: &Object, work: &Object) -> Object {
    let mut merged = Object::default();
    let is_matched = |name: &str| {
        let mut patterns = task.0.iter().filter_map(|(it, _)| it.split_once('*'));
        patterns.any(|(start, end)| name.starts_with(start) && name.ends_with(end))
    };
    let added = work.0.iter().filter(|(name, _)| !is_matched(name));
    for (name, value) in added.chain(&task.0) {
        merged.set(name, Some(value.clone()));
    }
    merged
}

/// The task's scripts, and those that only the work has, except hooks: `pretest` would run before
/// the task's `test`.
fn merge_scripts(task: &Object, work: &Object) -> Object {
    let mut merged = Object::default();
    let is_hook = |name: &str| name.starts_with("pre") || name.starts_with("post");
    let added = work.0.iter().filter(|(name, _)| !is_hook(name));
    for (name, line) in added.chain(&task.0) {
        merged.set(name, Some(line.clone()));
    }
    merged
}

/// Merges versions: the work may change the version, because lock files would no longer match the
/// task's.
fn merge_versions(task: &Object, work: &Object) -> Object {
    let mut merged = merge_map(task, work);
    let is_version = |value: &RawValue| !value.get().contains([':', '/']);
    for (name, value) in &work.0 {
        if is_version(value) && task.get(name).is_some_and(is_version) {
            merged.set(name, Some(value.clone()));
        }
    }
    merged
}
