//! Reports, comparisons and baselines of runs on disk; the page in a real Chromium.

use std::io::Write;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::context;

/// One trial that never ran: its score, or nothing for a rate limit.
pub(crate) struct Made<'a> {
    pub(crate) agent: &'a str,
    pub(crate) task: &'a str,
    pub(crate) trial: u32,
    pub(crate) score: Option<f64>,
    pub(crate) cost: f64,
    pub(crate) says: &'a str,
}

fn record(made: &Made) -> Value {
    let Made { agent, task, .. } = made;
    let kind = match *agent {
        "null" | "oracle" => agent,
        _ => "claude-code",
    };
    let status = match made.score {
        Some(score) if score >= 1.0 => "passed",
        Some(_) => "failed",
        None => "error",
    };
    let verdicts = made.score.map(|score| {
        json!([{
            "evaluator": "tests", "status": status, "score": score, "message": made.says,
            "artifacts": [{"type": "log", "path": "output.log", "description": "output"}],
            "metrics": {"output": made.says}, "duration_ms": 5, "timestamp": "2026-11-01T00:00:00Z",
        }])
    });
    json!({
        "version": "1.0.0", "run_id": "r", "trial": made.trial, "status": status,
        "outcome": if made.score.is_some() { "completed" } else { "rate_limit" },
        "agent": {"name": agent, "type": kind, "version": "2.1.0", "adapter_version": "0.1.0"},
        "task": {"name": task, "config_file": "s.yaml", "config_hash": "00", "repo": "./repo"},
        "started_at": "2026-11-01T00:00:00Z", "completed_at": "2026-11-01T00:01:00Z", "duration_ms": 60000,
        "process": {"argv": ["claude"], "duration_ms": 30000 + 1000 * made.trial, "exit_code": 0, "leaked": [],
            "output": {"stdout_bytes": 1, "stderr_bytes": 0, "transcript_truncated": false, "raw_truncated": false}},
        "usage": {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150, "cost_usd": made.cost, "source": "result_event"},
        "counts": {"retries": 0, "unknown_events": 0, "malformed_lines": 0, "oversized_lines": 0, "permission_denials": 0,
            "compactions": 0, "hooks": 0, "subagent_tool_calls": 0},
        "verdicts": verdicts.unwrap_or_else(|| json!([])), "errors": [], "notes": [],
        "host": {"os": "linux", "arch": "x86_64", "cpus": 2}, "proctor_version": "0.1.0",
    })
}

/// A run of a suite that never ran.
pub(crate) fn make_run(context: &TestContext, name: &str, trials: &[Made]) -> Utf8PathBuf {
    let run = context.root().join("results/runs").join(name);
    let mut plan = Vec::new();
    for (number, made) in trials.iter().enumerate() {
        let folder = made
            .task
            .replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
        let path = run.join("trials").join(made.agent).join(folder);
        let artifacts = path.join(format!("trial-{}/artifacts", made.trial));
        fs_err::create_dir_all(&artifacts).unwrap();
        let write = |name: &str, text: String| fs_err::write(artifacts.join(name), text).unwrap();
        write("record.json", record(made).to_string());
        write("prompt.md", format!("Fix it.\n{}", made.says));
        write("output.log", format!("assertion failed\n{}", made.says));
        let events = [
            json!({"t": 0, "event": "phase", "phase": "running"}),
            json!({"t": 1500, "event": "said", "text": made.says}),
            json!({"t": 2500, "event": "tool", "id": "t", "tool": "Bash", "target": "make test"}),
        ];
        write(
            "events.ndjson",
            events.map(|event| format!("{event}\n")).concat(),
        );
        write(
            "git-diff.patch",
            format!(
                "diff --git a/a.rs b/a.rs\n@@ -1 +1 @@\n-let a = 1;\n+let b = \"{number}\"; // new\n"
            ),
        );
        plan.push(json!({"agent": made.agent, "task": made.task, "trial": made.trial}));
    }
    fs_err::write(
        run.join("plan.json"),
        json!({"seed": 1, "trials": plan}).to_string(),
    )
    .unwrap();
    fs_err::write(run.join(".lock"), "").unwrap();
    run
}

const TASKS: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"];

/// Eight tasks with two trials each, that score about so much.
fn scores_about(agent: &str, level: f64, cost: f64) -> Vec<Made<'_>> {
    let mut trials = Vec::new();
    for (place, task) in TASKS.into_iter().enumerate() {
        for trial in [1, 2] {
            let wobble = 0.02 * ((place * 5 + trial as usize * 3) % 7) as f64;
            trials.push(Made {
                agent,
                task,
                trial,
                score: Some(level + wobble),
                cost: cost + wobble,
                says: "3 of 4 tests passed",
            });
        }
    }
    trials
}

fn report(context: &TestContext, args: &[&str]) -> Output {
    context
        .proctor(["report"].into_iter().chain(args.iter().copied()))
        .run()
}

#[test]
fn a_run_is_reported_in_every_format_and_the_same_each_time() {
    let context = context();
    let mut trials = scores_about("good", 0.8, 0.3);
    trials.extend(scores_about("poor", 0.2, 0.1));
    trials[0].score = None;
    let run = make_run(&context, "20261101-000000-0000000a", &trials);
    let starts = [
        ("table", "2 agents · 8 tasks · 32 trials"),
        ("markdown", "# Report"),
        ("html", "<!doctype html>"),
        ("junit", "<?xml"),
        ("json", "{\n  \"version\""),
        ("csv", "run,agent,task"),
    ];
    for (format, start) in starts {
        let output = report(&context, &[run.as_str(), "--format", format]);
        output.assert_code(0);
        assert!(
            output.stdout.starts_with(start),
            "{format}: {}",
            output.stdout
        );
        let path = context.root().join(format!("again.{format}"));
        let again = report(
            &context,
            &[run.as_str(), "--format", format, "--output", path.as_str()],
        );
        again.assert_code(0);
        assert_eq!(
            fs_err::read_to_string(&path).unwrap(),
            output.stdout,
            "{format}"
        );
    }
    let output = report(&context, &[run.as_str(), "--format", "json"]);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["agents"][0]["name"], "good");
    assert_eq!(json["agents"][0]["place"], json!({"best": 1, "worst": 1}));
    assert_eq!(json["agents"][0]["excluded"], json!({"rate_limit": 1}));
    assert_eq!(json["pareto_front"], json!(["poor", "good"]));
}

#[test]
fn the_newest_run_is_reported_when_none_is_named() {
    let context = context();
    make_run(
        &context,
        "20261101-000000-0000000a",
        &scores_about("old", 0.5, 0.1),
    );
    make_run(
        &context,
        "20261102-000000-0000000b",
        &scores_about("new", 0.5, 0.1),
    );
    let output = report(&context, &[]);
    output.assert_code(0);
    assert!(
        output.stdout.contains("20261102-000000-0000000b"),
        "{}",
        output.stdout
    );
    let output = report(&context, &["no-such-run"]);
    output.assert_code(2);
    assert!(
        output.stderr.contains("proctor list runs"),
        "{}",
        output.stderr
    );
}

/// The project's own directory is searched first, and its `latest` may be older than another run.
#[test]
fn latest_is_the_newest_run_of_all_directories() {
    let context = context();
    let old = make_run(
        &context,
        "20261101-000000-0000000a",
        &scores_about("old", 0.5, 0.1),
    );
    let own = context.root().join(".proctor/runs");
    fs_err::create_dir_all(&own).unwrap();
    let moved = own.join(old.file_name().unwrap());
    fs_err::rename(old, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, context.root().join(".proctor/latest")).unwrap();
    let new = make_run(
        &context,
        "20261102-000000-0000000b",
        &scores_about("new", 0.5, 0.1),
    );
    for named in [&[][..], &["latest"]] {
        let output = report(&context, named);
        let name = new.file_name().unwrap();
        assert!(output.stdout.contains(name), "{}", output.stdout);
    }
    fs_err::rename(new, own.join("20261031-000000-0000000c")).unwrap();
    let output = report(&context, &[]);
    let name = moved.file_name().unwrap();
    assert!(output.stdout.contains(name), "{}", output.stdout);
}

#[test]
fn runs_that_are_reported_together_say_where_they_differ() {
    let context = context();
    let one = make_run(
        &context,
        "20261101-000000-0000000a",
        &scores_about("a", 0.5, 0.1),
    );
    let other = make_run(
        &context,
        "20261102-000000-0000000b",
        &scores_about("a", 0.5, 0.1),
    );
    let path = other.join("trials/a/t1/trial-1/artifacts/record.json");
    let text = fs_err::read_to_string(&path).unwrap();
    let text = text.replace("\"config_hash\":\"00\"", "\"config_hash\":\"ff\"");
    fs_err::write(&path, text.replace("2.1.0", "2.2.0")).unwrap();
    fs_err::write(other.join("trials/a/t2/trial-1/artifacts/record.json"), "{").unwrap();
    let output = report(&context, &[one.as_str(), other.as_str()]);
    output.assert_code(0);
    for note in [
        "a ran with several versions: 2.1.0, 2.2.0.",
        "Task t1 has changed between these trials",
        "unreadable or misplaced records: trials/a/t2/trial-1.",
    ] {
        assert!(output.stdout.contains(note), "{note}\n{}", output.stdout);
    }
}

#[test]
fn a_single_result_is_reported_as_in_youbencha() {
    let context = context();
    let results = json!({
        "version": "1.0.0", "test_case": {"name": "fix-it", "description": "d", "repo": "r"},
        "agent": {"type": "claude-code", "status": "success", "exit_code": 0},
        "evaluators": [{"evaluator": "git-diff", "status": "passed", "message": "1 file", "metrics": {}}],
        "summary": {"overall_status": "passed"},
    });
    fs_err::write(context.root().join("results.json"), results.to_string()).unwrap();
    let output = report(&context, &["--from", "results.json"]);
    output.assert_code(0);
    assert!(output.stdout.starts_with("# fix-it\n"), "{}", output.stdout);
    let output = report(&context, &["--from", "results.json", "--format", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&output.stdout).unwrap(),
        results
    );
    report(&context, &["--from", "results.json", "--format", "csv"]).assert_code(2);
}

fn compare(context: &TestContext, args: &[&str]) -> Output {
    context
        .proctor(["compare"].into_iter().chain(args.iter().copied()))
        .run()
}

/// Two runs of an agent that got worse, and dearer.
pub(crate) fn two_runs(context: &TestContext) -> (Utf8PathBuf, Utf8PathBuf) {
    (
        make_run(
            context,
            "20261101-000000-0000000a",
            &scores_about("a", 0.7, 0.1),
        ),
        make_run(
            context,
            "20261102-000000-0000000b",
            &scores_about("a", 0.4, 0.3),
        ),
    )
}

#[test]
fn exit_code_shows_whether_a_rule_is_broken() {
    let context = context();
    let (before, after) = two_runs(&context);
    let (before, after) = (before.as_str(), after.as_str());
    compare(&context, &[before, after]).assert_code(0);
    let output = compare(
        &context,
        &[
            before,
            after,
            "--fail-on",
            "score<-0.05",
            "--fail-on",
            "cost>+20%",
        ],
    );
    output.assert_code(1);
    assert_eq!(
        output.stdout.matches("BROKEN").count(),
        2,
        "{}",
        output.stdout
    );
    compare(&context, &[after, before, "--fail-on", "score<-0.05"]).assert_code(0);
    compare(&context, &[before, after, "--fail-on", "score<-0.6"]).assert_code(0);
    compare(&context, &[before, after, "--fail-on", "score<0.6"]).assert_code(2);
}

#[test]
fn too_few_trials_are_undecided() {
    let context = context();
    let one = |score| {
        vec![Made {
            agent: "a",
            task: "t",
            trial: 1,
            score: Some(score),
            cost: 0.1,
            says: "",
        }]
    };
    let before = make_run(&context, "20261101-000000-0000000a", &one(1.0));
    let after = make_run(&context, "20261102-000000-0000000b", &one(0.0));
    let args = [before.as_str(), after.as_str(), "--fail-on", "score<-0.05"];
    let output = compare(&context, &args);
    output.assert_code(0);
    assert!(
        output.stdout.contains("too few trials to decide"),
        "{}",
        output.stdout
    );
    compare(&context, &[&args[..], &["--fail-undecided"]].concat()).assert_code(4);
}

#[test]
fn nothing_to_compare_is_not_a_success() {
    let context = context();
    let (before, _) = two_runs(&context);
    let lost = [Made {
        agent: "a",
        task: "t1",
        trial: 1,
        score: None,
        cost: 0.0,
        says: "",
    }];
    let lost = make_run(&context, "20261103-000000-0000000c", &lost);
    let output = compare(
        &context,
        &[before.as_str(), lost.as_str(), "--fail-on", "score<-0.05"],
    );
    output.assert_code(3);
}

#[test]
fn a_saved_baseline_outlives_its_run() {
    let context = context();
    let (before, after) = two_runs(&context);
    let save = ["baseline", "save", "main", before.as_str()];
    context.proctor(save).run().assert_code(0);
    context.proctor(save).run().assert_code(2);
    context
        .proctor(save.into_iter().chain(["--force"]))
        .run()
        .assert_code(0);
    fs_err::remove_dir_all(&before).unwrap();
    let listed = context.proctor(["baseline", "list"]).run();
    assert!(listed.stdout.contains("main"), "{}", listed.stdout);
    let shown = context.proctor(["baseline", "show", "main"]).run();
    assert!(
        shown.stdout.starts_with("1 agent · 8 tasks · 16 trials"),
        "{}",
        shown.stdout
    );
    let output = compare(
        &context,
        &["main", after.as_str(), "--fail-on", "score<-0.05"],
    );
    output.assert_code(1);
}

#[test]
fn agents_of_one_run_are_compared_by_name() {
    let context = context();
    let mut trials = scores_about("good", 0.8, 0.3);
    trials.extend(scores_about("poor", 0.2, 0.1));
    let run = make_run(&context, "20261101-000000-0000000a", &trials);
    let run = run.as_str();
    let output = compare(&context, &["good", "poor", "--run", run]);
    output.assert_code(0);
    assert!(
        output
            .stdout
            .contains("poor (20261101-000000-0000000a) against good"),
        "{}",
        output.stdout
    );
    let named = [format!("{run}:good"), format!("{run}:poor")];
    let same = compare(&context, &[&named[0], &named[1]]);
    assert_eq!(same.stdout, output.stdout);
    let wrong = compare(&context, &["good", "pore", "--run", run]);
    wrong.assert_code(2);
    assert!(
        wrong.stderr.contains("available: good, poor"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_job_of_github_gets_a_summary_and_annotations() {
    let context = context();
    let (before, after) = two_runs(&context);
    let summary = context.root().join("summary.md");
    fs_err::write(&summary, "earlier\n").unwrap();
    let args = [
        "compare",
        before.as_str(),
        after.as_str(),
        "--fail-on",
        "score<-0.05",
    ];
    let program = context.proctor(args).env("GITHUB_ACTIONS", "true");
    let output = program.env("GITHUB_STEP_SUMMARY", summary.as_str()).run();
    output.assert_code(1);
    let text = fs_err::read_to_string(&summary).unwrap();
    assert!(text.starts_with("earlier\n# Comparison\n"), "{text}");
    assert!(
        output.stderr.contains("::error title=score<-0.05 of a"),
        "{}",
        output.stderr
    );
}

const BROWSERS: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// A browser; without one the test is skipped, unless this is CI.
#[expect(
    clippy::disallowed_methods,
    reason = "whether this is CI stands in the environment"
)]
pub(crate) fn browser(test: &str) -> Option<&'static Utf8Path> {
    let found = BROWSERS
        .into_iter()
        .map(Utf8Path::new)
        .find(|path| path.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "Chromium is not installed"
        );
        // Bypasses the capture of the test harness, so that the line is visible.
        let _ = writeln!(std::io::stdout(), "SKIPPED {test}: there is no Chromium");
    }
    found
}

/// The page at this address, after its script ran; what the console said is checked.
#[track_caller]
pub(crate) fn open(context: &TestContext, browser: &Utf8Path, url: &str) -> String {
    let profile = format!("--user-data-dir={}", context.root().join("profile"));
    let words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--virtual-time-budget=20000",
        "--dump-dom",
        &profile,
        url,
    ];
    let program = context.program(browser, words);
    let output = program.deadline(std::time::Duration::from_mins(3)).run();
    output.assert_code(0);
    assert!(!output.stderr.contains("CONSOLE"), "{}", output.stderr);
    assert!(
        output.stdout.contains("data-ready=\"yes\""),
        "{}",
        output.stdout
    );
    output.stdout
}

/// The tasks of the trials that are shown, in their order.
fn shown(page: &str) -> Vec<String> {
    let list = page.split("id=\"list\"").nth(1).unwrap();
    let body = list
        .split("<tbody>")
        .nth(1)
        .unwrap()
        .split("</tbody>")
        .next()
        .unwrap();
    let links = body.split("<a href=\"#").skip(1);
    links
        .map(|rest| rest.split_once("\">").unwrap().1)
        .map(|rest| rest.split("</a>").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_works_in_a_real_browser_chromium() {
    let context = context();
    let Some(browser) = browser("the_page_works_in_a_real_browser_chromium") else {
        return;
    };
    let nasty = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\u{1b}[31m\u{202e}";
    let made = |agent, task, score, cost| Made {
        agent,
        task,
        trial: 1,
        score,
        cost,
        says: nasty,
    };
    let trials = [
        made("a", "one", Some(0.5), 0.3),
        made("a", "two", Some(1.0), 0.1),
        made("<i>b</i>", "one", Some(0.0), 0.2),
        made("<i>b</i>", "<b>three</b>", None, 0.4),
    ];
    let run = make_run(&context, "20261101-000000-0000000a", &trials);
    let page = context.root().join("page.html");
    report(&context, &[run.as_str(), "--output", page.as_str()]).assert_code(0);
    let url = |hash: &str| format!("file://{page}#{hash}");

    let all = open(&context, browser, &url(""));
    assert_eq!(
        shown(&all),
        ["&lt;b&gt;three&lt;/b&gt;", "one", "one", "two"]
    );
    assert!(
        all.contains("<title>Report · Proctor</title>"),
        "no script of an agent ran"
    );
    assert!(
        !all.contains("<i>b") && !all.contains("<img"),
        "no markup of an agent"
    );
    let sorted = open(&context, browser, &url("sort=cost&dir=desc"));
    assert_eq!(
        shown(&sorted),
        ["&lt;b&gt;three&lt;/b&gt;", "one", "one", "two"]
    );
    let sorted = open(&context, browser, &url("sort=cost"));
    assert_eq!(
        shown(&sorted),
        ["two", "one", "one", "&lt;b&gt;three&lt;/b&gt;"]
    );
    let filtered = open(&context, browser, &url("agent=a&status=failed"));
    assert_eq!(shown(&filtered), ["one"]);
    let searched = open(
        &context,
        browser,
        &url("filter=rate_limit+three&theme=dark"),
    );
    assert_eq!(shown(&searched), ["&lt;b&gt;three&lt;/b&gt;"]);
    assert!(searched.contains("data-theme=\"dark\""));
    let trial = open(&context, browser, &url("trial=2"));
    for part in [
        ">Verdicts</h3>",
        ">Fix it.\n&lt;/script&gt;",
        ">assertion failed\n&lt;/script&gt;",
        ">Session</h3>",
        "Bash</strong> <code>make test</code>",
        "<tr class=\"add\">",
        "<span class=\"k\">let</span>",
        "<span class=\"c\">// new</span>",
    ] {
        assert!(trial.contains(part), "{part}");
    }
    assert!(
        trial.contains("<title>Report · Proctor</title>"),
        "no script of an agent ran"
    );
}
