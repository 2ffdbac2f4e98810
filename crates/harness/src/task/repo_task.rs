//! A task from a git repo at a tag, in Thunderdome's format: `TASK.md` is the prompt, other tags
//! have the reference solution and the hidden tests, and commands judge a clean copy.

use std::{sync::Arc, time::Duration};

use camino::Utf8Path;
use proctor_agents::agent::PromptSource;
use proctor_document::{Fault, Node, Value};
use proctor_record::record::TaskKind;

use super::{Asks, Files, RunFolder, Task, TaskLimits, TaskTools};
use crate::{
    config::{
        EvaluatorSpec, GreenWeights, Hooks, OutputLimits, ProgressLimits, Reference, Repo,
        RepoEntry, Source, Weights, revision_problem, solution_paths,
    },
    evaluate::{Evaluator, HiddenTests, JudgesBy, Protect, RepoCommand},
    workspace::{Checkout, Install},
};

/// The prompt, in the repo's root.
const PROMPT_FILE: &str = "TASK.md";
/// The timeout of an installation, a build or the tests.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(15);
/// The default weights of tests and static analysis, as in Thunderdome.
const WEIGHTS: (f64, f64) = (0.7, 0.3);
/// The default weights of a new project, as in Thunderdome.
const GREEN_WEIGHTS: (f64, f64, f64) = (0.385, 0.308, 0.154);
/// The default tag of a new project's hidden tests in Thunderdome's files.
const VALIDATION_TAG: &str = "v1-validation";
/// The settings of the test runner that a new project's hidden tests may contain in Thunderdome.
const HIDDEN_CONFIG: &str = "validation-vitest.config.ts";
/// Thunderdome's time limits for tasks without `time_limit_minutes`, in minutes, by a word in the
/// category. The first match is used.
const TIME_LIMITS: [(&str, f64); 2] = [("marathon", 60.0), ("complex", 30.0)];
/// The time limit of all other categories.
const TIME_LIMIT: f64 = 10.0;

/// Settings of the suite for its tasks.
pub(crate) struct Surroundings<'a> {
    /// The suite's file.
    pub(crate) source: &'a Arc<Source>,
    /// Its folder.
    pub(crate) folder: &'a Utf8Path,
    /// Whether the file is in Thunderdome's format, which has more defaults and settings without
    /// effect.
    pub(crate) is_thunderdome: bool,
    /// The model that judges a `rubric` without a model of its own.
    pub(crate) judge_model: Option<&'a str>,
}

impl RepoEntry {
    fn is_green(&self) -> bool {
        self.greenfield == Some(true)
    }

    /// The weight of the rubric.
    fn rubric_weight(&self) -> Option<f64> {
        if self.is_green() {
            self.green_weights.and_then(|it| it.rubric)
        } else {
            self.weights.and_then(|it| it.rubric)
        }
    }

    /// The time limit in minutes, if it is set or Thunderdome has a default.
    fn time_limit(&self, suite: &Surroundings<'_>) -> Option<f64> {
        let default = || {
            let category = self.category.as_deref().unwrap_or_default();
            let found = TIME_LIMITS.iter().find(|(word, _)| category.contains(word));
            found.map_or(TIME_LIMIT, |(_, minutes)| *minutes)
        };
        self.time_limit_minutes
            .or_else(|| suite.is_thunderdome.then(default))
    }
}

/// Reads one entry of `tasks`.
pub(crate) fn read(
    entry: &Node,
    mut written: RepoEntry,
    suite: &Surroundings<'_>,
) -> Result<Task, Vec<Fault>> {
    let mut faults = Vec::new();
    if suite.is_thunderdome && written.is_green() {
        let tag = written.validation_tag.get_or_insert_default();
        if tag.is_empty() {
            VALIDATION_TAG.clone_into(tag);
        }
    }
    let mut notes = Vec::new();
    check(&written, entry, &mut faults);
    check_weights(&written, entry, &mut faults);
    check_idle(&written, entry, suite, (&mut faults, &mut notes));
    let rubric = rubric(&written, entry, suite, &mut notes).map_err(|fault| faults.push(fault));
    let repo = Repo::parse(&written.repo, suite.folder).map_err(|problem| {
        faults.push(entry.fault("repo", format!("invalid `repo`: {problem}")));
    });
    let usual = match written.greenfield {
        Some(true) => Protect::tests().of_new_project().keeping(HIDDEN_CONFIG),
        _ => Protect::tests(),
    };
    let protect = Protect::read(entry, written.protect.as_deref(), usual);
    let protect = protect.map_err(|fault| faults.push(fault));
    let solution = solution_paths(entry, written.solution_paths.as_deref());
    let solution = solution.map_err(|fault| faults.push(fault));
    let limit = limit(&written, entry, suite).map_err(|fault| faults.push(fault));
    match (repo, rubric, protect, solution, limit) {
        (Ok(repo), Ok(rubric), Ok(protect), Ok(solution), Ok(limit)) if faults.is_empty() => {
            let evaluators = evaluators(&written, protect, suite).into_iter();
            let mut evaluators: Vec<Evaluator> = evaluators
                .map(|it| it.confined_to(solution.as_ref()))
                .collect();
            evaluators.extend(rubric);
            let mut task = task(written, repo, limit, suite);
            task.evaluators = evaluators.into();
            task.notes = notes;
            Ok(task)
        }
        _ => Err(faults),
    }
}

/// The time limit of the agent.
fn limit(
    written: &RepoEntry,
    entry: &Node,
    suite: &Surroundings<'_>,
) -> Result<Option<Duration>, Fault> {
    let Some(minutes) = written.time_limit(suite) else {
        return Err(Fault::new(entry.span, "missing key `time_limit_minutes`"));
    };
    let limit = Duration::try_from_secs_f64(minutes * 60.0);
    let limit = limit.ok().filter(|limit| !limit.is_zero());
    let message = "`time_limit_minutes` must be more than 0";
    limit
        .map(Some)
        .ok_or_else(|| entry.fault("time_limit_minutes", message))
}

/// The judge of a task with a `rubric`: a map is its `config`, a list its criteria.
fn rubric(
    written: &RepoEntry,
    entry: &Node,
    suite: &Surroundings<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Evaluator>, Fault> {
    let weight = written.rubric_weight();
    let key = if written.is_green() {
        "green_weights"
    } else {
        "weights"
    };
    let is_counted = weight.is_some_and(|weight| weight != 0.0);
    let is_empty = |node: &Node| node.value == Value::List(Vec::new());
    let Some(node) = written.rubric.as_ref().filter(|node| !is_empty(node)) else {
        let message = format!("`rubric` of `{key}` has no effect without a `rubric`");
        return match (is_counted, suite.is_thunderdome) {
            (false, _) => Ok(None),
            (true, false) => Err(entry.fault(key, message)),
            (true, true) => {
                notes.push(format!("{message}: the other parts share its weight"));
                Ok(None)
            }
        };
    };
    let mut config = match &node.value {
        Value::List(_) => Node {
            span: node.span,
            value: Value::Map(vec![(node.span, "criteria".to_owned(), node.clone())]),
        },
        _ => node.clone(),
    };
    let mut judges = ["agent", "type", "model"].into_iter();
    let has_judge = judges.any(|key| config.get(key).is_some());
    if let (false, Some(model), Value::Map(entries)) =
        (has_judge, suite.judge_model, &mut config.value)
    {
        let model = Node {
            span: node.span,
            value: Value::String(model.to_owned()),
        };
        entries.push((node.span, "model".to_owned(), model));
    } else if suite.is_thunderdome && !has_judge {
        let share = if is_counted {
            ", and the other parts of the score share its weight"
        } else {
            ""
        };
        notes.push(format!(
            "`rubric` is not judged: set `proxy.judge_model`{share}"
        ));
        return Ok(None);
    }
    let spec = EvaluatorSpec {
        name: "rubric".to_owned(),
        description: None,
        weight: Some((weight.unwrap_or(0.0), entry.span_of(key))),
        config,
        span: entry.key_span_of("rubric"),
        source: Arc::clone(suite.source),
    };
    Evaluator::configure(&spec, suite.folder).map(Some)
}

fn check(written: &RepoEntry, entry: &Node, faults: &mut Vec<Fault>) {
    for (key, value) in [
        ("tag", Some(&written.tag)),
        ("reference_tag", written.reference_tag.as_ref()),
        ("validation_tag", written.validation_tag.as_ref()),
    ] {
        if let Some(problem) = value.and_then(|value| revision_problem(value)) {
            faults.push(entry.fault(key, format!("invalid `{key}`: {problem}")));
        }
    }
    for (key, value) in [
        ("test_cmd", Some(&written.test_cmd)),
        ("install_cmd", written.install_cmd.as_ref()),
        ("build_cmd", written.build_cmd.as_ref()),
        ("lint_cmd", written.lint_cmd.as_ref()),
        ("validation_image", written.validation_image.as_ref()),
    ] {
        if value.is_some_and(|value| value.trim().is_empty()) {
            faults.push(entry.fault(key, format!("`{key}` is empty")));
        }
    }
    if written.is_green() && written.validation_tag.is_none() {
        let message = "a new project requires hidden tests: add `validation_tag`";
        faults.push(entry.fault("greenfield", message));
    }
    if written.inline_tests.is_some() && written.validation_tag.is_none() {
        let message = "`inline_tests` has no effect without `validation_tag`";
        faults.push(entry.fault("inline_tests", message));
    }
}

/// Reports weights without effect. Thunderdome accepts them silently, so they are remarks in its
/// files and errors in ours.
fn check_idle(
    written: &RepoEntry,
    entry: &Node,
    suite: &Surroundings<'_>,
    (faults, notes): (&mut Vec<Fault>, &mut Vec<String>),
) {
    let mut idle = |key: &str, message: &str| {
        if suite.is_thunderdome {
            notes.push(message.to_owned());
        } else {
            faults.push(entry.fault(key, message));
        }
    };
    match (written.is_green(), written.weights, written.green_weights) {
        (true, Some(_), _) => idle(
            "weights",
            "`weights` has no effect with `greenfield`, which uses `green_weights`",
        ),
        (false, _, Some(_)) => idle(
            "green_weights",
            "`green_weights` has no effect without `greenfield`",
        ),
        _ => {}
    }
    let asked = written.weights.and_then(|it| it.static_analysis);
    let is_static = written.lint_cmd.is_some() || written.build_cmd.is_some();
    if asked.is_some_and(|it| it > 0.0) && !is_static {
        let message = "`static_analysis` has no effect without `lint_cmd` or `build_cmd`";
        idle("weights", message);
    }
    let metrics = written.green_weights.and_then(|it| it.code_metrics);
    if metrics.is_some_and(|it| it != 0.0) {
        notes.push(
            "`code_metrics` is not computed: the other parts of the score share its weight"
                .to_owned(),
        );
    }
}

/// Weights must be at least 0.
fn check_weights(written: &RepoEntry, entry: &Node, faults: &mut Vec<Fault>) {
    let weights = written.weights;
    let green = written.green_weights;
    let numbers = [
        ("weights", weights.and_then(|it| it.tests)),
        ("weights", weights.and_then(|it| it.static_analysis)),
        ("weights", weights.and_then(|it| it.rubric)),
        ("green_weights", green.and_then(|it| it.hidden_tests)),
        ("green_weights", green.and_then(|it| it.agent_tests)),
        ("green_weights", green.and_then(|it| it.build_lint)),
        ("green_weights", green.and_then(|it| it.code_metrics)),
        ("green_weights", green.and_then(|it| it.rubric)),
    ];
    for (key, number) in numbers {
        if number.is_some_and(|number| !(number.is_finite() && number >= 0.0)) {
            faults.push(entry.fault(key, "a weight must be at least 0"));
        }
    }
}

fn task(written: RepoEntry, repo: Repo, limit: Option<Duration>, suite: &Surroundings<'_>) -> Task {
    let aliases = repo.names();
    let last = aliases.last().cloned().unwrap_or_default();
    let ids = [
        written.id.clone(),
        written.name.clone(),
        Some(written.repo.clone()),
    ];
    // Thunderdome names results after the repo, not after the task's name in the file.
    let own = ids[..2].iter().flatten().next().cloned();
    let name = own.filter(|_| !suite.is_thunderdome).unwrap_or(last);
    let install = written.install_cmd.map(|command| Install {
        command,
        timeout: COMMAND_TIMEOUT,
        // Thunderdome installs only before the tests, because an agent's image may not have the tools.
        is_optional: suite.is_thunderdome,
    });
    let prompt = match written.prompt {
        Some(text) => PromptSource::Text(text),
        None => PromptSource::WorkspaceFile(PROMPT_FILE.into()),
    };
    Task {
        description: format!("{repo} at {}", written.tag),
        name,
        kind: TaskKind::Repo,
        notes: Vec::new(),
        unset: Vec::new(),
        category: written.category,
        aliases: aliases
            .into_iter()
            .chain(ids.into_iter().flatten())
            .collect(),
        steps: None,
        tools: TaskTools::default(),
        asks: Asks::Prompt(prompt),
        reference: written.reference_tag.map(Reference::Branch),
        limits: TaskLimits {
            timeout: limit,
            tells_deadline: written.tell_deadline.unwrap_or(false),
            idle_timeout: None,
            progress: ProgressLimits::default(),
            output: OutputLimits::default(),
        },
        files: Files::Repo(Checkout {
            repo,
            branch: Some(written.tag),
            commit: None,
            history: written.history.unwrap_or_default(),
        }),
        install: install.map(Arc::new),
        evaluators: Arc::default(),
        patterns: [written.protect, written.solution_paths]
            .into_iter()
            .flatten()
            .flatten()
            .collect(),
        hooks: Hooks::default(),
        run_folder: RunFolder::default(),
        folder: suite.folder.to_owned(),
        config_hash: suite.source.hash(),
        source: Arc::clone(suite.source),
    }
}

/// The command of the hidden tests: the task's, unless they contain their own runner settings, as
/// in Thunderdome's new projects. Agents cannot add these settings, because they are protected.
fn hidden_line(written: &RepoEntry, suite: &Surroundings<'_>) -> String {
    let line = &written.test_cmd;
    if !(suite.is_thunderdome && written.is_green() && written.protect.is_none()) {
        return line.clone();
    }
    format!(
        "if test -f {HIDDEN_CONFIG}; then npx vitest run --config {HIDDEN_CONFIG}; else\n{line}\nfi"
    )
}

/// The build, the linter and the tests, each in its own clean copy.
fn evaluators(written: &RepoEntry, protect: Protect, suite: &Surroundings<'_>) -> Vec<Evaluator> {
    let install = written.install_cmd.clone().map(|command| Install {
        command,
        timeout: COMMAND_TIMEOUT,
        is_optional: false,
    });
    let is_green = written.is_green();
    let worth = Worth::of(written);
    let hidden_line = hidden_line(written, suite);
    let plain = |line, weight| RepoCommand {
        line,
        timeout: COMMAND_TIMEOUT,
        install: install.as_ref(),
        build: None,
        hidden_tests: HiddenTests::None,
        inline_tests: &[],
        counted_tests: &[],
        image: written.validation_image.as_deref(),
        weight,
        judges_by: JudgesBy::ExitCode,
    };
    let mut all = Vec::new();
    if let Some(line) = &written.build_cmd {
        let command = plain(line, worth.analysis);
        all.push(Evaluator::of_repo_command("build_cmd", &command));
    }
    if let Some(line) = &written.lint_cmd {
        let command = RepoCommand {
            // A new project has no base to compare with.
            judges_by: if is_green {
                JudgesBy::ExitCode
            } else {
                JudgesBy::NewFindings
            },
            ..plain(line, worth.analysis)
        };
        all.push(Evaluator::of_repo_command("lint_cmd", &command));
    }
    let tests = |weight, judges_by| RepoCommand {
        build: written.build_cmd.as_deref(),
        judges_by,
        ..plain(&written.test_cmd, weight)
    };
    if is_green {
        let own = tests(worth.own_tests, JudgesBy::OwnTests);
        all.push(Evaluator::of_repo_command("agent_tests", &own));
    }
    let counted = [&written.fail_to_pass, &written.pass_to_pass];
    let counted: Vec<String> = counted.into_iter().flatten().flatten().cloned().collect();
    let hidden = RepoCommand {
        line: &hidden_line,
        hidden_tests: match written.validation_tag.as_deref() {
            Some(tag) => HiddenTests::Revision(tag),
            None => HiddenTests::None,
        },
        inline_tests: written.inline_tests.as_deref().unwrap_or_default(),
        counted_tests: &counted,
        ..tests(worth.tests, JudgesBy::Tests(protect))
    };
    let name = if is_green { "hidden_tests" } else { "test_cmd" };
    all.push(Evaluator::of_repo_command(name, &hidden));
    all
}

/// The weight of each evaluator.
struct Worth {
    tests: f64,
    own_tests: f64,
    /// Shared by all evaluators that do not run the code.
    analysis: f64,
}

impl Worth {
    fn of(written: &RepoEntry) -> Worth {
        let lines = [&written.build_cmd, &written.lint_cmd];
        let shares = lines.iter().filter(|line| line.is_some()).count().max(1) as f64;
        if written.is_green() {
            let (hidden, own, analysis) = GREEN_WEIGHTS;
            let given = written.green_weights;
            let given = |read: fn(&GreenWeights) -> Option<f64>| given.as_ref().and_then(read);
            return Worth {
                tests: given(|it| it.hidden_tests).unwrap_or(hidden),
                own_tests: given(|it| it.agent_tests).unwrap_or(own),
                analysis: given(|it| it.build_lint).unwrap_or(analysis) / shares,
            };
        }
        let (tests, analysis) = WEIGHTS;
        let given = written.weights;
        let given = |read: fn(&Weights) -> Option<f64>| given.as_ref().and_then(read);
        Worth {
            tests: given(|it| it.tests).unwrap_or(tests),
            own_tests: 0.0,
            analysis: given(|it| it.static_analysis).unwrap_or(analysis) / shares,
        }
    }
}
