//! The files that scripts of `package.json` and recipes of makefiles run. A command such as `npm test` names none of
//! them, but they determine its verdict.

use std::collections::BTreeSet;

use super::{package_json, places::join, question, rules::Circumstances};

/// Programs that run scripts of `package.json`.
const PACKAGE_MANAGERS: [&str; 4] = ["npm", "yarn", "pnpm", "bun"];

/// The files with the recipes that a command runs.
pub(in crate::evaluate) fn recipe_files(facts: &Circumstances) -> Vec<String> {
    let has_manager = PACKAGE_MANAGERS
        .iter()
        .any(|it| facts.programs.contains(*it));
    let manifest = has_manager.then(|| join(&facts.working_dir, "package.json"));
    let makefiles = super::makefiles(facts).into_iter();
    makefiles.chain(manifest).collect()
}

/// The files that the recipes in this text run, as far as the command reaches them.
pub(in crate::evaluate) fn scripts_of_recipes(
    path: &str,
    text: &str,
    facts: &Circumstances,
) -> BTreeSet<String> {
    let is_manifest = path.ends_with("package.json");
    let recipes = if is_manifest {
        package_json::scripts(text)
    } else {
        targets(text)
    };
    let words = facts.named.iter().map(|name| {
        let below = name.strip_prefix(facts.working_dir.as_str());
        below.unwrap_or(name).trim_start_matches('/')
    });
    let mut names: Vec<String> = words.map(str::to_owned).collect();
    let is_known = |name: &String| recipes.iter().any(|recipe| recipe.name == *name);
    if !names.iter().any(is_known) {
        let first = recipes.first().filter(|_| !is_manifest);
        names.extend(first.map(|it| it.name.clone()));
        names.extend(is_manifest.then(|| "test".to_owned()));
    }
    let mut reached = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(name) = names.pop() {
        // Only known names have successors, so that this ends.
        if !is_known(&name) || !reached.insert(name.clone()) {
            continue;
        }
        let hooks = ["pre", "post"].map(|hook| format!("{hook}{name}"));
        names.extend(hooks.into_iter().filter(|_| is_manifest));
        for recipe in recipes.iter().filter(|it| it.name == name) {
            names.extend(recipe.needs.iter().cloned());
            for line in &recipe.lines {
                let argv = ["sh", "-c", line].map(str::to_owned);
                found.extend(question::scripts(&argv, &facts.working_dir));
                names.extend(line.split_whitespace().map(str::to_owned));
            }
        }
    }
    found
}

/// A script of a manifest, or a target of a makefile.
pub(super) struct Recipe {
    pub(super) name: String,
    /// Targets that are made before.
    pub(super) needs: Vec<String>,
    pub(super) lines: Vec<String>,
}

/// The targets of a makefile.
fn targets(text: &str) -> Vec<Recipe> {
    let mut all: Vec<Recipe> = Vec::new();
    for line in text.replace("\\\n", " ").lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            let line = recipe.trim_start_matches(['@', '-', '+', ' ']);
            if let Some(last) = all.last_mut() {
                last.lines.push(line.to_owned());
            }
        } else if let Some((names, needs)) = line.split_once(':')
            && !line.starts_with(['#', '.', ' '])
            && !needs.starts_with('=')
        {
            let (needs, recipe) = needs.split_once(';').unwrap_or((needs, ""));
            let needs: Vec<String> = needs.split_whitespace().map(str::to_owned).collect();
            all.extend(names.split_whitespace().map(|name| Recipe {
                name: name.to_owned(),
                needs: needs.clone(),
                lines: vec![recipe.to_owned()],
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, path: &str, text: &str, expected: &[&str]) {
        let argv = ["sh", "-c", command].map(str::to_owned);
        let (named, programs) = question::named_files(&argv, "");
        let facts = Circumstances {
            named,
            programs,
            ..Circumstances::default()
        };
        assert!(recipe_files(&facts).contains(&path.to_owned()), "{command}");
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(
            scripts_of_recipes(path, text, &facts),
            expected,
            "{command}"
        );
    }

    #[test]
    fn scripts_of_a_manifest_are_found() {
        let text = r#"{"scripts": {"test": "npm run lint && node tools/run.js", "lint": "sh tools/lint.sh",
            "pretest": "./prepare", "start": "node index.js"}}"#;
        let expected = ["tools/run.js", "tools/lint.sh", "prepare"];
        check("npm test", "package.json", text, &expected);
        check("npm t", "package.json", text, &expected);
        check("yarn lint", "package.json", text, &["tools/lint.sh"]);
        check("npm run start", "package.json", text, &["index.js"]);
    }

    #[test]
    fn scripts_of_a_makefile_are_found() {
        let text = "X := a\nall: build\n\tpython3 tool.py\n\n.PHONY: test\ntest: unit \\\n  more\n\t@sh ci/run.sh fast\nunit: ; ./unit.sh\nbuild:\n\tcc -o x x.c\n";
        check("make test", "Makefile", text, &["ci/run.sh", "unit.sh"]);
        check("make", "Makefile", text, &["tool.py"]);
        check("make build", "Makefile", text, &[]);
    }
}
