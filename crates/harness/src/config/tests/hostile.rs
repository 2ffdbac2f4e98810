//! Malicious files, and files that are just large.

use proctor_agents::agent::MAX_PROMPT_CHARS;
use proctor_document::Node;
use proptest::prelude::*;

use super::{Folder, GOOD, good, refusal, with};

#[test]
fn prompt_of_a_million_characters_is_read() {
    let prompt = "é ".repeat(MAX_PROMPT_CHARS / 2 - 1) + "!!";
    let case = good(&with("Fix it", &prompt));
    assert_eq!(
        case.agent.config.get("prompt").and_then(Node::as_str),
        Some(&*prompt)
    );
    let lines = "word `x` $5\n".repeat(80_000);
    let block = format!("|\n      {}", lines.trim_end().replace('\n', "\n      "));
    let case = good(&with("Fix it", &block));
    assert_eq!(
        case.agent.config.get("prompt").and_then(Node::as_str),
        Some(&*lines)
    );
}

#[test]
fn exponential_aliases_are_refused() {
    let wide: Vec<String> = (1..12)
        .map(|level| {
            let inner = vec![format!("*a{}", level - 1); 10].join(", ");
            format!("a{level}: &a{level} [{inner}]\n")
        })
        .collect();
    let wide = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{}", wide.concat());
    assert!(refusal(wide).contains("the file is too large with its aliases expanded"));
    let deep: Vec<String> = (1..200)
        .map(|level| format!("b{level}: &b{level} [*b{}]\n", level - 1))
        .collect();
    let deep = format!("b0: &b0 [x]\n{}", deep.concat());
    assert!(refusal(deep).contains("nested more than 64 levels deep"));
    let repeated = format!(
        "c: &c {}\nd: [{}]\n",
        "x".repeat(1 << 20),
        "*c, ".repeat(80)
    );
    assert!(refusal(repeated).contains("the file is too large with its aliases expanded"));
    assert!(refusal("[".repeat(10_000)).contains("not valid YAML"));
    assert!(refusal("a: &a [*a]\n").contains("inside the value that it repeats"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        never_panics(&bytes);
    }

    #[test]
    fn any_yaml_like_text_is_read_or_refused(
        text in "([a-z&*!|>{}\\[\\]:,#'\"\\-\\$ \\n\\t\u{e9}\u{1f389}]|: |- |\\$\\{A|<<: |\\r\\n){0,60}"
    ) {
        never_panics(text.as_bytes());
        never_panics(format!("{GOOD}{text}").as_bytes());
    }
}

fn never_panics(bytes: &[u8]) {
    let folder = Folder::new();
    for name in ["case.yaml", "case.json"] {
        folder.write(name, bytes);
        if let Err(error) = folder.load(name) {
            assert!(!error.to_string().is_empty());
            assert!(!error.faults.is_empty());
        }
    }
}
