//! Checks files against the formats of youBencha: its own schemas, and the field mapping and rules
//! that its Claude Code adapter documents. Both are written down in `data/`.

use serde_json::Value;

const LOG: &str = include_str!("../data/youbencha-log.schema.json");
const RESULTS: &str = include_str!("../data/youbencha-results.schema.json");

/// Panics unless the file is a valid `youbencha-log.json`.
#[track_caller]
pub fn check_log(log: &Value) {
    check(LOG, log);
    let usage = &log["usage"];
    let tokens = |name: &str| usage[name].as_u64().expect("the schema requires it");
    let total = tokens("input_tokens") + tokens("output_tokens");
    assert_eq!(tokens("total_tokens"), total, "{usage:#}");
    assert_eq!(tokens("prompt_tokens"), tokens("input_tokens"), "{usage:#}");
    assert_eq!(
        tokens("completion_tokens"),
        tokens("output_tokens"),
        "{usage:#}"
    );
    let execution = &log["execution"];
    let is_success = execution["status"] == "success";
    assert_eq!(is_success, execution["exit_code"] == 0, "{execution:#}");
    // Both times have the same form, which sorts.
    let time = |name: &str| execution[name].as_str().map(ToOwned::to_owned);
    assert!(time("started_at") <= time("completed_at"), "{execution:#}");
}

/// Panics unless the file is a valid `results.json`.
#[track_caller]
pub fn check_results(results: &Value) {
    check(RESULTS, results);
    let summary = &results["summary"];
    let count = |name: &str| summary[name].as_u64().expect("the schema requires it");
    let total = count("passed") + count("failed") + count("skipped");
    assert_eq!(count("total_evaluators"), total, "{summary:#}");
}

#[track_caller]
fn check(schema: &str, file: &Value) {
    let schema: Value = serde_json::from_str(schema).expect("the schema is JSON");
    let schema = jsonschema::validator_for(&schema).expect("the schema is one");
    let faults: Vec<String> = schema
        .iter_errors(file)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}\n{file:#}");
}
