//! Variables in test cases; their values must not appear in messages.

use insta::assert_snapshot;
use proctor_document::Node;

use super::{Folder, and, good, refusal, with};
use crate::config::{Settings, load};

#[test]
fn variables_are_replaced_and_unset_ones_reported() {
    let case = good(&with("Fix it", "\"use ${TOKEN} and $${TOKEN} for $5\""));
    assert_eq!(
        case.agent.config.get("prompt").and_then(Node::as_str),
        Some("use s3cret-value and ${TOKEN} for $5")
    );
    assert_snapshot!(refusal(with("Fix it", "|\n      one\n      two ${NOPE} $${NOPE}")), @"
    testcase.yaml:9:11: `NOPE` is not set
     9 |       two ${NOPE} $${NOPE}
       |           ^^^^^^^
    hint: set it in the environment or under `variables` in .youbencharc, give a default with `${NOPE:-…}`, or write `$${NOPE}` for the text itself
    ");
}

#[test]
fn secrets_are_masked_in_messages() {
    let shown = refusal(and("timeout: ${TOKEN}"));
    assert_snapshot!(shown, @r#"
    testcase.yaml:10:10: expected a whole number, found the string "${TOKEN}"
     10 | timeout: ${TOKEN}
        |          ^^^^^^^^
    "#);
    let shown =
        refusal(with("https://example.com/repo.git", "x://${TOKEN}@y") + "branch: '-${TOKEN}'\n");
    assert!(!shown.contains("s3cret"), "{shown}");
    let case = good(&with("Fix it", "${TOKEN}"));
    let error = case
        .source
        .error(vec![case.agent.config.fault("prompt", "bad: s3cret-value")]);
    assert!(error.to_string().contains("bad: ${TOKEN}"), "{error}");
    assert!(!format!("{:?}", case.source).contains("s3cret"));
}

#[test]
fn long_secrets_are_masked_completely() {
    let folder = Folder::new();
    let path = folder.write("testcase.yaml", and("timeout: 'Bearer ${KEY}'"));
    let key = format!("line\n{}", "k3y".repeat(400));
    let env = [("KEY".to_owned(), key)].into();
    let error = load(&path, &env, &Settings::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("found the string \"Bearer ${KEY}\""),
        "{error}"
    );
}
