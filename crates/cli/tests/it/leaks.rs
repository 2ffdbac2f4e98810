//! NFR-2: a hundred trials in one process leave no memory, handle, child or file behind.
//! The harness is driven as a library here; through the binary every run is a process of its own.

use std::{collections::BTreeMap, path::Path};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Execution, Settings},
    plan::{CaseOptions, RunPlan, TrialPlan},
    run::{OnChange, OnEnd, Runner, control::Control},
};
use proctor_process::Supervisor;
use proctor_record::{record::TrialStatus, secrets::Secrets};
use proctor_sandbox::host::Host;
use proctor_testkit::TestContext;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const WARM_UP: usize = 10;
const TRIALS: usize = 100;

fn host(context: &TestContext) -> Host {
    let root = context.root().to_owned();
    let path = format!("{}:/usr/bin:/bin", context.bin());
    Host {
        env: BTreeMap::from([
            ("PATH".to_owned(), path),
            ("ANTHROPIC_API_KEY".to_owned(), "sk-ant-fake".to_owned()),
        ]),
        home: Some(context.home()),
        temp: make(&root.join("temp")),
        cache: None,
        is_root: false,
        supervisor: Supervisor::at(env!("CARGO_BIN_EXE_proctor")),
        ids: (0, 0),
        name: "test".to_owned(),
        binary: env!("CARGO_BIN_EXE_proctor").into(),
        cwd: root,
        secrets: Secrets::default(),
    }
}

fn make(folder: &Utf8Path) -> Utf8PathBuf {
    std::fs::create_dir_all(folder).expect("a folder can be made");
    folder.to_owned()
}

/// Open descriptors of this process.
fn descriptors() -> usize {
    count("/proc/self/fd")
}

/// Children of this process, zombies included.
fn children() -> usize {
    let pid = std::process::id();
    let children =
        std::fs::read_to_string(format!("/proc/self/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().count()
}

fn count(folder: impl AsRef<Path>) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Memory of this process that is resident, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("Linux tells the size");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .expect("the size is a number")
}

async fn trials(plan: &RunPlan, host: &Host, number: usize) {
    let cancel = CancellationToken::new();
    for _ in 0..number {
        let runner = Runner {
            plan,
            host,
            results_dir: &host.cwd.join("runs"),
            execution: &Execution::default(),
            parallel: 1,
            retries: 0,
            control: &Control::default(),
            on_change: OnChange::Refuse,
            on_end: &OnEnd::default(),
            run_jobs: None,
        };
        let summary = runner
            .run(&|_, _| {}, &cancel)
            .await
            .expect("the input is good");
        assert_eq!(summary.status, TrialStatus::Passed, "{summary:?}");
    }
}

#[test]
fn nfr_2_a_hundred_trials_in_one_process_leak_nothing() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    context.install_fake(
        "claude",
        &json!([
            { "when_args": ["--version"], "steps": [{ "print": { "text": "2.1.0 (Claude Code)\n" } }] },
            { "when_args": ["--help"], "steps": [{ "print": { "text": "  --model <m>\n" } }] },
            { "line": { "type": "result", "subtype": "success", "is_error": false, "result": "ok" } },
        ]),
    );
    let file = context.testcase(&format!(
        "name: leak\ndescription: nothing stays\nrepo: {}\nagent:\n  type: claude-code\n  config:\n    prompt: hello\nevaluators:\n  - git-diff\n  - name: command\n    config:\n      command: [\"true\"]\n",
        context.repo().path(),
    ));
    let host = host(&context);
    let plans = TrialPlan::load(&file, &host, &Settings::default(), &CaseOptions::default());
    let plans = plans.expect("the test case is good");
    let plan = RunPlan::of_cases(plans, 1, None, &Execution::default(), &host)
        .expect("one test case has a name of its own");

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(trials(&plan, &host, WARM_UP));
    let before = (descriptors(), children(), resident_kib());
    runtime.block_on(trials(&plan, &host, TRIALS));
    let after = (descriptors(), children(), resident_kib());

    assert_eq!(after.0, before.0, "open descriptors");
    assert_eq!(after.1, 0, "children");
    assert_eq!(count(&host.temp), 0, "temporary folders");
    let grown = after.2.saturating_sub(before.2);
    assert!(
        grown < 4 * 1024,
        "memory grew by {grown} KiB over {TRIALS} trials"
    );
}
