//! Replaces `${NAME}` and `${NAME:-default}` in every text value of a tree. `$${` is a literal
//! `${`; every other `$` is kept. Values are inserted as text and never parsed again.

use std::collections::BTreeMap;

use proctor_document::{Fault, MAX_FILE_BYTES, Node, Span, Value};

use super::hooks;

/// The sources of values: project variables first, then the environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables<'a> {
    /// `variables` of the project settings.
    pub(crate) project: &'a BTreeMap<String, String>,
    /// The environment of the process.
    pub(crate) env: &'a BTreeMap<String, String>,
}

impl<'a> Variables<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.project
            .get(name)
            .or_else(|| self.env.get(name))
            .map(String::as_str)
    }
}

/// The result of filling a tree.
#[derive(Default)]
pub(super) struct FilledTree {
    /// Faults: names without a value, and malformed references.
    pub(super) faults: Vec<Fault>,
    /// Every inserted value, with its name.
    pub(super) inserted: Vec<(String, String)>,
    /// Names without a value; `sorted` turns them into faults.
    unset: Vec<Unset>,
}

/// A variable without a value, at one position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unset {
    /// The variable.
    pub name: String,
    /// The error to report if the value is needed.
    pub fault: Fault,
}

/// The unset variables in the items of a suite's lists of agents, by list and index.
pub(super) type UnsetByAgent = BTreeMap<(&'static str, usize), Vec<Unset>>;

/// The lists of a suite whose items can be excluded from a run.
const LISTS_OF_AGENTS: [&str; 2] = ["agents", "orchestrators"];

/// Replaces the references in every text of `node`, which was read from `text`.
pub(super) fn fill(node: &mut Node, text: &str, variables: &Variables<'_>) -> FilledTree {
    let mut filled = FilledTree::default();
    walk(node, text, variables, &mut filled);
    filled.sorted()
}

/// Replaces the references in every text of a suite. Agents that do not run need no variables, so
/// unset variables of agents are returned separately and their references are kept.
pub(super) fn fill_suite(
    node: &mut Node,
    text: &str,
    variables: &Variables<'_>,
) -> (FilledTree, UnsetByAgent) {
    let mut unset = UnsetByAgent::new();
    let mut filled = FilledTree::default();
    let Value::Map(entries) = &mut node.value else {
        return (fill(node, text, variables), unset);
    };
    for (_, key, item) in entries {
        let list = LISTS_OF_AGENTS.into_iter().find(|list| key == list);
        let (Some(list), Value::List(agents)) = (list, &mut item.value) else {
            walk(item, text, variables, &mut filled);
            continue;
        };
        for (number, agent) in agents.iter_mut().enumerate() {
            let before = std::mem::take(&mut filled.unset);
            walk(agent, text, variables, &mut filled);
            let mut own = std::mem::replace(&mut filled.unset, before);
            for unset in &mut own {
                let name = &unset.name;
                unset.fault.hint = Some(format!(
                    "set it in the environment or in the file of `secrets.env_file`, or give a default with `${{{name}:-…}}`"
                ));
            }
            if !own.is_empty() {
                unset.insert((list, number), own);
            }
        }
    }
    (filled.sorted(), unset)
}

/// Replaces the references in every text below a key `env`, at any depth. Unset variables are
/// returned separately and their references are kept.
pub(super) fn fill_env(
    node: &mut Node,
    text: &str,
    variables: &Variables<'_>,
) -> (FilledTree, Vec<Unset>) {
    let mut filled = FilledTree::default();
    walk_env(node, text, variables, &mut filled);
    let unset = std::mem::take(&mut filled.unset);
    (filled.sorted(), unset)
}

fn walk_env(node: &mut Node, text: &str, variables: &Variables<'_>, filled: &mut FilledTree) {
    let Value::Map(entries) = &mut node.value else {
        return;
    };
    for (_, key, item) in entries {
        if key == "env" {
            walk(item, text, variables, filled);
        } else {
            walk_env(item, text, variables, filled);
        }
    }
}

impl FilledTree {
    fn sorted(mut self) -> FilledTree {
        let unset = std::mem::take(&mut self.unset);
        self.faults
            .extend(unset.into_iter().map(|unset| unset.fault));
        // Longest first, so that masking one value never leaves part of another.
        self.inserted
            .sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        self.inserted.dedup();
        self
    }
}

/// Whether `name` can be written as `${name}`.
pub(super) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn walk(node: &mut Node, text: &str, variables: &Variables<'_>, filled: &mut FilledTree) {
    match &mut node.value {
        Value::String(value) if value.contains("${") => {
            match fill_text(value, variables, &mut filled.inserted) {
                Ok(new) => *value = new,
                Err(mut bad) => match bad.unset.take() {
                    None => filled.faults.push(bad.fault(text, node.span)),
                    Some(name) => filled.unset.push(Unset {
                        name,
                        fault: bad.fault(text, node.span),
                    }),
                },
            }
        }
        Value::List(items) => {
            for item in items {
                walk(item, text, variables, filled);
            }
        }
        Value::Map(entries) => {
            for (_, key, item) in entries {
                if hooks::KEYS.contains(&key.as_str()) {
                    keep(item, variables);
                }
                walk(item, text, variables, filled);
            }
        }
        _ => {}
    }
}

/// Keeps references to hook variables for the hook, unless they are set here.
fn keep(node: &mut Node, variables: &Variables<'_>) {
    match &mut node.value {
        Value::String(value) => {
            for name in hooks::VARIABLES {
                let written = format!("${{{name}}}");
                if variables.get(name).is_none() && value.contains(&written) {
                    // `$$` is an escaped `$`.
                    *value = value
                        .replace(&format!("${written}"), &written)
                        .replace(&written, &format!("${written}"));
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| keep(item, variables)),
        Value::Map(entries) => {
            for (_, _, item) in entries {
                keep(item, variables);
            }
        }
        _ => {}
    }
}

/// A reference without a valid value.
struct Bad {
    /// The text of the reference, to find its position.
    written: String,
    message: String,
    hint: String,
    /// The variable's name, if it is unset.
    unset: Option<String>,
}

impl Bad {
    fn fault(self, text: &str, span: Span) -> Fault {
        let within = text.get(span.start..span.end).unwrap_or_default();
        let found = within
            .match_indices(&self.written)
            .map(|(at, _)| at)
            .find(|at| !within[..*at].ends_with('$'));
        let span = found.map_or(span, |at| Span {
            start: span.start + at,
            end: span.start + at + self.written.len(),
        });
        Fault::new(span, self.message).with_hint(self.hint)
    }
}

fn fill_text(
    text: &str,
    variables: &Variables<'_>,
    inserted: &mut Vec<(String, String)>,
) -> Result<String, Bad> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            let written = rest[at..].lines().next().unwrap_or("${");
            return Err(unreadable(written, "has no closing `}`"));
        };
        let written = &rest[at..=at + end];
        let (name, value) = lookup(written, variables)?;
        out.push_str(value);
        if out.len() > MAX_FILE_BYTES {
            return Err(unreadable(written, "makes the text larger than 32 MiB"));
        }
        if variables.get(name) == Some(value) {
            inserted.push((value.to_owned(), name.to_owned()));
        }
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The name in `${…}` and its value.
fn lookup<'t>(written: &'t str, variables: &Variables<'t>) -> Result<(&'t str, &'t str), Bad> {
    let inner = &written[2..written.len() - 1];
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_name(name) {
        return Err(unreadable(written, "is not a valid variable"));
    }
    if default.is_some_and(|default| default.contains("${")) {
        return Err(unreadable(written, "has another variable as its default"));
    }
    match (variables.get(name), default) {
        (Some("") | None, Some(default)) => Ok((name, default)),
        (Some(value), _) => Ok((name, value)),
        (None, None) => Err(Bad {
            written: written.to_owned(),
            message: format!("`{name}` is not set"),
            hint: format!(
                "set it in the environment or under `variables` in .youbencharc, give a default with `${{{name}:-…}}`, or write `$${{{name}}}` for the text itself"
            ),
            unset: Some(name.to_owned()),
        }),
    }
}

fn unreadable(written: &str, problem: &str) -> Bad {
    let shown: String = written.chars().take(40).collect();
    Bad {
        written: written.to_owned(),
        message: format!("`{shown}` {problem}"),
        hint: "write `${NAME}` or `${NAME:-default}`; `$${` is a literal `${`".to_owned(),
        unset: None,
    }
}

#[cfg(test)]
mod tests {
    use proctor_document::parse_yaml;

    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let project = BTreeMap::from([
            ("A".to_owned(), "project".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]);
        let env = BTreeMap::from([
            ("A".to_owned(), "env".to_owned()),
            ("B".to_owned(), "x: [${A}]".to_owned()),
        ]);
        let variables = Variables {
            project: &project,
            env: &env,
        };
        fill_text(text, &variables, &mut Vec::new()).map_err(|bad| bad.message)
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn project_variables_come_before_the_environment() {
        check("<${A}>", "<project>");
    }

    #[test]
    fn hook_variables_are_kept_in_hooks_only() {
        let yaml = "{pre_execution: [{args: ['${REPO_DIR}', '$${BRANCH}', '${A}']}], name: '${A}'}";
        let mut node = parse_yaml(yaml).unwrap();
        let env = BTreeMap::from([("A".to_owned(), "x".to_owned())]);
        let variables = Variables {
            project: &BTreeMap::new(),
            env: &env,
        };
        assert!(fill(&mut node, yaml, &variables).faults.is_empty());
        let read: serde_json::Value = node.read().unwrap();
        let args = serde_json::json!(["${REPO_DIR}", "${BRANCH}", "x"]);
        assert_eq!(read["pre_execution"][0]["args"], args);
        let mut elsewhere = parse_yaml("{name: '${REPO_DIR}'}").unwrap();
        let faults = fill(&mut elsewhere, "", &variables).faults;
        assert_eq!(faults[0].message, "`REPO_DIR` is not set");
    }

    #[test]
    fn unset_variables_of_agents_are_reported_separately() {
        let yaml = "orchestrators:\n- {name: a, env: &keys {K: '${NO}'}}\n- {name: b, env: {K: '${A}'}}\n- {name: c, env: *keys}\ntasks: [{repo: '${A}'}]\n";
        let mut node = parse_yaml(yaml).unwrap();
        let env = BTreeMap::from([("A".to_owned(), "x".to_owned())]);
        let variables = Variables {
            project: &BTreeMap::new(),
            env: &env,
        };
        let (filled, unset) = fill_suite(&mut node, yaml, &variables);
        assert_eq!(filled.faults, []);
        let keys: Vec<_> = unset.keys().copied().collect();
        assert_eq!(keys, [("orchestrators", 0), ("orchestrators", 2)]);
        assert_eq!(unset[&("orchestrators", 2)][0].name, "NO");
        let read: serde_json::Value = node.read().unwrap();
        assert_eq!(read["orchestrators"][0]["env"]["K"], "${NO}");
        assert_eq!(read["orchestrators"][1]["env"]["K"], "x");
        // Outside of agents an unset variable is an error, and so is a malformed reference.
        let yaml = "{agents: [{type: '${A'}], tasks: ['${NO}']}";
        let mut node = parse_yaml(yaml).unwrap();
        let (filled, unset) = fill_suite(&mut node, yaml, &variables);
        let messages: Vec<&str> = filled.faults.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(messages, ["`${A` has no closing `}`", "`NO` is not set"]);
        assert!(unset.is_empty());
    }

    #[test]
    fn values_are_text_and_are_not_filled_again() {
        check("${B}", "x: [${A}]");
    }

    #[test]
    fn default_replaces_an_unset_or_empty_value() {
        check("${NO:-x y}", "x y");
        check("${NO:-}", "");
        check("${EMPTY:-x}", "x");
        check("${EMPTY}", "");
        check("${A:-x}", "project");
    }

    #[test]
    fn doubled_dollar_is_an_escaped_dollar() {
        check("$${A}", "${A}");
        check("$$${A}", "$${A}");
        check("$${not a name", "${not a name");
        check("$${A} ${A}", "${A} project");
    }

    #[test]
    fn other_dollars_are_kept() {
        for text in ["$A", "$5", "$(cmd)", "$$", "$", "a$", "100% $HOME $${"] {
            check(text, &text.replace("$${", "${"));
        }
    }

    #[test]
    fn malformed_references_are_refused() {
        assert_eq!(filled("${NO}").unwrap_err(), "`NO` is not set");
        assert_eq!(
            filled("${a.b}").unwrap_err(),
            "`${a.b}` is not a valid variable"
        );
        assert_eq!(filled("x ${A").unwrap_err(), "`${A` has no closing `}`");
        assert_eq!(
            filled("${NO:-${A}}").unwrap_err(),
            "`${NO:-${A}` has another variable as its default"
        );
    }
}
