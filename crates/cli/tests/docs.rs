//! Checks the README, `docs/` and `examples/`: YAML is valid, commands and links exist, and the
//! named tests exist. The examples use `sh`.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

#[path = "docs/codes.rs"]
mod codes;
#[path = "docs/files.rs"]
mod files;
#[path = "docs/pages.rs"]
mod pages;

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::outcome::Outcome;
use proctor_testkit::{Output, TestContext};
use serde_json::Value;

/// A fenced block of a page.
struct Block {
    page: Utf8PathBuf,
    line: usize,
    /// The words after the fence.
    info: Vec<String>,
    text: String,
}

fn root() -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Utf8Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The README and every page below `docs/`.
fn pages() -> Vec<Utf8PathBuf> {
    let mut pages = vec![
        root().join("README.md"),
        root().join("ARCHITECTURE.md"),
        root().join("CONTRIBUTING.md"),
        root().join("examples/README.md"),
    ];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir_utf8().unwrap() {
            let path = entry.unwrap().into_path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some("md") {
                pages.push(path);
            }
        }
    }
    assert!(pages.len() > 8, "{pages:?}");
    pages
}

fn blocks(page: &Utf8Path) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in read(page).lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    page: page.to_owned(),
                    line: number + 1,
                    info: info.split_whitespace().map(str::to_owned).collect(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page} has a fence without an end");
    blocks
}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["  ", line, "\n"]).collect()
}

/// A whole test case from an example, which may be only its `agent` or its `evaluators`.
fn testcase(block: &Block) -> String {
    let head = "name: example\ndescription: An example of the docs.\nrepo: ./repo\n";
    let agent = "agent: {type: 'null'}\n";
    match block.info.get(1).map(String::as_str) {
        Some("testcase") => block.text.clone(),
        Some("agent") => format!(
            "{head}evaluators: [git-diff]\nagent:\n{}",
            indented(&block.text)
        ),
        Some("evaluators") => format!("{head}{agent}evaluators:\n{}", indented(&block.text)),
        Some("settings") => format!("{head}{agent}evaluators: [git-diff]\n"),
        other => panic!(
            "{}:{}: a YAML example is marked as testcase, agent, evaluators or settings, not {other:?}",
            block.page, block.line
        ),
    }
}

/// Programs of `command` agents in the examples.
const INSTALLED: [&str; 5] = ["agent", "amp", "crush", "cursor-agent", "goose"];

/// The folder of a test case with every file that the examples name.
fn folder(context: &TestContext) -> Utf8PathBuf {
    let folder = context.root().join("examples");
    for name in ["repo", "evaluators"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    for (name, text) in [
        ("prompt.md", "Fix leap.sh."),
        ("expected.json", "{}"),
        ("solution.patch", ""),
        (
            "evaluators/small-change.yaml",
            "name: git-diff\nconfig: {assertions: {max_files_changed: 1}}\n",
        ),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    // Programs of `command` agents must exist, beside the test case or on the PATH.
    let programs = ["small-agent.sh", "judge.sh"].map(|name| folder.join(name));
    for path in programs
        .into_iter()
        .chain(INSTALLED.map(|name| context.bin().join(name)))
    {
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    folder
}

#[test]
fn every_yaml_example_is_valid() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let folder = folder(&context);
    let mut examples = 0;
    for block in pages().iter().flat_map(|page| blocks(page)) {
        if block.info.first().is_none_or(|info| info != "yaml") {
            continue;
        }
        if matches!(block.info.get(1).map(String::as_str), Some("eval" | "file")) {
            // Those of `proctor eval` and of whole pages are run.
            continue;
        }
        if block.info.get(1).is_some_and(|info| info == "suite") {
            // `suites.md` and `tasks.md` show examples that are run as they are.
            if !matches!(block.page.file_name(), Some("suites.md" | "tasks.md")) {
                check_suite(&context, &folder, &block);
                examples += 1;
            }
            continue;
        }
        examples += 1;
        std::fs::write(folder.join("testcase.yaml"), testcase(&block)).unwrap();
        let settings = folder.join(".youbencharc");
        if block.info.get(1).is_some_and(|info| info == "settings") {
            std::fs::write(&settings, &block.text).unwrap();
        }
        let output = context
            .proctor(["validate", "-c", "testcase.yaml"])
            .current_dir(&folder)
            .run();
        assert_eq!(
            output.code,
            Some(0),
            "{}:{}\n{output}",
            block.page,
            block.line
        );
        let _ = std::fs::remove_file(settings);
    }
    assert!(examples > 8, "only {examples} examples were found");
}

/// Every `.yaml` below a folder that is a test case or a suite, with its text.
fn configs(folder: &Utf8Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().unwrap() {
        let path = entry.unwrap().into_path();
        if path.is_dir() {
            found.extend(configs(&path));
        } else if path.extension() == Some("yaml") {
            found.push((path.to_string(), read(&path)));
        }
    }
    found
}

/// Editors check files against the schema: it accepts everything that the program accepts.
#[test]
fn every_yaml_example_fits_the_published_schema() {
    let schema: Value =
        serde_json::from_str(&read(&root().join("docs/schema/suite.json"))).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut examples = configs(&root().join("examples"));
    assert!(examples.len() > 4, "{examples:?}");
    for block in pages().iter().flat_map(|page| blocks(page)) {
        let place = format!("{}:{}", block.page, block.line);
        match block.info.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["yaml", "suite"] => examples.push((place, block.text)),
            ["yaml", "testcase" | "agent" | "evaluators"] => {
                examples.push((place, testcase(&block)));
            }
            _ => {}
        }
    }
    for (place, text) in examples {
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let complaints: Vec<String> = schema
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(complaints, Vec::<String>::new(), "{place}");
    }
}

/// A suite of the docs, beside the files that it names.
fn check_suite(context: &TestContext, folder: &Utf8Path, block: &Block) {
    std::fs::create_dir_all(folder.join("cases")).unwrap();
    // Variants name a file on the branch `main`.
    context
        .repo()
        .commit("context", &[("CLAUDE.md", block.text.as_str())]);
    context.repo().git(["branch", "-M", "main"]);
    let repo = context.repo().path();
    let case = format!(
        "name: example\ndescription: An example of the docs.\nrepo: {repo}\nagent: {{type: claude-code, config: {{prompt: x}}}}\nevaluators: [git-diff]\n"
    );
    for (name, text) in [
        ("cases/one.yaml", case.as_str()),
        ("prices.json", "{\"prices\": []}"),
        ("answers.yaml", "answers: []"),
        ("suite.yaml", block.text.as_str()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let program = context.proctor(["validate", "suite.yaml"]);
    let output = program.current_dir(folder).run();
    let place = format!("{}:{}", block.page, block.line);
    assert_eq!(output.code, Some(0), "{place}\n{output}");
}

#[test]
fn every_example_of_a_test_case_is_valid() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let examples = root().join("examples").canonicalize_utf8().unwrap();
    for name in ["quickstart/cases", "quickstart/proctor.yaml", "claude-code"] {
        let path = examples.join(name);
        let output = context.proctor(["validate", path.as_str()]).run();
        output.assert_code(0);
    }
}

/// Copies a directory of examples into the context, because results are written next to the examples.
fn copy_examples(context: &TestContext, name: &str) {
    let target = context.root().join("examples");
    std::fs::create_dir_all(&target).unwrap();
    let source = root().join("examples").join(name);
    let copy = context.program("cp".into(), ["-R", source.as_str(), target.as_str()]);
    copy.run().assert_code(0);
}

/// Asserts that an output has every line of a block of a page, which may leave out the last columns. Columns are as
/// wide as their widest cell, which may be a time.
#[track_caller]
fn assert_shows(output: &Output, page: &[Block], name: &str) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let block = page.iter().find(|block| block.info == ["text", name]);
    for line in block.unwrap().text.lines() {
        let found = output.stdout.lines();
        let is_shown = found.map(words).any(|it| it.starts_with(&words(line)));
        assert!(is_shown, "the page shows {line:?}, not in\n{output}");
    }
}

/// The commands of the README for a repository, where no agent is installed yet.
#[test]
fn readme_leads_to_a_suite_without_an_agent() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    context
        .repo()
        .commit("Start", &[("README.md", "# Words\n")]);
    let page = blocks(&root().join("README.md"));
    let mut blocks = page
        .iter()
        .filter(|it| it.text.starts_with("proctor doctor"));
    let lines = blocks
        .next()
        .unwrap()
        .text
        .lines()
        .filter_map(proctor_words);
    let codes = lines.map(|words| {
        let program = context.proctor(words.iter().copied());
        let code = program
            .current_dir(context.repo().path())
            .run()
            .code
            .unwrap();
        (words[0].to_owned(), code)
    });
    let codes: Vec<(String, i32)> = codes.collect();
    let expected = [("doctor", 3), ("init", 0), ("validate", 0), ("run", 3)];
    assert_eq!(codes, expected.map(|(word, code)| (word.to_owned(), code)));
}

/// Runs the first commands of the pages on ablation, bisection and trend. The pages show the start of each line.
#[test]
fn examples_of_ablation_bisection_and_trend_give_the_shown_answers() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    copy_examples(&context, "causes");
    for (name, code) in [("ablation", 1), ("bisection", 1), ("trend", 4)] {
        let page = blocks(&root().join(format!("docs/{name}.md")));
        let commands = page.iter().find(|block| block.info == ["sh"]).unwrap();
        let commands = commands.text.lines().filter_map(proctor_words);
        let outputs = commands.map(|words| context.proctor(words).run());
        let last = outputs.last().unwrap();
        assert_shows(last.assert_code(code), &page, name);
    }
}

/// The judge and the evaluation that `docs/judges.md` shows.
#[test]
fn the_judge_and_the_evaluation_of_the_docs_pass() {
    use std::os::unix::fs::PermissionsExt;

    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let mut evaluations = 0;
    for block in blocks(&root().join("docs/judges.md")) {
        let file = match block.info.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, _, path] => context.root().join(path),
            [_, "eval"] => context.root().join("eval.yaml"),
            _ => continue,
        };
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &block.text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        if file.ends_with("eval.yaml") {
            evaluations += 1;
            context
                .proctor(["eval", "-c", "eval.yaml"])
                .run()
                .assert_code(0);
        }
    }
    assert_eq!(evaluations, 1);
    std::fs::create_dir(context.root().join("judge/repo")).unwrap();
    let judged = context.proctor(["run", "-c", "judge/case.yaml"]).run();
    judged.assert_code(0);
    assert!(judged.stdout.contains("agentic-judge:tone"), "{judged}");
}

/// The task that `docs/tasks.md` shows file by file.
#[test]
fn the_task_of_the_docs_is_sound() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let folder = context.root().join("greet");
    let mut files = 0;
    for block in blocks(&root().join("docs/tasks.md")) {
        let [_, what, path] = block.info.as_slice() else {
            continue;
        };
        assert_eq!(what, "task");
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, block.text).unwrap();
        files += 1;
    }
    assert_eq!(files, 6);
    context
        .proctor(["task", "check", "greet", "--sandbox", "local"])
        .run()
        .assert_code(0);
}

/// The suite that `docs/tasks.md` shows; `thunderdome::the_example_runs` runs it.
#[test]
fn the_repo_task_of_the_docs_is_the_example() {
    let example = read(&root().join("examples/thunderdome/thunderdome.yaml"));
    let page = blocks(&root().join("docs/tasks.md"));
    let mut suites = page.iter().filter(|block| block.info == ["yaml", "suite"]);
    assert!(suites.any(|block| example.contains(&block.text)));
}

#[test]
fn the_table_of_outcomes_has_a_row_for_each_with_its_status() {
    let page = read(&root().join("docs/outcomes.md"));
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for outcome in Outcome::ALL {
        let start = format!("| `{}` |", outcome.as_str());
        let row = rows.iter().find(|row| row.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("no row for {}", outcome.as_str()));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let status = serde_json::to_value(outcome.status()).unwrap();
        assert_eq!(cells[3].trim_matches('`'), status, "{row}");
        let is_judged = !outcome.is_infrastructure() && outcome != Outcome::Interrupted;
        assert_eq!(cells[6], if is_judged { "yes" } else { "no" }, "{row}");
        let exit = match outcome {
            Outcome::Completed => "0, 1 or 3",
            Outcome::Interrupted => "130",
            other if other.is_infrastructure() => "3",
            _ => "1",
        };
        assert_eq!(cells[8], exit, "{row}");
    }
}

/// The words of a command after `proctor`, if it is one.
fn proctor_words(command: &str) -> Option<Vec<&str>> {
    let command = command.split('#').next()?.trim();
    let rest = ["proctor ", "yb ", "cargo run --release -- "]
        .iter()
        .find_map(|start| command.strip_prefix(start))?;
    Some(rest.split_whitespace().collect())
}

/// Every command has the subcommands, options and values that the program accepts. `--help` at its end keeps it from
/// starting.
#[test]
fn every_command_in_a_shell_block_is_accepted() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let mut commands = BTreeSet::new();
    for block in pages().iter().flat_map(|page| blocks(page)) {
        if block.info.first().is_none_or(|info| info != "sh") {
            continue;
        }
        for line in block.text.lines() {
            if let Some(script) = line.split_whitespace().next()
                && script.starts_with("scripts/")
            {
                assert!(root().join(script).is_file(), "{script}");
            }
            if proctor_words(line).is_some() {
                commands.insert(line.trim().to_owned());
            }
        }
    }
    assert!(commands.len() > 60, "{commands:?}");
    let (proctor, bin) = (context.binary(), context.bin());
    for name in ["proctor", "yb"] {
        std::os::unix::fs::symlink(proctor, bin.join(name)).unwrap();
    }
    for command in commands {
        // Comments go to the shell, as a reader pastes them.
        let command = command.split(" #").next().unwrap();
        let script = format!("{command} --help");
        let shell = context.program(Utf8Path::new("/bin/sh"), ["-c", &script]);
        let help = shell.run();
        assert!(
            help.code == Some(0) && help.stdout.contains("Usage:"),
            "{command}\n{help}"
        );
    }
}

/// The page on CI shows the workflow that `init --ci` writes, and the action has the inputs that it
/// lists.
#[test]
fn workflow_and_inputs_of_the_action_are_documented() {
    let page = root().join("docs/ci.md");
    let shown = blocks(&page);
    let shown = shown.iter().find(|it| it.text.starts_with("name: proctor"));
    let workflow = read(&root().join("crates/cli/templates/workflow.yml"));
    assert_eq!(shown.unwrap().text, workflow);
    let action: Value = serde_saphyr::from_str(&read(&root().join("action.yml"))).unwrap();
    let inputs: Vec<&String> = action["inputs"].as_object().unwrap().keys().collect();
    let page = read(&page);
    for input in inputs.iter().filter(|it| **it != "token") {
        assert!(page.contains(&format!("`{input}`")), "{input}");
    }
    let workflow: Value = serde_saphyr::from_str(&workflow).unwrap();
    for job in workflow["jobs"].as_object().unwrap().values() {
        let mut steps = job["steps"].as_array().unwrap().iter();
        let with = steps.find_map(|step| step["with"].as_object()).unwrap();
        assert!(with.keys().all(|key| inputs.contains(&key)), "{with:?}");
    }
}

#[test]
fn every_link_leads_to_a_file() {
    for page in pages() {
        let text = read(&page);
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = page.parent().unwrap().join(target);
            assert!(file.exists(), "{page} links to {target}");
            // The book has the files of `docs` only.
            let docs = root().join("docs").canonicalize_utf8().unwrap();
            let is_of_book = |path: &Utf8Path| path.canonicalize_utf8().unwrap().starts_with(&docs);
            let leaves = is_of_book(&page) && !is_of_book(&file);
            assert!(
                !leaves,
                "{page} links to {target}, which is not in the book"
            );
        }
    }
}

/// The file of a test that a page for contributors names, by its module in the end-to-end tests of the
/// cli or by its path.
fn file_of(module: &str) -> Utf8PathBuf {
    let folder = if module.starts_with("crates/") {
        ""
    } else {
        "crates/cli/tests/it"
    };
    root().join(folder).join(format!("{module}.rs"))
}

#[test]
fn every_test_named_for_a_requirement_or_an_attack_exists() {
    for name in ["requirements", "attacks"] {
        let page = read(&root().join(format!("docs/dev/{name}.md")));
        let code = page.split('`').skip(1).step_by(2);
        let named = code.filter_map(|code| code.split_once("::"));
        let named: Vec<_> = named.filter(|(_, test)| !test.is_empty()).collect();
        for (module, test) in &named {
            let file = file_of(module);
            let is_there = read(&file).contains(&format!("fn {test}("));
            assert!(is_there, "{name}: {file} has no test {test}");
        }
        assert!(named.len() > 50, "{name}: only {} tests", named.len());
    }
}
