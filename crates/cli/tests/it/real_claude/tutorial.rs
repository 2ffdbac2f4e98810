//! The tutorials, from start to end, with the real Claude Code and the scripted model of the page.

use std::{fs, time::Duration};

use camino::Utf8Path;
use proctor_scripted_model::Script;
use proctor_testkit::{Output, TestContext};

use super::{LATEST, Trial};

/// The fenced blocks of the page: the words after the fence, and the text.
fn blocks(page: &str) -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorials");
    let page = fs::read_to_string(format!("{folder}/{page}")).unwrap();
    let parts: Vec<&str> = page.split("```").collect();
    let blocks = parts.into_iter().skip(1).step_by(2);
    let block = |block: &str| {
        let (info, text) = block.split_once('\n').unwrap();
        (info.to_owned(), text.to_owned())
    };
    blocks.map(block).collect()
}

/// The files of a kind: blocks with a language, the kind and a path.
fn files<'a>(blocks: &'a [(String, String)], kind: &str) -> Vec<(&'a str, &'a str)> {
    let named = blocks.iter().filter_map(|(info, text)| {
        let words: Vec<&str> = info.split(' ').collect();
        match words[..] {
            [_, found, path] if found == kind => Some((path, text.as_str())),
            _ => None,
        }
    });
    named.collect()
}

/// Makes the repository of the page: committed files, and the new CLAUDE.md.
fn make_repository(ctx: &TestContext, blocks: &[(String, String)]) {
    let of = |kind: &str| files(blocks, kind);
    ctx.repo().commit("scripts", &of("file"));
    ctx.repo().git(["branch", "-M", "main"]);
    let folder = ctx.repo().path();
    for (path, text) in of("new").into_iter().chain(of("testcase")) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let script = blocks.iter().find(|(info, _)| info == "yml script");
    fs::write(folder.join("answers.yaml"), &script.unwrap().1).unwrap();
}

/// Runs a command of the page with the scripted model.
fn run(ctx: &TestContext, folder: &Utf8Path, command: &str) -> Output {
    let words = command.strip_prefix("proctor ").unwrap().split(' ');
    let script: &[&str] = if command.contains(" ab ") {
        &["--model-script", "answers.yaml"]
    } else {
        &[]
    };
    let program = ctx.proctor(words.chain(script.iter().copied()));
    let program = program.current_dir(folder);
    program.deadline(Duration::from_mins(8)).run()
}

#[test]
fn tutorial_finds_that_the_new_claude_md_is_better() {
    let Some(Trial { ctx, .. }) = Trial::of(LATEST, Script::default()) else {
        return;
    };
    let blocks = blocks("compare-claude-md.md");
    make_repository(&ctx, &blocks);
    let text_of = |name: &str| {
        let found = blocks.iter().find(|(info, _)| info == name);
        found.unwrap().1.clone()
    };
    let commands: Vec<&str> = blocks
        .iter()
        .filter(|(info, _)| info == "sh")
        .map(|(_, text)| text.trim())
        .collect();
    let [validate, look, ab, resume] = commands[..] else {
        panic!("{commands:?}");
    };
    let folder = ctx.repo().path();
    run(&ctx, folder, validate).assert_code(0);
    let output = run(&ctx, folder, look);
    output.assert_code(0);
    assert!(
        output.stdout.starts_with(&text_of("text outline")),
        "{output}"
    );
    let answer = run(&ctx, folder, ab);
    answer.assert_code(0);
    for line in text_of("text answer").lines() {
        let is_shown = answer.stdout.lines().any(|it| it.starts_with(line));
        assert!(is_shown, "{line}: {answer}");
    }
    let digest = |name: &str| {
        let start = format!("Delivered: file CLAUDE.md of {name} ");
        let mut lines = answer.stdout.lines();
        let line = lines.find_map(|it| it.strip_prefix(&start)).unwrap();
        line.split(' ').next().unwrap().to_owned()
    };
    assert_ne!(digest("a"), digest("b"));
    let page = answer.stdout.lines().last().unwrap();
    assert!(
        Utf8Path::new(page.strip_prefix("page: ").unwrap()).is_file(),
        "{answer}"
    );
    // Everything is done: a resume repeats the answer.
    let resumed = run(&ctx, folder, resume);
    resumed.assert_code(0);
    assert_eq!(resumed.stdout, answer.stdout);
    // A changed file is named, and nothing is run.
    fs::write(folder.join("CLAUDE.md"), "Something else.\n").unwrap();
    let refused = run(&ctx, folder, resume);
    refused.assert_code(2);
    assert!(
        refused.stderr.contains("/files/CLAUDE.md/sha256"),
        "{refused}"
    );
    ctx.assert_nothing_left("");
}

/// Mining, the check and the comparison of the page, in a clone of its repository.
#[test]
fn tutorial_makes_a_task_from_a_commit_and_compares_on_it() {
    let Some(Trial { ctx, .. }) = Trial::of(LATEST, Script::default()) else {
        return;
    };
    let blocks = blocks("tasks-from-your-repo.md");
    let text_of = |name: &str| {
        let found = blocks.iter().find(|(info, _)| info == name);
        found.unwrap().1.as_str()
    };
    let origin = ctx.repo();
    origin.git(["checkout", "--quiet", "--orphan", "words"]);
    origin.commit("Start", &files(&blocks, "1"));
    origin.commit("Make slugs from titles", &files(&blocks, "2"));
    for (path, text) in files(&blocks, "new") {
        fs::write(ctx.root().join(path), text).unwrap();
    }
    fs::write(ctx.root().join("answers.yaml"), text_of("yml script")).unwrap();
    let commands: Vec<&str> = blocks
        .iter()
        .filter(|(info, _)| info == "sh")
        .map(|(_, text)| text.trim())
        .collect();
    let [clone, commands @ ..] = &commands[..] else {
        panic!("{commands:?}");
    };
    let clone = clone.strip_prefix("git ").unwrap();
    let clone = clone.replace("./origin", origin.path().as_str());
    let words = ctx.root().join("words");
    origin.git(clone.replace("words", words.as_str()).split(' '));
    let shown = ["text plan", "text mined", "text checked", "text answer"];
    assert_eq!(commands.len(), shown.len());
    for (command, shown) in commands.iter().zip(shown) {
        let output = run(&ctx, ctx.root(), command);
        output.assert_code(0);
        for line in text_of(shown).lines() {
            assert!(output.stdout.contains(line), "{line}: {output}");
        }
    }
    ctx.assert_nothing_left("");
}
