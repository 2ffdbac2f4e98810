//! Tests of experiments with made-up trials.

use proctor_record::{
    record::{
        TrialStatus,
        delivery::{DeliveryKind, DeliveryRecord},
    },
    shuffle::Shuffle,
};

use super::*;
use crate::{
    definitions::Rows,
    model::{Report, report::Basis},
    stats::{AblationDesign, Decision, Margins, Schedule, ScheduleOptions, Step},
    tests::{definition, made_up},
    trials::{AgentRow, RegisteredPlan, TaskRow, Trial, Trials},
};

/// Trials of `old` and `new`: a score and dollars for each task and trial.
fn trials(tasks: usize, trials: u32, value: impl Fn(bool, usize, u32) -> (f64, f64)) -> Trials {
    let names: Vec<String> = (0..tasks).map(|task| format!("t{task:02}")).collect();
    let mut rows = Vec::new();
    for (agent, is_new) in [("old", false), ("new", true)] {
        for (number, task) in names.iter().enumerate() {
            for trial in 1..=trials {
                let (score, dollars) = value(is_new, number, trial);
                rows.push((agent, task.as_str(), trial, Some(score), Some(dollars)));
            }
        }
    }
    made_up(&rows)
}

fn request(trials: &Trials, margins: Margins) -> ExperimentRequest<'_> {
    ExperimentRequest {
        trials,
        baseline: "old",
        candidate: "new",
        schedule: None,
        margins,
        basis: Basis {
            draws: 1_999,
            ..Basis::default()
        },
    }
}

fn result(trials: &Trials, margins: Margins) -> ExperimentResult {
    analyse(request(trials, margins)).unwrap()
}

/// Scores that vary with the task and the trial; `gain` is the advantage of `new`.
fn varied(tasks: usize, per_task: u32, gain: f64) -> Trials {
    trials(tasks, per_task, |is_new, task, trial| {
        let wobble = 0.02 * f64::from(u8::try_from((task * 7 + trial as usize * 3) % 5).unwrap());
        let suits = if is_new {
            0.01 * (task % 3) as f64
        } else {
            0.01
        };
        let gain = if is_new { gain } else { 0.0 };
        let dollars = if is_new { 1.04 } else { 1.0 };
        (0.3 + wobble + suits + gain, dollars + suits + wobble)
    })
}

#[test]
fn better_agent_has_a_sentence_with_points_and_cost() {
    let found = result(&varied(8, 3, 0.12), Margins::default());
    assert_eq!(
        (found.decision, found.exit_code()),
        (Some(Decision::Better), 0)
    );
    assert!(
        found.sentence.starts_with(
            "new is better: +12 points [+10, +14] on exactly these 8 tasks; cost +4 % ["
        ),
        "{}",
        found.sentence
    );
    assert_eq!(found.metrics[0].metric, crate::Metric::Cost);
    let worse = result(&varied(8, 3, -0.12), Margins::default());
    assert_eq!(
        (worse.decision, worse.exit_code()),
        (Some(Decision::Worse), 1)
    );
    assert!(
        worse
            .sentence
            .starts_with("new is worse: −12 points [−14, −10]"),
        "{}",
        worse.sentence
    );
    insta::assert_snapshot!(found.text());
}

#[test]
fn equivalence_and_small_losses_are_within_margins() {
    let margins = Margins {
        equivalent: Some(0.05),
        not_worse: None,
    };
    let found = result(&varied(8, 3, 0.0), margins);
    assert_eq!(
        (found.decision, found.exit_code()),
        (Some(Decision::Equivalent), 0)
    );
    assert!(
        found
            .sentence
            .starts_with("no difference larger than 5 points: "),
        "{}",
        found.sentence
    );
    let margins = Margins {
        equivalent: None,
        not_worse: Some(0.05),
    };
    let found = result(&varied(8, 3, -0.02), margins);
    assert_eq!(
        (found.decision, found.exit_code()),
        (Some(Decision::NotWorse), 0)
    );
    assert!(
        found
            .sentence
            .starts_with("new is not worse by more than 5 points: −2 points"),
        "{}",
        found.sentence
    );
}

#[test]
fn undecided_experiment_says_what_would_decide_it_and_lists_costs_first() {
    let few = trials(4, 1, |is_new, task, _| {
        (f64::from(u8::from(is_new && task < 2 || task == 3)), 1.0)
    });
    let found = result(&few, Margins::default());
    assert_eq!(
        (found.decision, found.exit_code()),
        (Some(Decision::Undecided), 4)
    );
    assert!(
        found.sentence.starts_with("cannot be decided: "),
        "{}",
        found.sentence
    );
    assert!(
        found.sentence.contains(" more tasks or "),
        "{}",
        found.sentence
    );
    assert!(
        found.sentence.ends_with("of these 4 tasks would decide it"),
        "{}",
        found.sentence
    );
    let order: Vec<&str> = found.metrics.iter().map(|it| it.metric.as_str()).collect();
    assert_eq!(order, ["cost", "tokens", "time", "score", "passed"]);
    assert_eq!(
        (found.flipped.gained.len(), found.flipped.lost.len()),
        (2, 0)
    );

    let same = trials(40, 1, |is_new, task, _| {
        (f64::from(u8::from((task % 2 == 0) == is_new)), 1.0)
    });
    let found = result(&same, Margins::default());
    assert_eq!(
        found.sentence,
        "cannot be decided: no difference was seen; with a margin such as --equivalent 0.05, its absence could be shown"
    );
}

#[test]
fn excluded_trials_are_counted_and_unknown_costs_are_null() {
    let rows = [
        ("old", "a", 1, Some(1.0), Some(1.0)),
        ("old", "b", 1, Some(0.0), Some(1.0)),
        ("new", "a", 1, Some(1.0), None),
        ("new", "b", 1, None, Some(1.0)),
    ];
    let found = result(&made_up(&rows), Margins::default());
    assert_eq!((found.excluded, found.exit_code()), (1, 4));
    assert!(
        found
            .notes
            .iter()
            .any(|it| it.contains("1 of 2 trials excluded")),
        "{:?}",
        found.notes
    );
    assert!(found.cost_per_solved.baseline.is_some());
    assert_eq!(found.cost_per_solved.candidate, None);
    assert_eq!(found.cost_per_solved.recommended, None);
}

#[test]
fn nothing_to_compare_is_not_a_decision() {
    let rows = [
        ("old", "a", 1, Some(1.0), None),
        ("new", "b", 1, Some(1.0), None),
    ];
    let found = result(&made_up(&rows), Margins::default());
    assert_eq!((found.decision, found.exit_code()), (None, 3));
    assert!(
        found.sentence.starts_with("nothing to compare"),
        "{}",
        found.sentence
    );
    let missing = made_up(&rows[..1]);
    let error = analyse(request(&missing, Margins::default())).unwrap_err();
    assert_eq!(error.to_string(), "the run has no trial of agent new");
}

#[test]
fn several_definitions_are_never_pooled() {
    let mut trials = varied(8, 1, 0.1);
    let mut twin = trials.agents[0].clone();
    for (agent, name) in [
        (&mut trials.agents[0], "new (definition a)"),
        (&mut twin, "new (definition b)"),
    ] {
        agent.name = name.to_owned();
    }
    trials.agents.push(twin);
    let error = analyse(request(&trials, Margins::default())).unwrap_err();
    assert!(error.to_string().contains("several definitions"), "{error}");
    let named = ExperimentRequest {
        candidate: "new (definition a)",
        ..request(&trials, Margins::default())
    };
    assert!(analyse(named).is_ok());

    let mut trials = varied(8, 1, 0.1);
    trials.tasks[1].task = trials.tasks[0].task.clone();
    let schedule = Schedule::new(&[], 1, ScheduleOptions::default());
    let error = progress(request(&trials, Margins::default()), &schedule).unwrap_err();
    assert!(error.to_string().contains("several definitions"), "{error}");
}

/// The same trials, each with one of these numbers of definitions of its agent and its task.
fn redefined(trials: &Trials, definitions: usize, draws: &mut Shuffle) -> Trials {
    let (mut agents, mut tasks) = (Rows::default(), Rows::default());
    let mut all = trials.trials.clone();
    for trial in &mut all {
        let (agent, task) = (&trials.agents[trial.agent], &trials.tasks[trial.task]);
        let mut draw = |name: &str| definition(&format!("{name} {}", draws.below(definitions)));
        let (of_agent, of_task) = (draw(&agent.name), draw(&task.name));
        trial.agent = agents.add(AgentRow::named(&agent.name, Some(of_agent)));
        trial.task = tasks.add(TaskRow::named(&task.name, Some(of_task)));
    }
    let scored = |of: fn(&Trial) -> usize| all.iter().map(of).collect();
    let (agents, new_agents) = agents.finish(&scored(|it| it.agent));
    let (tasks, new_tasks) = tasks.finish(&scored(|it| it.task));
    for trial in &mut all {
        (trial.agent, trial.task) = (new_agents[trial.agent], new_tasks[trial.task]);
    }
    all.sort_by_key(|it| (it.agent, it.task, it.run, it.trial));
    Trials {
        runs: trials.runs.clone(),
        agents,
        tasks,
        trials: all,
        active: Vec::new(),
    }
}

#[test]
fn no_assignment_of_definitions_to_trials_pools_two_of_them() {
    let mut draws = Shuffle::new(7);
    let schedule = schedule(3, 2);
    let (mut refused, mut analysed) = (0, 0);
    for _ in 0..100 {
        let definitions = 1 + draws.below(2);
        let trials = redefined(&varied(3, 2, 0.1), definitions, &mut draws);
        let request = ExperimentRequest {
            schedule: Some(&schedule),
            ..request(&trials, Margins::default())
        };
        let is_mixed = trials.agents.len() > 2 || trials.tasks.len() > 3;
        match analyse(request) {
            Err(ExperimentError::SeveralDefinitions { .. }) if is_mixed => refused += 1,
            Ok(_) if !is_mixed => analysed += 1,
            other => panic!("{is_mixed} {other:?}"),
        }
        // In a report, every figure of an agent on a task is of one definition of each.
        let report = Report::new(&trials, Basis::default());
        let rows: usize = report.cells.iter().map(|it| it.trials).sum();
        assert_eq!(rows, trials.trials.len());
        assert_eq!(report.agents.len(), trials.agents.len());
        assert_eq!(report.tasks.len(), trials.tasks.len());
    }
    assert!(refused > 20 && analysed > 20, "{refused} {analysed}");
}

#[test]
fn treatment_that_was_not_delivered_decides_nothing() {
    let part = |delivered: Option<bool>| DeliveryRecord {
        kind: DeliveryKind::File,
        name: "CLAUDE.md".to_owned(),
        place: None,
        digest: Some("0123456789abcdef".to_owned()),
        delivered,
        first_call: None,
        found_in: None,
        approx_tokens: None,
        used: None,
        connected: None,
    };
    let with = |delivered: Option<bool>| {
        let mut trials = varied(8, 3, 0.12);
        let new = trials.agents.iter().position(|it| it.name == "new");
        for trial in trials.trials.iter_mut().filter(|it| Some(it.agent) == new) {
            trial.delivery = vec![part(delivered)];
        }
        result(&trials, Margins::default())
    };
    let missing = with(Some(false));
    assert_eq!(missing.exit_code(), 4);
    assert_eq!(
        missing.sentence,
        "cannot be decided: the treatment of new was not delivered"
    );
    let text = missing.text();
    let line =
        "NOT delivered: file CLAUDE.md of new 0123456789ab reached the model in 0 of 24 trials.";
    assert!(text.contains(line), "{text}");
    for (delivered, line) in [
        (Some(true), "Delivered: file CLAUDE.md of new 0123456789ab"),
        (None, "Delivery unknown: file CLAUDE.md of new 0123456789ab"),
    ] {
        let found = with(delivered);
        assert_eq!(found.decision, Some(Decision::Better));
        assert!(found.text().contains(line), "{}", found.text());
    }
}

#[test]
fn plan_needs_the_trials_of_the_next_analysis_and_none_after_the_last() {
    let plan = ExperimentPlan {
        baseline: "old".to_owned(),
        candidates: vec!["new".to_owned()],
        schedule: schedule(40, 1),
    };
    let total = |trials: &Trials| plan.quotas(trials).unwrap().values().sum::<usize>();
    assert_eq!(total(&Trials::default()), 10);
    let all = varied(40, 1, 0.2);
    let mut first = all.clone();
    let tasks = &plan.schedule.tasks;
    let is_in = |task: usize, number: usize| tasks[..number].contains(&all.tasks[task].name);
    first.trials.retain(|it| is_in(it.task, 10));
    assert_eq!(total(&first), 20);
    // The second analysis shows the difference: no further trials.
    assert_eq!(total(&all), 20);
    // An interrupted trial is run again before the next analysis.
    first.trials[0].status = TrialStatus::Interrupted;
    first.trials[0].score = None;
    assert_eq!(total(&first), 10);
}

#[test]
fn registration_says_whether_the_run_is_as_planned() {
    let plan = ExperimentPlan {
        baseline: "old".to_owned(),
        candidates: vec!["new".to_owned()],
        schedule: schedule(8, 3),
    };
    let mut trials = varied(8, 3, 0.12);
    assert!(results_of(&trials).is_none());
    let text = |trials: &Trials| results_of(trials).unwrap().unwrap()[0].text();
    trials.runs[0].experiment = Some(RegisteredPlan {
        document: serde_json::to_value(&plan).unwrap(),
        digest: Some("00112233445566778899".to_owned()),
        deviations: Vec::new(),
    });
    let line = "As planned before the first trial (plan 001122334455).";
    assert!(text(&trials).contains(line), "{}", text(&trials));
    let registered = trials.runs[0].experiment.as_mut().unwrap();
    registered.deviations = vec!["task a was judged by other evaluators".to_owned()];
    let line = "Not as planned before the first trial (plan 001122334455): task a was judged";
    assert!(text(&trials).contains(line), "{}", text(&trials));
}

fn schedule(tasks: usize, trials: usize) -> Schedule {
    let names: Vec<String> = (0..tasks).map(|task| format!("t{task:02}")).collect();
    Schedule::new(&names, trials, ScheduleOptions::default())
}

#[test]
fn early_stop_and_final_report_are_the_same_decision() {
    let schedule = schedule(40, 1);
    let all = varied(40, 1, 0.2);
    let mut early = all.clone();
    let is_first = |task: usize| schedule.tasks[..20].contains(&all.tasks[task].name);
    early.trials.retain(|it| is_first(it.task));
    let analysed = |trials: &Trials| {
        let request = ExperimentRequest {
            schedule: Some(&schedule),
            ..request(trials, Margins::default())
        };
        (
            analyse(request).unwrap(),
            progress(request, &schedule).unwrap(),
        )
    };
    let (found, next) = analysed(&early);
    let stage = found.stage.unwrap();
    assert_eq!(
        (stage.analysis, stage.of, stage.step),
        (2, 4, Step::StopForEffect)
    );
    assert_eq!((next.step, next.next), (Step::StopForEffect, None));
    let score = found.metric(crate::Metric::Score).unwrap();
    assert_eq!((found.decision, score.tasks), (Some(Decision::Better), 20));
    assert!((score.confidence - (1.0 - stage.level)).abs() < 1e-12);
    assert!(score.p_value <= stage.level && score.interval.unwrap().low > 0.0);
    // Trials that ended later do not change the answer.
    let (later, _) = analysed(&all);
    assert_eq!(later.stage.unwrap().unused_trials, 40);
    assert_eq!(
        (later.sentence, later.metrics),
        (found.sentence, found.metrics)
    );
}

#[test]
fn nothing_is_decided_before_the_first_analysis() {
    let schedule = schedule(40, 1);
    let mut trials = varied(40, 1, 0.2);
    trials.trials.retain(|it| it.task < 9);
    let request = ExperimentRequest {
        schedule: Some(&schedule),
        ..request(&trials, Margins::default())
    };
    let found = analyse(request).unwrap();
    assert_eq!(
        (found.decision, found.exit_code()),
        (Some(Decision::Undecided), 4)
    );
    assert_eq!(found.sentence, "not decided yet: 0 of 4 analyses done");
}

#[test]
fn result_is_json_with_a_schema() {
    let found = result(&varied(8, 3, 0.12), Margins::default());
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["decision"], "better");
    assert_eq!(json["metrics"][0]["metric"], "cost");
    let schema = schemars::schema_for!(ExperimentResult);
    assert!(schema.to_value()["properties"]["decision"].is_object());
}

/// An ablation of parts whose variants have these mean scores: all parts first, then without each.
fn ablation(means: &[f64], tasks: usize, margin: f64) -> AblationResult {
    let design = AblationDesign::new(means.len() - 1);
    let names: Vec<String> = (0..means.len()).map(|it| format!("v{it}")).collect();
    let tasks: Vec<String> = (0..tasks).map(|task| format!("t{task:02}")).collect();
    let mut rows = Vec::new();
    for (name, mean) in names.iter().zip(means) {
        for (number, task) in tasks.iter().enumerate() {
            for trial in 1..=3 {
                let wobble = 0.01 * f64::from(u8::try_from((number + trial as usize) % 3).unwrap());
                rows.push((
                    name.as_str(),
                    task.as_str(),
                    trial,
                    Some(mean + wobble),
                    Some(1.0),
                ));
            }
        }
    }
    let part = |it: usize| AblatedPart {
        name: format!("part {it}"),
        treatment: "CLAUDE.md".to_owned(),
    };
    let parts: Vec<AblatedPart> = (1..means.len()).map(part).collect();
    let trials = made_up(&rows);
    let request = AblationRequest {
        trials: &trials,
        parts: &parts,
        variants: &names,
        design: &design,
        margin,
        basis: Basis {
            draws: 1_999,
            ..Basis::default()
        },
    };
    analyse_ablation(request).unwrap()
}

#[test]
fn parts_of_a_file_have_verdicts_and_deltas() {
    let found = ablation(&[0.6, 0.3, 0.8, 0.6], 8, 0.05);
    assert_eq!(
        found.sentence,
        "part 1 helps; part 2 hurts; no effect larger than 5 points of 1 part"
    );
    assert_eq!(found.exit_code(), 1);
    let tokens = found.parts[0].tokens.unwrap();
    assert!(tokens.difference.abs() < 1e-9);
    let text = found.text();
    assert!(text.contains("+30 points [+29, +31]"), "{text}");
    assert!(text.contains("corrected for 3 parts (Holm)"), "{text}");
    assert_eq!(ablation(&[0.6, 0.3, 0.6], 8, 0.05).exit_code(), 0);
    let undecided = ablation(&[0.6, 0.59, 0.6], 2, 0.001);
    assert_eq!(undecided.exit_code(), 4);
}

fn versions(number: usize) -> Vec<SearchVersion> {
    let version = |it: usize| SearchVersion {
        agent: format!("v{it}"),
        label: format!("1.{it}"),
    };
    (0..number).map(version).collect()
}

#[test]
fn only_complete_rounds_count_in_a_search() {
    let rows = [
        ("v0", "t1", 1, Some(1.0), None),
        ("v0", "t2", 1, Some(0.0), None),
        ("v0", "t1", 2, Some(1.0), None),
        ("v0", "t2", 2, None, None),
        ("v2", "t1", 1, Some(1.0), None),
    ];
    let trials = made_up(&rows);
    let (versions, tasks) = (versions(3), ["t1", "t2"].map(str::to_owned));
    let request = BisectionRequest {
        trials: &trials,
        versions: &versions,
        tasks: &tasks,
        budget: 10,
        smallest_drop: 0.2,
    };
    let state = search_state(request).unwrap();
    let tallies: Vec<(u64, u64)> = state
        .search
        .evidence()
        .iter()
        .map(|it| (it.passed, it.trials))
        .collect();
    assert_eq!(tallies, [(1, 2), (0, 0), (0, 0)]);
    assert_eq!(state.unused, 3);
    // 3 of 10 trials were lost, and 7 are 3 rounds of 2 tasks.
    assert_eq!(state.search.left(), 4);
    assert_eq!(BisectionResult::new(request).unwrap().exit_code(), 4);
}

#[test]
fn answer_of_a_search_names_the_version_and_the_evidence() {
    let mut rows = Vec::new();
    for version in ["v0", "v3", "v4", "v7"] {
        for trial in 1..=20 {
            let score = if version < "v4" { 1.0 } else { 0.0 };
            rows.push((version, "t", trial, Some(score), None));
        }
    }
    let result = |rows: &[crate::tests::MadeUpTrial]| {
        let (trials, versions) = (made_up(rows), versions(8));
        let request = BisectionRequest {
            trials: &trials,
            versions: &versions,
            tasks: &["t".to_owned()],
            budget: 100,
            smallest_drop: 0.2,
        };
        BisectionResult::new(request).unwrap()
    };
    let found = result(&rows);
    assert_eq!(
        (found.first_bad.as_deref(), found.exit_code()),
        (Some("1.4"), 1)
    );
    assert!(
        found.sentence.starts_with("worse since 1.4 ("),
        "{}",
        found.sentence
    );
    assert!(
        found.sentence.ends_with(
            "after 80 trials): 40/40 = 100 % [91, 100] passed before, 0/40 = 0 % [0, 9] since"
        ),
        "{}",
        found.sentence
    );
    assert!(
        found.text().contains("4 other versions: no trials"),
        "{}",
        found.text()
    );
    let same = result(&rows[..40]);
    assert_eq!((same.first_bad.as_deref(), same.exit_code()), (None, 4));
    let none = result(&[("other", "t", 1, Some(1.0), None)]);
    assert_eq!(none.exit_code(), 3);
}
