//! Results that Thunderdome wrote: reported and judged again.

use camino::Utf8PathBuf;
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::{
    support::with,
    thunderdome_contract::{program, project, thunderdome},
};

/// A patch that does the task.
const PATCH: &str = "diff --git a/answer b/answer\nnew file mode 100644\nindex 0000000..d81cc07\n--- /dev/null\n+++ b/answer\n@@ -0,0 +1 @@\n+forty-two\n";

/// Writes a trial as Thunderdome does.
pub(crate) fn foreign(
    context: &TestContext,
    agent: &str,
    task: &str,
    trial: u32,
    more: &Value,
) -> Utf8PathBuf {
    let path = format!("results/runs/2026-02-12T15-25-21/trials/{agent}/{task}/trial-{trial}");
    let folder = context.root().join(path);
    fs_err::create_dir_all(&folder).unwrap();
    let meta = json!({
        "orchestrator": agent, "task": task, "trial": trial, "duration_s": 26, "exit_code": 0,
        "exit_reason": "completed", "scores": {"tests": 0.5, "static_analysis": 1},
        "composite_score": 0.65, "total_tokens": 0, "total_cost_usd": 0, "budget_exceeded": false,
    });
    fs_err::write(folder.join("meta.json"), with(&meta, more).to_string()).unwrap();
    fs_err::write(folder.join("diff.patch"), PATCH).unwrap();
    fs_err::write(folder.join("task.md"), "Write forty-two.\n").unwrap();
    folder
}

#[test]
fn results_that_thunderdome_wrote_are_reported() {
    let context = project(&json!({}));
    let bench = "bench-time-tracker";
    foreign(
        &context,
        "writer",
        bench,
        1,
        &json!({"total_tokens": 1200, "total_cost_usd": 0.25}),
    );
    foreign(
        &context,
        "writer",
        bench,
        2,
        &json!({"exit_reason": "timeout", "exit_code": 124, "composite_score": 0.1}),
    );
    foreign(
        &context,
        "writer",
        bench,
        3,
        &json!({"error": "no such image"}),
    );
    let results = context.root().join("results");
    std::os::unix::fs::symlink("/moved/away/2026-02-12T15-25-21", results.join("latest")).unwrap();
    let output = thunderdome(&context, &["report", "--format", "csv"]);
    output.assert_code(0);
    let lines: Vec<&str> = output.stdout.lines().skip(1).collect();
    let row = |number: &str, rest: &str| {
        format!("2026-02-12T15-25-21,writer,{bench},,{number},{rest},thunderdome_meta")
    };
    let expect = [
        row(
            "1",
            "failed,completed,0.65,0.25,26000,1200,,static_analysis=1;tests=0.5",
        ),
        row(
            "2",
            "failed,timeout,0.1,,26000,,,static_analysis=1;tests=0.5",
        ),
        row("3", "error,sandbox,,,26000,,,static_analysis=1;tests=0.5"),
    ];
    assert_eq!(lines, expect);
    let folder = "results/runs/2026-02-12T15-25-21";
    let report = thunderdome(&context, &["report", folder]);
    let note = "3 trials from the meta.json files of Thunderdome";
    assert!(report.stdout.contains(note), "{report}");
    let json = thunderdome(&context, &["report", folder, "--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        json["agents"][0]["excluded"],
        json!({"sandbox": 1}),
        "{json:#}"
    );
}

#[test]
fn results_that_thunderdome_wrote_are_judged_again_or_it_says_why_not() {
    let context = project(&json!({}));
    let bench = "bench-time-tracker";
    let good = foreign(&context, "writer", bench, 1, &json!({"own": "kept"}));
    let without = foreign(&context, "writer", bench, 2, &json!({}));
    fs_err::remove_file(without.join("diff.patch")).unwrap();
    let other = foreign(&context, "writer", bench, 3, &json!({}));
    let patch = PATCH
        .replace("new file mode 100644\n", "")
        .replace("/dev/null", "a/answer");
    fs_err::write(other.join("diff.patch"), patch).unwrap();
    foreign(&context, "gone", "bench-gone", 1, &json!({}));
    foreign(
        &context,
        "writer",
        bench,
        4,
        &json!({"error": "no such image"}),
    );
    let broken = foreign(&context, "writer", bench, 5, &json!({}));
    fs_err::write(broken.join("meta.json"), "{").unwrap();
    let output = thunderdome(&context, &["rescore", "--json"]);
    output.assert_code(3);
    let reported: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        reported[0]["trials"].as_array().unwrap().len(),
        1,
        "{reported:#}"
    );
    assert_eq!(
        reported[0]["trials"][0]["before"],
        json!({"status": "failed", "score": 0.65})
    );
    assert_eq!(
        reported[0]["trials"][0]["after"],
        json!({"status": "passed", "score": 1.0})
    );
    let reasons: Vec<&str> = reported[0]["not_judged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["reason"].as_str().unwrap())
        .collect();
    for (reason, part) in reasons.iter().zip([
        "thunderdome.yaml has no task `bench-gone`",
        "diff.patch with the agent's change is missing",
        "cannot apply diff.patch to v1 of ",
        "no such image",
        "cannot read its meta.json",
    ]) {
        assert!(reason.contains(part), "{part}: {reasons:#?}");
    }
    assert_eq!(reasons.len(), 5);
    let meta: Value =
        serde_json::from_slice(&fs_err::read(good.join("meta.json")).unwrap()).unwrap();
    assert_eq!(meta["scores"], json!({"tests": 1.0}));
    assert_eq!(meta["own"], "kept");
    assert_eq!(meta["history"][0]["composite_score"], 0.65);
    // The next report shows it; without the file nothing can be judged.
    let report = thunderdome(&context, &["report", "--format", "csv"]);
    assert!(report.stdout.contains(",1,passed,completed,1,"), "{report}");
    fs_err::rename(
        context.root().join("thunderdome.yaml"),
        context.root().join("x.yaml"),
    )
    .unwrap();
    let output = thunderdome(&context, &["rescore"]);
    output.assert_code(3);
    assert!(
        output
            .stdout
            .contains("pass the thunderdome.yaml with --config"),
        "{output}"
    );
    thunderdome(&context, &["--config", "x.yaml", "rescore"]);
    let meta: Value =
        serde_json::from_slice(&fs_err::read(good.join("meta.json")).unwrap()).unwrap();
    assert_eq!(meta["history"].as_array().unwrap().len(), 2);
}

#[test]
fn rescore_without_a_run_judges_all_runs() {
    let context = project(&json!({}));
    thunderdome(&context, &["run", "--orchestrator", "writer"]).assert_code(0);
    thunderdome(&context, &["run", "--orchestrator", "null"]).assert_code(1);
    foreign(&context, "writer", "bench-time-tracker", 1, &json!({}));
    let output = thunderdome(&context, &["rescore"]);
    output.assert_code(1);
    assert_eq!(
        output.stdout.matches("1 trial rescored").count(),
        3,
        "{output}"
    );
    let empty = context.root().join("empty");
    fs_err::create_dir(&empty).unwrap();
    let output = program(&context, &["rescore"]).current_dir(&empty).run();
    output.assert_code(2);
    assert!(output.stderr.contains("no runs found"), "{output}");
}
