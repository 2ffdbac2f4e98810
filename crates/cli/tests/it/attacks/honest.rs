//! Honest work with every runner: the reference solution and other solutions score 1, and doing nothing scores 0. The
//! good work of the tables has a new module, a new test file, a new dependency, a new build target and, in Rust, a
//! build script. Products are a test and a file with settings of the runner.

use proctor_testkit::{Repo, TestContext};
use serde_json::{Value, json};

use crate::{
    judging::{judged_case, standing, write_patch},
    support::{context, with},
    table::{Table, write},
};

/// A task with a reference solution.
struct Task<'a> {
    context: TestContext,
    evaluators: &'a Value,
    scenario: &'a str,
}

impl Task<'_> {
    /// Check doing nothing, the reference, and these solutions.
    #[track_caller]
    fn check(&self, reference: &str, solutions: &[&str]) {
        write_patch(&self.context, reference);
        for (agent, expected) in [
            ("null", ("failed", Some(0.0))),
            ("oracle", ("passed", Some(1.0))),
        ] {
            let agent_config = json!({"agent": {"type": agent, "config": null}});
            self.expect("true", &agent_config, expected);
        }
        for line in solutions {
            self.expect(line, &json!({}), ("passed", Some(1.0)));
        }
    }

    /// Put this work on the base.
    fn solve(&self, work: &str) -> &Repo {
        write_patch(&self.context, work);
        let repo = self.context.repo();
        repo.git(["apply", "--index", "../cases/solution.patch"]);
        repo
    }

    #[track_caller]
    fn expect(&self, line: &str, more: &Value, expected: (&str, Option<f64>)) {
        let more = with(&json!({"reference": "solution.patch"}), more);
        let record = judged_case(&self.context, line, self.evaluators, &more);
        let scenario = self.scenario;
        assert_eq!(
            standing(&record),
            expected,
            "{scenario}: {line} {more}: {record:#}"
        );
    }
}

/// Check the scenarios of one runner.
pub fn check(table: &Table) {
    let renames = write(table.tests[0], table.renamed);
    let task = |scenario| {
        let context = context();
        let files: Vec<(&str, &str)> = table.files.iter().map(|(k, v)| (*k, v.as_str())).collect();
        context.repo().commit("base", &files);
        Task {
            context,
            evaluators: &table.evaluators,
            scenario,
        }
    };
    task("a feature").check(&table.good, &[&table.good]);
    // The reference changes the task's test; other solutions may or may not.
    let with_tests = format!("{}\n{renames}", table.good);
    task("renamed tests").check(&with_tests, &[&with_tests, &table.good]);
    // The work is there without any test, and tests are asked for. Files in `protect` cannot be a product.
    if table.evaluators[0]["config"].get("protect").is_some() {
        return;
    }
    let product = task("a test as product");
    let repo = product.solve(&table.good);
    let remove = ["rm", "--quiet", "-f", "--ignore-unmatch", "--", "*mine*"];
    repo.git(remove.into_iter().chain(table.tests.iter().copied()));
    repo.git(["commit", "--quiet", "--message", "solved"]);
    product.check(&renames, &[&renames]);
    if let Some((path, broken, working)) = &table.settings {
        let product = task("settings as product");
        product
            .solve(&table.good)
            .commit("broken", &[(path, broken)]);
        let fixes = write(path, working);
        product.check(&fixes, &[&fixes]);
    }
}
