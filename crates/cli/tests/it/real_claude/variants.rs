//! Variants of CLAUDE.md and of skills with the real Claude Code: the text reaches the model and changes its answer, and
//! the record says which text did.

use camino::Utf8PathBuf;
use proctor_scripted_model::Script;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use super::{LATEST, Trial, options::MCP_SERVER};

/// Runs variants of Claude Code with a model that plays this script; `None` if it is not installed.
fn compare(variants: &Value, answers: &Value) -> Option<(TestContext, Output)> {
    let Trial { ctx, .. } = Trial::of(LATEST, Script::default())?;
    let folder = ctx.root().join("suite");
    for name in ["fires", "silent"] {
        let skill = folder.join("skills").join(name);
        fs_err::create_dir_all(&skill).unwrap();
        let text = format!(
            "---\nname: {name}\ndescription: Explains how the {name} procedure of this project works.\n---\n\nThe body of the {name} skill has these words.\n"
        );
        fs_err::write(skill.join("SKILL.md"), text).unwrap();
    }
    let case = json!({
        "name": "task",
        "description": "answer as the file says",
        "repo": ctx.repo().path(),
        "agent": {"type": "null", "config": {"prompt": "do it"}},
        "evaluators": [{"name": "command", "config": {"command": "grep -qx two answer.txt"}}],
    });
    fs_err::write(folder.join("case.json"), case.to_string()).unwrap();
    fs_err::write(
        folder.join("answers.json"),
        json!({"answers": answers}).to_string(),
    )
    .unwrap();
    let suite = json!({
        "agents": [{"type": "claude-code", "variants": variants}],
        "tasks": [{"testcase": "case.json"}],
        "gateway": {"script": "answers.json"},
        "vary": ["files", "skills"],
    });
    let path = folder.join("proctor.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    let program = ctx.proctor(["run", path.as_str()]);
    let output = program.deadline(std::time::Duration::from_mins(8)).run();
    ctx.assert_nothing_left("");
    Some((ctx, output))
}

fn writes(when: &str, content: &str) -> Value {
    let write = json!({"content": [{"write_file": {"path": "answer.txt", "content": content}}]});
    json!([{"when": when, "message": write}, {"when": when, "message": {"content": [{"text": "done"}]}}])
}

fn record(ctx: &TestContext, agent: &str) -> Value {
    let trials = ctx.root().join(".proctor/latest/trials");
    let path: Utf8PathBuf = trials
        .join(agent)
        .join("task/trial-1/artifacts/record.json");
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

#[test]
fn variants_of_claude_md_change_the_answer_and_are_delivered() {
    let one = "Our convention here is number one, always.";
    let two = "Our convention here is number two, always.";
    let variants = json!([
        {"name": "one", "files": {"CLAUDE.md": {"text": one}}},
        {"name": "two", "files": {"CLAUDE.md": {"text": two}}},
        {"name": "nowhere", "files": {"lib/deep/NOTES.md": {"text": two}}},
    ]);
    let mut answers = writes(one, "one\n");
    let more = writes(two, "two\n");
    answers
        .as_array_mut()
        .unwrap()
        .extend(more.as_array().unwrap().clone());
    let Some((ctx, output)) = compare(&variants, &answers) else {
        return;
    };
    output.assert_code(1);
    let [one, two, nowhere] = ["one", "two", "nowhere"].map(|it| record(&ctx, it));
    assert_eq!(
        (&one["status"], &two["status"]),
        (&json!("failed"), &json!("passed")),
        "{output}"
    );
    for record in [&one, &two] {
        let part = &record["delivery"][0];
        assert_eq!(part["delivered"], true, "{record:#}");
        assert_eq!(part["name"], "CLAUDE.md");
        assert!(part["first_call"].as_u64().is_some(), "{record:#}");
        assert!(
            part["approx_tokens"].as_u64().is_some_and(|it| it > 5),
            "{record:#}"
        );
        assert!(!record.to_string().contains("Our convention"), "{record:#}");
    }
    assert_ne!(one["delivery"][0]["digest"], two["delivery"][0]["digest"]);
    assert_eq!(nowhere["delivery"][0]["delivered"], false, "{nowhere:#}");
    let warning = "not delivered: file `lib/deep/NOTES.md` of agent `nowhere`";
    assert!(output.stdout.contains(warning), "{output}");
    let latest = ctx.root().join(".proctor/latest");
    let report = ctx.proctor(["report", latest.as_str()]).run();
    assert!(report.stdout.contains(warning), "{report}");
    let json = ctx
        .proctor(["report", "--format", "json", latest.as_str()])
        .run();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let states: Vec<&Value> = json["delivery"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["state"])
        .collect();
    assert_eq!(
        states,
        ["not_delivered", "delivered", "delivered"],
        "{json:#}"
    );
}

#[test]
fn skill_that_fires_differs_from_one_that_does_not() {
    let variants = json!([{"name": "skilled", "skills": ["skills/fires", "skills/silent"]}]);
    let call = json!({"content": [{"tool_use": {"name": "Skill", "input": {"skill": "fires"}}}]});
    let answers = json!([{"message": call}, {"message": {"content": [{"text": "done"}]}}]);
    let Some((ctx, output)) = compare(&variants, &answers) else {
        return;
    };
    let record = record(&ctx, "skilled");
    let part = |name: &str| {
        let mut parts = record["delivery"].as_array().unwrap().iter();
        parts.find(|it| it["name"] == name).unwrap()
    };
    for (name, used) in [("fires", true), ("silent", false)] {
        let part = part(name);
        assert_eq!(part["place"], format!(".claude/skills/{name}"));
        assert_eq!(
            (&part["delivered"], &part["used"]),
            (&json!(true), &json!(used)),
            "{record:#}\n{output}"
        );
    }
}

/// Runs `proctor ab` on the only task of the context, with these arguments.
fn ab(ctx: &TestContext, answers: &Value, more: &[&str]) -> Output {
    let folder = ctx.root().join("suite");
    fs_err::create_dir_all(&folder).unwrap();
    let case = json!({
        "name": "task",
        "description": "answer as the file says",
        "repo": ctx.repo().path(),
        "agent": {"type": "null", "config": {"prompt": "do it"}},
        "evaluators": [{"name": "command", "config": {"command": "grep -qx two answer.txt"}}],
    });
    fs_err::write(folder.join("case.json"), case.to_string()).unwrap();
    let script = json!({"answers": answers}).to_string();
    fs_err::write(folder.join("answers.json"), script).unwrap();
    let own = [
        "ab",
        "case.json",
        "--agent",
        "claude-code",
        "--model-script",
        "answers.json",
    ];
    let program = ctx.proctor(own.into_iter().chain(more.iter().copied()));
    let program = program.current_dir(&folder);
    program.deadline(std::time::Duration::from_mins(8)).run()
}

#[test]
fn file_that_claude_code_does_not_read_decides_nothing() {
    let Some(Trial { ctx, .. }) = Trial::of(LATEST, Script::default()) else {
        return;
    };
    let text = "Our convention here is number two, always.";
    let setting = format!("lib/deep/NOTES.md=text:{text}");
    // Both fail alike: without the check of its delivery, the file would have no effect.
    let answers = json!([{"message": {"content": [{"text": "done"}]}}]);
    let output = ab(&ctx, &answers, &["--b", &setting, "--trials", "1"]);
    output.assert_code(4);
    let first = output.stdout.lines().next();
    let expected = "cannot be decided: the treatment of b was not delivered";
    assert_eq!(first, Some(expected), "{output}");
    let line = "NOT delivered: file lib/deep/NOTES.md of b ";
    assert!(output.stdout.contains(line), "{output}");
    ctx.assert_nothing_left("");
}

#[test]
fn skill_of_one_variant_is_delivered_and_fires() {
    let Some(Trial { ctx, .. }) = Trial::of(LATEST, Script::default()) else {
        return;
    };
    let skill = ctx.root().join("suite/skills/convention");
    fs_err::create_dir_all(&skill).unwrap();
    let description = "Explains the naming convention of this project.";
    let text = format!(
        "---\nname: convention\ndescription: {description}\n---\n\nThe body of the skill has these words.\n"
    );
    fs_err::write(skill.join("SKILL.md"), text).unwrap();
    let call =
        json!({"content": [{"tool_use": {"name": "Skill", "input": {"skill": "convention"}}}]});
    let mut answers = json!([{"when": description, "message": call}]);
    let more = writes(description, "two\n");
    let answers_list = answers.as_array_mut().unwrap();
    answers_list.extend(more.as_array().unwrap().clone());
    answers_list.push(json!({"message": {"content": [{"text": "done"}]}}));
    let output = ab(
        &ctx,
        &answers,
        &["--b", "skill=./skills/convention", "--trials", "1"],
    );
    // One trial of one task decides nothing.
    output.assert_code(4);
    let line = "Delivered: skill convention of b ";
    let line = output.stdout.lines().find(|it| it.starts_with(line));
    assert!(
        line.is_some_and(|it| it.ends_with("used in 1.")),
        "{output}"
    );
    assert!(
        output.stdout.contains("Passed only by b: task."),
        "{output}"
    );
}

#[test]
fn server_of_one_variant_is_connected_and_used() {
    let Some(Trial { ctx, .. }) = Trial::of(LATEST, Script::default()) else {
        return;
    };
    let folder = ctx.root().join("suite");
    fs_err::create_dir_all(&folder).unwrap();
    let server = folder.join("server.sh");
    fs_err::write(&server, MCP_SERVER).unwrap();
    let servers = json!({"mcpServers": {"tiny": {"command": "/bin/sh", "args": [server]}}});
    fs_err::write(folder.join("mcp.json"), servers.to_string()).unwrap();
    let tool = "mcp__tiny__ping";
    let call = json!({"content": [{"tool_use": {"name": tool, "input": {}}}]});
    let mut answers = vec![json!({"when": tool, "message": call})];
    answers.extend(writes(tool, "two\n").as_array().unwrap().clone());
    answers.push(json!({"message": {"content": [{"text": "done"}]}}));
    let more = ["--b", "mcp=mcp.json", "--trials", "1"];
    let output = ab(&ctx, &json!(answers), &more);
    // One trial of one task decides nothing.
    output.assert_code(4);
    let stdout = &output.stdout;
    assert!(stdout.contains("Passed only by b: task."), "{output}");
    let delivered = stdout
        .lines()
        .find(|it| it.starts_with("Delivered: MCP server tiny of b "));
    assert!(
        delivered.is_some_and(|it| it.ends_with("used in 1.")),
        "{output}"
    );
    ctx.assert_nothing_left("");
}

#[test]
fn version_of_one_variant_is_installed_and_runs() {
    let Some(Trial { ctx, .. }) = Trial::of(LATEST, Script::default()) else {
        return;
    };
    let Some(version) = ctx.install_npm("2.1.30") else {
        return;
    };
    let answers = json!([{"message": {"content": [{"text": "done"}]}}]);
    let setting = format!("version={version}");
    let output = ab(&ctx, &answers, &["--b", &setting, "--trials", "1"]);
    output.assert_code(4);
    let line = format!(" → {version}.");
    let line = output
        .stdout
        .lines()
        .find(|it| it.starts_with("version: ") && it.ends_with(&line));
    assert!(line.is_some(), "{output}");
}
