//! The strength of a task's tests: the share of the solution's hunks without which a counted test
//! fails.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{error::MineError, sets::Sets, states::StateRunner, trees::Trees};

/// The maximum number of hunks that are undone.
pub(crate) const MAX_HUNKS: usize = 10;

/// How many hunks of the solution the tests notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strength {
    /// The hunks of the solution.
    pub hunks: usize,
    /// The hunks that were undone, each alone.
    pub undone: usize,
    /// The undone hunks that a counted test noticed.
    pub noticed: usize,
}

/// Undoes hunks of the solution, each alone, and runs the tests.
pub(crate) async fn measure(
    runner: &StateRunner<'_>,
    trees: &Trees,
    sets: &Sets,
) -> Result<Strength, MineError> {
    let diff = runner.store.diff(&trees.with_tests, &trees.rebuilt).await?;
    let hunks = hunks(&diff);
    let mut undone = Vec::new();
    for hunk in spread(&hunks, MAX_HUNKS) {
        undone.extend(runner.store.undo(&trees.rebuilt, hunk).await?);
    }
    let wanted: BTreeSet<&str> = undone.iter().map(String::as_str).collect();
    let runs = runner.run(&wanted, 1).await?;
    let is_red = |tree: &&String| {
        let runs = runs.get(*tree).into_iter().flatten();
        runs.clone().any(|run| !sets.all_pass(run))
    };
    Ok(Strength {
        hunks: hunks.len(),
        undone: undone.len(),
        noticed: undone.iter().filter(is_red).count(),
    })
}

/// The hunks of a patch, each as a patch of its own.
fn hunks(diff: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in split_before(diff, "diff --git ") {
        let parts = split_before(file, "@@ ");
        let Some((head, hunks)) = parts.split_first() else {
            continue;
        };
        if hunks.is_empty() {
            found.push((*head).to_owned());
        }
        found.extend(hunks.iter().map(|hunk| format!("{head}{hunk}")));
    }
    found
}

/// The parts of a text that start at lines with this start; the first part starts with the text.
fn split_before<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with(start) && at > from {
            parts.push(&text[from..at]);
            from = at;
        }
        at += line.len();
    }
    if at > from {
        parts.push(&text[from..]);
    }
    parts
}

/// At most `most` items, spread over the list.
fn spread(items: &[String], most: usize) -> impl Iterator<Item = &String> {
    let count = items.len().min(most);
    (0..count).map(move |number| &items[number * items.len() / count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_separated_into_hunks() {
        let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\ndiff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+@@ e\n";
        let found = hunks(diff);
        assert_eq!(found.len(), 3);
        assert_eq!(
            found[1],
            "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -9 +9 @@\n-c\n+d\n"
        );
        assert!(found[2].ends_with("+@@ e\n"));
        let numbers: Vec<String> = (0..25).map(|it| it.to_string()).collect();
        let chosen: Vec<&String> = spread(&numbers, 5).collect();
        assert_eq!(chosen, ["0", "5", "10", "15", "20"]);
    }
}
