//! The steps of a Harbor task: `[[steps]]` of `task.toml`, and the folders below `steps`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use camino::Utf8PathBuf;
use proctor_agents::agent::PromptSource;
use proctor_document::{ConfigError, Fault};
use proctor_record::fs::named;

use super::{
    Asks, Files, Step, StepStrategy, Steps, Task,
    harbor::{first_line, instruction, reference},
    harbor_reader::HarborReader,
    harbor_toml::{ArtifactEntry, RewardStrategy, StepTable, TaskToml, VerifierTable},
};
use crate::{
    evaluate::{Evaluator, Verifier, VerifierMode},
    workspace::{Environment, Healthcheck},
};

/// A step without its place in a task.
pub(super) struct StepParts {
    name: String,
    folder: Utf8PathBuf,
    timeout: Option<Duration>,
    user: Option<String>,
    verifier: Verifier,
    healthcheck: Option<Healthcheck>,
    min_reward: BTreeMap<String, f64>,
}

/// The tables of a step, with those of the task where the step has none.
fn inherited(task: &VerifierTable, step: &VerifierTable) -> VerifierTable {
    let separates = |table: &VerifierTable| match (table.environment_mode, &table.environment) {
        (Some(mode), _) => Some(mode),
        (None, Some(_)) => Some(VerifierMode::Separate),
        (None, None) => None,
    };
    let mode = separates(step)
        .or(separates(task))
        .unwrap_or(VerifierMode::Shared);
    let of_task = task.environment.as_ref();
    let of_task = of_task.filter(|_| mode == VerifierMode::Separate);
    let mut env = task.env.clone();
    env.extend(step.env.clone());
    let own_network = step.network_mode.is_some();
    VerifierTable {
        timeout_sec: step.timeout_sec.or(task.timeout_sec),
        env,
        user: step.user.clone().or(task.user.clone()),
        environment_mode: Some(mode),
        environment: step.environment.as_ref().or(of_task).cloned(),
        collect: [task.collect.as_slice(), &step.collect].concat(),
        network_mode: step.network_mode.or(task.network_mode),
        allowed_hosts: if own_network {
            step.allowed_hosts.clone()
        } else {
            step.allowed_hosts.clone().or(task.allowed_hosts.clone())
        },
    }
}

impl HarborReader<'_> {
    /// Reads `[[steps]]`.
    pub(super) fn steps(
        &mut self,
        written: &TaskToml,
        environment: &Environment,
    ) -> Vec<StepParts> {
        if !written.steps.is_empty() {
            self.needs_container("", "steps", "a task of several `steps`");
        }
        let mut names = BTreeSet::new();
        let mut found = Vec::new();
        for (number, step) in written.steps.iter().enumerate() {
            let at = format!("steps.{number}");
            if !is_folder_name(&step.name) || !names.insert(step.name.to_lowercase()) {
                let message = "the `name` of a step must be the name of a folder, and unique";
                let fault = Fault::new(self.span(&at, "name"), message);
                self.faults.push(fault);
                continue;
            }
            found.push(self.step(&at, (written, step), environment));
        }
        found
    }

    fn step(
        &mut self,
        at: &str,
        (written, step): (&TaskToml, &StepTable),
        environment: &Environment,
    ) -> StepParts {
        let folder = self.folder.join("steps").join(&step.name);
        let tests = [self.folder.join("tests"), folder.join("tests")];
        let tests: Vec<Utf8PathBuf> = tests.into_iter().filter(|it| it.is_dir()).collect();
        if !tests.iter().any(|folder| folder.join("test.sh").is_file()) {
            let name = &step.name;
            let message =
                format!("the step has neither steps/{name}/tests/test.sh nor tests/test.sh");
            self.faults.push(Fault::new(self.span(at, "name"), message));
        }
        if folder.join("trajectory.json").exists() {
            self.refuse(at, "name", "a step that starts from a `trajectory.json`");
        }
        let agent = &step.agent;
        let network = self.network(
            &format!("{at}.agent"),
            agent.network_mode,
            agent.allowed_hosts.as_ref(),
        );
        if network.is_some() && network != environment.network {
            let table = format!("{at}.agent");
            self.refuse(
                &table,
                "network_mode",
                "a step with another network than its task",
            );
        }
        let table = inherited(&written.verifier, &step.verifier);
        let artifacts: Vec<ArtifactEntry> =
            [written.artifacts.as_slice(), &step.artifacts].concat();
        let verifier = self.verifier(
            &format!("{at}.verifier"),
            (&table, &artifacts),
            &tests,
            environment,
        );
        let timeout = agent.timeout_sec.or(written.agent.timeout_sec);
        let own_user = agent.user.as_ref().map(|user| user.0.clone());
        StepParts {
            name: step.name.clone(),
            timeout: self.seconds(&format!("{at}.agent"), "timeout_sec", timeout),
            user: own_user.or(environment.user.clone()),
            verifier,
            healthcheck: step
                .healthcheck
                .as_ref()
                .map(|check| self.healthcheck(at, check)),
            min_reward: step
                .min_reward
                .as_ref()
                .map(|least| least.0.clone())
                .unwrap_or_default(),
            folder,
        }
    }
}

/// Adds steps to a task. The task itself has the prompt of the first step and all evaluators.
pub(super) fn with_steps(
    mut task: Task,
    parts: Vec<StepParts>,
    strategy: Option<RewardStrategy>,
    solution_env: &BTreeMap<String, String>,
) -> Result<Task, ConfigError> {
    let mut all = Vec::new();
    for part in parts {
        all.push(step(&task, part, solution_env)?);
    }
    let Some(first) = all.first().map(|step| Arc::clone(&step.task)) else {
        return Ok(task);
    };
    if let (Asks::Prompt(PromptSource::Text(text)), true) =
        (&first.asks, task.description.is_empty())
    {
        task.description = first_line(text);
    }
    task.asks = first.asks.clone();
    task.files = first.files.clone();
    task.limits = first.limits;
    let has_reference = |step: &Step| step.task.reference.is_some();
    task.reference = if all.iter().all(has_reference) {
        first.reference.clone()
    } else {
        None
    };
    let evaluators = all
        .iter()
        .flat_map(|step| step.task.evaluators.iter().cloned());
    task.evaluators = evaluators.collect::<Vec<Evaluator>>().into();
    let strategy = match strategy {
        Some(RewardStrategy::Final) => StepStrategy::Final,
        Some(RewardStrategy::Mean) | None => StepStrategy::Mean,
    };
    task.steps = Some(Arc::new(Steps { all, strategy }));
    Ok(task)
}

fn step(
    task: &Task,
    part: StepParts,
    solution_env: &BTreeMap<String, String>,
) -> Result<Step, ConfigError> {
    let asked = instruction(&part.folder.join("instruction.md"))?;
    let mut own = task.clone();
    own.asks = Asks::Prompt(PromptSource::Text(asked));
    own.limits.timeout = part.timeout;
    own.evaluators = vec![Evaluator::of_verifier(part.verifier)].into();
    if part.folder.join("solution").is_dir() {
        own.reference = reference(&part.folder, solution_env);
    }
    if let Files::Image(environment) = &mut own.files {
        environment.user = part.user;
    }
    let workdir = named::absolute(&part.folder.join("workdir"));
    Ok(Step {
        name: part.name,
        task: Arc::new(own),
        workdir: workdir.is_dir().then_some(workdir),
        healthcheck: part.healthcheck,
        min_reward: part.min_reward,
    })
}

/// Whether a text is the name of one folder on all platforms.
fn is_folder_name(name: &str) -> bool {
    let is_reserved = |c: char| c.is_control() || r#"<>:"/\|?*"#.contains(c);
    !name.trim().is_empty()
        && name.len() <= 255
        && !name.ends_with(['.', ' '])
        && !name.contains(is_reserved)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proctor_agents::agent::PromptSource;

    use super::super::tests::{complaint, folder, load};
    use crate::{
        config::Reference,
        evaluate::VerifierMode,
        task::{Asks, StepStrategy, Task},
    };

    const TOML: &str = r#"
artifacts = ["/a"]
multi_step_reward_strategy = "final"
[agent]
timeout_sec = 60
user = "worker"
[verifier]
env = {A = "1", B = "1"}
timeout_sec = 50
[verifier.environment]
docker_image = "v:1"
[solution]
env = {S = "1"}
[[steps]]
name = "one"
min_reward = 0.5
artifacts = ["/b"]
[steps.agent]
timeout_sec = 5
user = 0
[steps.verifier]
env = {B = "2"}
timeout_sec = 7
environment_mode = "shared"
[[steps]]
name = "two"
min_reward = {speed = 2, "reward" = 1}
healthcheck = {command = "true"}
future = 1
"#;

    fn prompt(task: &Task) -> &str {
        match &task.asks {
            Asks::Prompt(PromptSource::Text(text)) => text,
            _ => panic!("no prompt"),
        }
    }

    #[test]
    fn steps_have_their_own_values_or_those_of_the_task() {
        let folder = folder(&[
            ("task.toml", TOML),
            ("steps/one/instruction.md", "# canary\nFirst.\n"),
            ("steps/one/solution/solve.sh", ""),
            ("steps/one/tests/test.sh", ""),
            ("steps/two/instruction.md", "Second.\n"),
            ("steps/two/workdir/setup.sh", ""),
            ("solution/solve.sh", ""),
        ]);
        fs_err::remove_file(folder.path.join("instruction.md")).unwrap();
        let task = load(&folder).unwrap();
        let steps = task.steps.as_ref().unwrap();
        assert_eq!(steps.strategy, StepStrategy::Final);
        let [one, two] = steps.all.as_slice() else {
            panic!("{steps:?}");
        };
        assert_eq!((one.name.as_str(), two.name.as_str()), ("one", "two"));
        assert_eq!(prompt(&one.task), "First.\n");
        assert_eq!(prompt(&two.task), "Second.\n");
        assert_eq!(
            (prompt(&task), task.description.as_str()),
            ("First.\n", "First.")
        );
        let seconds = |task: &Task| task.limits.timeout.map(|it| it.as_secs());
        assert_eq!(
            (seconds(&one.task), seconds(&two.task)),
            (Some(5), Some(60))
        );
        let user = |task: &Task| task.environment().unwrap().user.clone().unwrap();
        assert_eq!(
            (user(&one.task), user(&two.task)),
            ("0".into(), "worker".into())
        );
        assert_eq!(one.min_reward, [("reward".to_owned(), 0.5)].into());
        assert_eq!(
            (two.min_reward["speed"], two.min_reward["reward"]),
            (2.0, 1.0)
        );
        assert!(one.workdir.is_none() && two.workdir.is_some());
        assert!(one.healthcheck.is_none() && two.healthcheck.is_some());
        let solution = |task: &Task| match &task.reference {
            Some(Reference::Script(solution)) => solution.clone(),
            other => panic!("{other:?}"),
        };
        assert!(solution(&one.task).folder.ends_with("steps/one/solution"));
        assert_eq!(solution(&one.task).env["S"], "1");
        assert!(solution(&two.task).folder.ends_with("greet/solution"));
        assert_eq!(
            task.notes,
            ["unknown key `steps.future` in task.toml has no effect"]
        );
        let (first, second) = (one.task.verifier().unwrap(), two.task.verifier().unwrap());
        assert_eq!(
            (first.mode, second.mode),
            (VerifierMode::Shared, VerifierMode::Separate)
        );
        assert!(first.environment.is_none() && second.environment.is_some());
        assert_eq!((&*first.env["A"], &*first.env["B"]), ("1", "2"));
        assert_eq!(first.timeout, Duration::from_secs(7));
        assert_eq!(second.timeout, Duration::from_secs(50));
        assert_eq!((first.tests.len(), second.tests.len()), (2, 1));
        assert_eq!((first.artifacts.len(), second.artifacts.len()), (2, 1));
        let why = task.needs_container().unwrap().to_string();
        assert!(why.contains("several `steps`"), "{why}");
    }

    #[test]
    fn step_without_a_solution_has_no_reference() {
        let toml = "[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n";
        let task = load(&folder(&[
            ("task.toml", toml),
            ("steps/one/instruction.md", "1"),
            ("steps/two/instruction.md", "2"),
            ("steps/one/solution/solve.sh", ""),
        ]));
        let task = task.unwrap();
        assert_eq!(task.steps.as_ref().unwrap().strategy, StepStrategy::Mean);
        assert!(task.reference.is_none());
    }

    #[test]
    fn invalid_steps_are_refused_at_their_place() {
        for (toml, message, at) in [
            ("name = \"a/b\"", "name of a folder", "\"a/b\""),
            ("name = \" \"", "name of a folder", "\" \""),
            (
                "name = \"one\"\n[[steps]]\nname = \"ONE\"",
                "unique",
                "\"ONE\"",
            ),
            ("name = \"one\"\nmin_reward = []", "table of numbers", "[]"),
            ("name = \"one\"\nagent = {timeout_sec = 0}", "positive", "0"),
            (
                "name = \"one\"\nagent = {network_mode = \"no-network\"}",
                "another network",
                "\"no-network\"",
            ),
            ("", "name", ""),
        ] {
            let toml = format!("[[steps]]\n{toml}\n");
            let task = load(&folder(&[
                ("task.toml", &toml),
                ("steps/one/instruction.md", "x"),
            ]));
            let (reported, found) = complaint(task);
            assert!(reported.contains(message), "{toml}: {reported}");
            assert!(found.starts_with(at), "{toml}: {found}");
        }
        let missing = folder(&[("task.toml", "[[steps]]\nname = \"one\"\n")]);
        let error = load(&missing).unwrap_err().to_string();
        assert!(error.contains("instruction.md"), "{error}");
        let untested = folder(&[
            ("task.toml", "[[steps]]\nname = \"one\"\n"),
            ("steps/one/instruction.md", "x"),
        ]);
        fs_err::remove_file(untested.path.join("tests/test.sh")).unwrap();
        let (reported, _) = complaint(load(&untested));
        assert!(reported.contains("steps/one/tests/test.sh"), "{reported}");
    }
}
