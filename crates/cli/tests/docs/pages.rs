//! Pages that are run from top to bottom, the table of contents, and anchors.
//!
//! In a page of [`RUN`], `<language> file PATH` writes a file, `sh run [CODE]` runs commands, which
//! must end with that exit code, and `text shows` lists lines that the last output must contain.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, TestContext};

use crate::{Block, blocks, copy_examples, pages, read, root};

/// Runs a page in an empty directory, with `proctor` on the PATH.
fn run(page: &str) {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    let folder = context.root().join("page");
    // A directory of runs, because one in a directory above would take these runs.
    std::fs::create_dir_all(folder.join(".proctor")).unwrap();
    for name in ["quickstart", "suite"] {
        copy_examples(&context, name);
    }
    std::fs::rename(context.root().join("examples"), folder.join("examples")).unwrap();
    std::os::unix::fs::symlink(context.binary(), context.bin().join("proctor")).unwrap();
    let (mut last, mut commands) = (None, 0);
    for block in blocks(&root().join("docs").join(page)) {
        let place = format!("{}:{}", block.page, block.line);
        match block.info.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, "file", path] => write(&folder.join(path), &block),
            ["sh", "run", ref code @ ..] => {
                let code = code.first().map_or(0, |it| it.parse().unwrap());
                let script = format!("set -e\n{}", block.text);
                let shell = Utf8Path::new("/bin/bash");
                let program = context.program(shell, ["-c", &script]);
                let done = program.current_dir(&folder).run();
                assert_eq!(done.code, Some(code), "{place}\n{done}");
                last = Some(done);
                commands += 1;
            }
            ["text", "shows"] => assert_shows(last.as_ref().unwrap(), &block),
            _ => {}
        }
    }
    assert!(commands > 0, "{page} has no commands to run");
}

fn write(path: &Utf8Path, block: &Block) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, &block.text).unwrap();
    if path.extension() == Some("sh") {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    }
}

/// Asserts that an output has the start of each line, with any number of spaces between words.
fn assert_shows(output: &Output, block: &Block) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in block.text.lines().filter(|line| !line.is_empty()) {
        let all = output.stdout.lines().chain(output.stderr.lines());
        let is_shown = all.map(words).any(|it| it.starts_with(&words(line)));
        let place = format!("{}:{}", block.page, block.line);
        assert!(is_shown, "{place} shows {line:?}, not in\n{output}");
    }
}

#[test]
fn readme_runs() {
    run("../README.md");
}

#[test]
fn page_on_reports_runs() {
    run("reports.md");
}

#[test]
fn page_on_watching_runs() {
    run("watching.md");
}

#[test]
fn start_page_runs() {
    run("start.md");
}

#[test]
fn tutorial_of_gates_runs() {
    run("tutorials/gate-in-ci.md");
}

#[test]
fn tutorial_of_tasks_runs() {
    run("tutorials/write-a-task.md");
}

#[test]
fn tutorial_of_adapters_runs() {
    run("tutorials/write-an-adapter.md");
}

#[test]
fn tutorial_of_rankings_is_planned() {
    run("tutorials/rank-agents.md");
}

#[test]
fn example_of_the_concepts_runs() {
    run("concepts.md");
}

/// Every page of the book is in its table of contents once, and every entry has a page.
#[test]
fn table_of_contents_has_every_page() {
    let docs = root().join("docs");
    let contents = read(&docs.join("SUMMARY.md"));
    let links = contents.split("](").skip(1);
    let mut listed: Vec<Utf8PathBuf> = links
        .map(|link| docs.join(link.split(')').next().unwrap()))
        .collect();
    listed.sort();
    let all = pages();
    let is_of_the_book = |page: &&Utf8PathBuf| {
        let page = page.strip_prefix(&docs);
        page.is_ok_and(|it| it != "SUMMARY.md")
    };
    let mut expected: Vec<Utf8PathBuf> = all.iter().filter(is_of_the_book).cloned().collect();
    expected.sort();
    assert_eq!(listed, expected);
}

/// The anchors of a page, as GitHub and mdBook make them from headings.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else {
            continue;
        };
        let heading = heading.trim_start_matches('#').trim();
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        found.push(kept.collect());
    }
    found
}

#[test]
fn every_anchor_of_a_link_exists() {
    for page in pages() {
        let text = read(&page);
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            let Some((path, anchor)) = target.split_once('#') else {
                continue;
            };
            if target.contains("://") {
                continue;
            }
            let file = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            if file.extension() == Some("md") {
                let known = anchors(&read(&file));
                assert!(
                    known.iter().any(|it| it == anchor),
                    "{page}: {target}: {known:?}"
                );
            }
        }
    }
}
