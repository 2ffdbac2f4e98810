//! Tests of reports of simulated trials: readable output, reproducibility, valid formats, and no
//! false alarms of the gate.

mod gates;
mod identity;
mod pages;

use std::collections::BTreeMap;

use insta::assert_snapshot;
use proctor_record::{
    outcome::Outcome,
    record::{TrialStatus, definition::DefinitionRecord},
    shuffle::Shuffle,
    usage::Usd,
};

use super::*;
use crate::stats::{Level, Scope, Seed, Significance};

/// A simulated trial: agent, task, number, score (`None` is a rate limit), dollars.
pub(crate) type MadeUpTrial<'a> = (&'a str, &'a str, u32, Option<f64>, Option<f64>);

fn names<'a>(seen: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = seen.collect();
    names.sort_unstable();
    names.dedup();
    names
}

pub(crate) fn made_up(seen: &[MadeUpTrial]) -> Trials {
    let agents = names(seen.iter().map(|it| it.0));
    let tasks = names(seen.iter().map(|it| it.1));
    let mut trials: Vec<Trial> = seen
        .iter()
        .map(|(agent, task, number, score, dollars)| Trial {
            agent: agents.binary_search(agent).unwrap(),
            task: tasks.binary_search(task).unwrap(),
            run: 0,
            trial: *number,
            status: match score {
                Some(score) if *score >= 1.0 => TrialStatus::Passed,
                Some(_) => TrialStatus::Failed,
                None => TrialStatus::Error,
            },
            outcome: if score.is_some() {
                Outcome::Completed
            } else {
                Outcome::RateLimit
            },
            score: *score,
            cost_usd: dollars.and_then(Usd::from_dollars),
            duration_ms: Some(60_000 + 1000 * u64::from(*number)),
            tokens: Some(20_000),
            cached_tokens: None,
            is_lower_bound: false,
            differences: Vec::new(),
            unverified_judges: Vec::new(),
            delivery: Vec::new(),
            components: score
                .map(|value| vec![component("tests", value), component("lint", 1.0)])
                .unwrap_or_default(),
            rewards: BTreeMap::new(),
            message: if score.is_some_and(|score| score < 1.0) {
                "tests: 3 of 4 passed <&\"']]>".to_owned()
            } else {
                String::new()
            },
            folder: format!("trials/{agent}/{task}/trial-{number}").into(),
            source: RowSource::Record,
        })
        .collect();
    trials.sort_by_key(|it| (it.agent, it.task, it.run, it.trial));
    Trials {
        runs: vec![RunRow {
            name: "20261101-120000-0000000a".to_owned(),
            ..RunRow::default()
        }],
        agents: agents.iter().map(|name| agent(name)).collect(),
        tasks: tasks
            .iter()
            .map(|name| TaskRow {
                hashes: vec!["00".to_owned()],
                places: vec!["container, network gateway".to_owned()],
                ..TaskRow::named(name, Some(definition(name)))
            })
            .collect(),
        trials,
        active: Vec::new(),
    }
}

fn component(name: &str, value: f64) -> Component {
    Component {
        name: name.to_owned(),
        value,
    }
}

fn agent(name: &str) -> AgentRow {
    let kind = match name {
        "null" | "oracle" => name,
        _ => "claude-code",
    };
    AgentRow {
        kinds: vec![kind.to_owned()],
        versions: vec!["2.1.0".to_owned()],
        ..AgentRow::named(name, Some(definition(name)))
    }
}

pub(crate) fn definition(planned: &str) -> DefinitionRow {
    DefinitionRow::of_agent(&DefinitionRecord::new(planned), &BTreeMap::new())
}

const TASKS: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"];

/// Three contestants on eight tasks, two trials each; a floor, a ceiling, and a broken task.
fn example() -> Trials {
    let mut seen: Vec<MadeUpTrial> = Vec::new();
    for (place, task) in TASKS.into_iter().enumerate() {
        for number in [1, 2] {
            let odd = (place + number as usize).is_multiple_of(3);
            let good = if odd { 0.5 } else { 1.0 };
            let fair = if place % 2 == 0 {
                1.0
            } else {
                0.25 * f64::from(number)
            };
            let lost = task == "t3" && number == 2;
            seen.push(("good", task, number, Some(good), Some(0.4)));
            seen.push(("fair", task, number, (!lost).then_some(fair), Some(0.1)));
            seen.push(("poor", task, number, Some(0.0), Some(0.2)));
        }
        let floor = if task == "t8" { 1.0 } else { 0.0 };
        seen.push(("null", task, 1, Some(floor), None));
        seen.push(("oracle", task, 1, Some(1.0), None));
    }
    made_up(&seen)
}

#[test]
fn text_report_has_conclusions() {
    assert_snapshot!(text(&Report::new(&example(), Basis::default())), @r#"
    5 agents · 8 tasks · 64 trials: 27 passed, 36 failed, 1 excluded · 20261101-120000-0000000a

    place    agent   score                 passed               normalised            cost                        time                     tokens          n   excluded
    1–2      good    0.844 [0.750, 0.969]  11/16 69 % [40, 88]  0.857 [0.750, 1.000]  $0.4000 [$0.4000, $0.4000]  61.5 s [61.0 s, 62.0 s]  20k [20k, 20k]  16  0
    1–2      fair    0.688 [0.453, 0.922]  7/15 47 % [15, 82]   0.732 [0.375, 1.000]  $0.1000 [$0.1000, $0.1000]  61.0 s [61.0 s, 62.0 s]  20k [20k, 20k]  15  1 (as 0: 0.625)
    3        poor    0.000 [?]             0/16 0 % [0, 41]     0.000 [?]             $0.2000 [$0.2000, $0.2000]  61.5 s [61.0 s, 62.0 s]  20k [20k, 20k]  16  0
    floor    null    0.125 [0.000, 0.625]  1/8 12 % [2, 47]     –                     –                           61.0 s [61.0 s, 61.0 s]  20k [20k, 20k]  8   0
    ceiling  oracle  1.000 [?]             8/8 100 % [68, 100]  –                     –                           61.0 s [61.0 s, 61.0 s]  20k [20k, 20k]  8   0

    Cannot be told apart: good, fair.
    good over fair by 0.156 on 8 tasks is not significant; it would require 29 more tasks; more trials of the same tasks would not be enough.
    No agent is both cheaper and better than: fair, good.

    task         good      fair                  poor      null      oracle
    t1           1.00 2/2  1.00 2/2              0.00 0/2  0.00 0/1  1.00 1/1
    t2           0.75 1/2  0.38 0/2              0.00 0/2  0.00 0/1  1.00 1/1
    t3           0.75 1/2  1.00 1/1 +1 excluded  0.00 0/2  0.00 0/1  1.00 1/1
    t4           1.00 2/2  0.38 0/2              0.00 0/2  0.00 0/1  1.00 1/1
    t5           0.75 1/2  1.00 2/2              0.00 0/2  0.00 0/1  1.00 1/1
    t6           0.75 1/2  0.38 0/2              0.00 0/2  0.00 0/1  1.00 1/1
    t7           1.00 2/2  1.00 2/2              0.00 0/2  0.00 0/1  1.00 1/1
    t8 (broken)  0.75 1/2  0.38 0/2              0.00 0/2  1.00 1/1  1.00 1/1

    Trials that did not pass:
      fair on 4 tasks: 8 failed: tests: 3 of 4 passed <&"']]>
      fair on t3: 1 excluded (rate_limit)
      good on 5 tasks: 5 failed: tests: 3 of 4 passed <&"']]>
      null on 7 tasks: 7 failed: tests: 3 of 4 passed <&"']]>
      poor on 8 tasks: 16 failed: tests: 3 of 4 passed <&"']]>

    note: fair: 1 of 16 trials excluded (1 rate_limit); counted as 0, its score is 0.625.
    note: Task t8 is broken: doing nothing passes 1 of 1 trial.
    note: `lint` is 1 in all 47 trials: it does not distinguish agents.

    Brackets are 95 % intervals ([?]: too few trials); tasks are the unit. Score: mean over tasks; cost, time, tokens: medians of judged trials. Seed 1.
    "#);
}

#[test]
fn markdown_report_has_the_same_content() {
    assert_snapshot!(markdown(&Report::new(&example(), Basis::default())), @r#"
    # Report

    5 agents · 8 tasks · 64 trials: 27 passed, 36 failed, 1 excluded · 20261101-120000-0000000a

    ## Agents

    | place | agent | score | passed | normalised | cost | time | tokens | n | excluded |
    |---|---|---|---|---|---|---|---|---|---|
    | 1–2 | good | 0.844 \[0.750, 0.969\] | 11/16 69 % \[40, 88\] | 0.857 \[0.750, 1.000\] | $0.4000 \[$0.4000, $0.4000\] | 61.5 s \[61.0 s, 62.0 s\] | 20k \[20k, 20k\] | 16 | 0 |
    | 1–2 | fair | 0.688 \[0.453, 0.922\] | 7/15 47 % \[15, 82\] | 0.732 \[0.375, 1.000\] | $0.1000 \[$0.1000, $0.1000\] | 61.0 s \[61.0 s, 62.0 s\] | 20k \[20k, 20k\] | 15 | 1 (as 0: 0.625) |
    | 3 | poor | 0.000 \[?\] | 0/16 0 % \[0, 41\] | 0.000 \[?\] | $0.2000 \[$0.2000, $0.2000\] | 61.5 s \[61.0 s, 62.0 s\] | 20k \[20k, 20k\] | 16 | 0 |
    | floor | null | 0.125 \[0.000, 0.625\] | 1/8 12 % \[2, 47\] | – | – | 61.0 s \[61.0 s, 61.0 s\] | 20k \[20k, 20k\] | 8 | 0 |
    | ceiling | oracle | 1.000 \[?\] | 8/8 100 % \[68, 100\] | – | – | 61.0 s \[61.0 s, 61.0 s\] | 20k \[20k, 20k\] | 8 | 0 |

    ## Findings

    - Cannot be told apart: good, fair.
    - good over fair by 0.156 on 8 tasks is not significant; it would require 29 more tasks; more trials of the same tasks would not be enough.
    - No agent is both cheaper and better than: fair, good.

    ## Tasks

    Mean score, and trials passed of those judged.

    | task | good | fair | poor | null | oracle |
    |---|---|---|---|---|---|
    | t1 | 1.00 2/2 | 1.00 2/2 | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t2 | 0.75 1/2 | 0.38 0/2 | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t3 | 0.75 1/2 | 1.00 1/1 +1 excluded | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t4 | 1.00 2/2 | 0.38 0/2 | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t5 | 0.75 1/2 | 1.00 2/2 | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t6 | 0.75 1/2 | 0.38 0/2 | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t7 | 1.00 2/2 | 1.00 2/2 | 0.00 0/2 | 0.00 0/1 | 1.00 1/1 |
    | t8 (broken) | 0.75 1/2 | 0.38 0/2 | 0.00 0/2 | 1.00 1/1 | 1.00 1/1 |

    ## Trials that did not pass

    - fair on 4 tasks: 8 failed: tests: 3 of 4 passed &lt;&amp;"'\]\]&gt;
    - fair on t3: 1 excluded (rate\_limit)
    - good on 5 tasks: 5 failed: tests: 3 of 4 passed &lt;&amp;"'\]\]&gt;
    - null on 7 tasks: 7 failed: tests: 3 of 4 passed &lt;&amp;"'\]\]&gt;
    - poor on 8 tasks: 16 failed: tests: 3 of 4 passed &lt;&amp;"'\]\]&gt;

    ## Notes

    - fair: 1 of 16 trials excluded (1 rate\_limit); counted as 0, its score is 0.625.
    - Task t8 is broken: doing nothing passes 1 of 1 trial.
    - \`lint\` is 1 in all 47 trials: it does not distinguish agents.

    Brackets are 95 % intervals (\[?\]: too few trials); tasks are the unit. Score: mean over tasks; cost, time, tokens: medians of judged trials. Seed 1.
    "#);
}

#[test]
fn all_formats_are_reproducible() {
    let trials = example();
    let all = || {
        let report = Report::new(&trials, Basis::default());
        let mut page = Vec::new();
        html(&report, &trials, PageSize::default(), &mut page).unwrap();
        let json = serde_json::to_string(&report).unwrap();
        let page = String::from_utf8(page).unwrap();
        [
            text(&report),
            markdown(&report),
            json,
            junit(&trials),
            csv(&trials),
            page,
        ]
    };
    assert_eq!(all(), all());
}

/// Case 9: excluded trials are never hidden.
#[test]
fn excluded_trials_are_counted_and_shown_both_ways() {
    let report = Report::new(&example(), Basis::default());
    let fair = report.agents.iter().find(|it| it.name == "fair").unwrap();
    assert_eq!((fair.trials, fair.judged), (16, 15));
    assert_eq!(fair.excluded["rate_limit"], 1);
    let (without, with) = (fair.score.unwrap(), fair.score_excluded_as_zero.unwrap());
    assert!(without.mean > with.mean, "{without:?} {with:?}");
    let poor = report.agents.iter().find(|it| it.name == "poor").unwrap();
    assert_eq!(poor.score_excluded_as_zero, None);
}

/// Case 3: floor and ceiling calibrate tasks, and a task that the null agent passes is broken.
#[test]
fn floor_and_ceiling_are_not_contestants() {
    let report = Report::new(&example(), Basis::default());
    let roles: Vec<(&str, Role)> = report
        .agents
        .iter()
        .map(|it| (&*it.name, it.role))
        .collect();
    assert_eq!(
        roles[3..],
        [("null", Role::Floor), ("oracle", Role::Ceiling)]
    );
    let broken = report.tasks.iter().filter(|it| !it.broken.is_empty());
    let broken: Vec<&str> = broken.map(|it| it.name.as_str()).collect();
    assert_eq!(broken, ["t8"]);
    let normalised = report.contenders().next().unwrap().normalised_score;
    assert_eq!(normalised.unwrap().tasks, 7, "t8 has no calibration");
}

/// Case 4: a component that never varies has a note.
#[test]
fn constant_component_has_a_note() {
    let report = Report::new(&example(), Basis::default());
    let note = "`lint` is 1 in all 47 trials: it does not distinguish agents.";
    assert!(
        report.notes.iter().any(|it| it == note),
        "{:?}",
        report.notes
    );
    assert!(!report.notes.iter().any(|it| it.contains("`tests`")));
}

/// Case 10: n = 1 never has a rank, and neighbours that cannot be told apart are listed.
#[test]
fn one_trial_has_no_rank_and_no_interval() {
    let report = Report::new(
        &made_up(&[("a", "t", 1, Some(0.98), None)]),
        Basis::default(),
    );
    let only = &report.agents[0];
    assert_eq!(only.place, None);
    assert_eq!(only.score.unwrap().interval, None);
    assert!(
        report
            .notes
            .iter()
            .any(|it| it.starts_with("No rank for a"))
    );
}

#[test]
fn junit_report_separates_errors_and_failures() {
    let text = junit(&example());
    let mut reader = quick_xml::Reader::from_str(&text);
    let (mut cases, mut failures, mut errors, mut skipped) = (0, 0, 0, 0);
    loop {
        use quick_xml::events::Event;
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(tag) | Event::Empty(tag) => {
                for attribute in tag.attributes() {
                    attribute.unwrap();
                }
                match tag.name().as_ref() {
                    "testcase" => cases += 1,
                    "failure" => failures += 1,
                    "error" => errors += 1,
                    "skipped" => skipped += 1,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let totals = Report::new(&example(), Basis::default()).totals;
    // The null agent fails seven tasks, as it should.
    let expected = (totals.trials, totals.failed - 7, 1, 7);
    assert_eq!((cases, failures, errors, skipped), expected);
    let counts = format!("failures=\"{failures}\" errors=\"1\" skipped=\"7\"");
    assert!(text.contains(&counts), "{text}");
    assert!(text.contains("<skipped message=\"not counted, floor agent: "));
}

#[test]
fn floor_agents_decide_a_junit_report_without_others() {
    let text = junit(&made_up(&[("null", "t", 1, Some(0.0), None)]));
    assert!(text.contains("failures=\"1\""), "{text}");
}

#[test]
fn junit_report_has_records_that_cannot_be_read() {
    let mut trials = example();
    let (total, errors) = (trials.trials.len() + 1, 2);
    trials.runs[0].unreadable = vec!["trials/a/t/trial-1".to_owned()];
    let text = junit(&trials);
    let head = text.lines().nth(1).unwrap();
    assert!(head.contains(&format!("tests=\"{total}\"")), "{head}");
    assert!(head.contains(&format!("errors=\"{errors}\"")), "{head}");
    assert!(
        text.contains("<testcase name=\"trials/a/t/trial-1\""),
        "{text}"
    );
}

#[test]
fn csv_has_empty_cells_for_unknown_figures() {
    let text = csv(&example());
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.len(), example().trials.len() + 2);
    let lost = lines
        .iter()
        .find(|line| line.contains("rate_limit"))
        .unwrap();
    assert_eq!(
        *lost,
        "20261101-120000-0000000a,fair,t3,,2,error,rate_limit,,0.1,62000,20000,,,record"
    );
}

fn html_page(trials: &Trials) -> String {
    let report = Report::new(trials, Basis::default());
    let mut page = Vec::new();
    html(&report, trials, PageSize::default(), &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// Text of agents may contain anything: it is data in the page.
#[test]
fn hostile_names_and_messages_are_escaped() {
    let nasty = "</script><script>alert(1)</script>\"'";
    let mut trials = made_up(&[(nasty, nasty, 1, Some(0.0), Some(1.0))]);
    trials.trials[0].message = nasty.to_owned();
    let page = html_page(&trials);
    assert!(!page.contains("<script>alert"), "{page}");
    // The data, one trial, and the page's own script.
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("http://") && !page.contains("https://"));
}

/// A trial that passed without an evaluator that counts is in the column of excluded ones.
#[test]
fn headline_agrees_with_the_column_of_excluded_trials() {
    let mut trials = made_up(&[
        ("a", "t", 1, None, Some(1.0)),
        ("a", "t", 2, Some(1.0), Some(1.0)),
        ("a", "u", 1, None, Some(1.0)),
    ]);
    trials.trials[0].status = TrialStatus::Passed;
    let report = Report::new(&trials, Basis::default());
    let headline = crate::text::headline(&report);
    let expected = "3 trials: 2 passed, 0 failed, 1 excluded, 1 of them without a score";
    assert!(headline.contains(expected), "{headline}");
}

/// Cached input has a column of its own, and its sort key is its own figure.
#[test]
fn page_shows_cached_tokens_apart() {
    let mut trials = made_up(&[("a", "t", 1, Some(1.0), Some(1.0))]);
    trials.trials[0].cached_tokens = Some(77_000);
    let page = html_page(&trials);
    assert!(page.contains(r#"<td data-value="77000">"#), "{page}");
    assert!(page.contains(",20000,77000,"), "{page}");
}

fn side(trials: &Trials) -> Chosen<'_> {
    Chosen {
        label: "run",
        trials,
        agent: None,
    }
}

fn duel(baseline: &Trials, candidate: &Trials, basis: Basis) -> Versus {
    let pairs = pair_up(side(baseline), side(candidate)).unwrap();
    let (one, other) = pairs[0];
    compare(one, other, basis)
}

/// An agent on `tasks` tasks, with scores by task and trial.
fn runs(tasks: usize, trials: u32, score: impl Fn(usize, u32) -> f64) -> Trials {
    let names: Vec<String> = (0..tasks).map(|task| format!("t{task:02}")).collect();
    let mut seen: Vec<MadeUpTrial> = Vec::new();
    for (place, task) in names.iter().enumerate() {
        for number in 1..=trials {
            let score = score(place, number);
            seen.push(("a", task, number, Some(score), Some(0.1 + score)));
        }
    }
    made_up(&seen)
}

/// A small variation.
fn wobble(task: usize, trial: u32) -> f64 {
    0.02 * ((task + trial as usize) % 5) as f64
}

fn rule(text: &str) -> ChangeRule {
    text.parse().unwrap()
}

fn ruling(baseline: &Trials, candidate: &Trials, text: &str) -> Ruling {
    let versus = duel(baseline, candidate, Basis::default());
    gate(&[rule(text)], &[versus], Level::P95)[0].ruling
}

#[test]
fn only_a_clear_loss_breaks_the_rule() {
    let before = runs(12, 3, |task, trial| 0.6 + wobble(task * 7, trial));
    let worse = runs(12, 3, |task, trial| 0.4 + wobble(task * 5, trial));
    let alike = runs(12, 3, |task, trial| 0.6 + wobble(task * 3, trial));
    assert_eq!(ruling(&before, &worse, "score<-0.05"), Ruling::Broken);
    assert_eq!(ruling(&before, &worse, "score<-0.5"), Ruling::Holds);
    assert_eq!(ruling(&before, &alike, "score<-0.05"), Ruling::Holds);
    assert_eq!(ruling(&worse, &before, "cost>+20%"), Ruling::Broken);
    assert_eq!(ruling(&worse, &before, "score<-0.05"), Ruling::Holds);
    let versus = duel(&before, &worse, Basis::default());
    assert_eq!(versus.changes[0].is_better(), Some(false));
    assert_eq!(versus.changes[0].scope, Scope::TasksLikeThese);
}

#[test]
fn too_few_trials_are_undecided() {
    let before = runs(3, 1, |_, _| 1.0);
    let after = runs(3, 1, |_, _| 0.5);
    let versus = duel(&before, &after, Basis::default());
    assert_eq!(versus.changes[0].significance, Significance::TooFew);
    let ruled = gate(&[rule("score<-0.05")], &[versus], Level::P95);
    assert_eq!(ruled[0].ruling, Ruling::Undecided);
    assert!(
        ruled[0].message.contains("too few trials to decide"),
        "{}",
        ruled[0].message
    );
}

#[test]
fn few_tasks_with_many_trials_are_compared_exactly() {
    let before = runs(2, 6, |_, trial| 0.8 + 0.01 * f64::from(trial));
    let after = runs(2, 6, |_, trial| 0.3 + 0.01 * f64::from(trial));
    let versus = duel(&before, &after, Basis::default());
    assert_eq!(versus.changes[0].scope, Scope::ExactlyTheseTasks);
    assert_eq!(versus.changes[0].is_better(), Some(false));
    assert_eq!(ruling(&before, &after, "score<-0.05"), Ruling::Broken);
}

#[test]
fn rules_hold_for_perfect_agents() {
    let perfect = runs(8, 2, |_, _| 1.0);
    assert_eq!(ruling(&perfect, &perfect, "score<-0.05"), Ruling::Holds);
    let other = made_up(&[("a", "elsewhere", 1, Some(1.0), None)]);
    assert_eq!(ruling(&perfect, &other, "score<-0.05"), Ruling::Nothing);
    let costless = made_up(&[("a", "t00", 1, Some(1.0), None)]);
    assert_eq!(ruling(&perfect, &costless, "cost>+20%"), Ruling::Nothing);
}

/// The fraction of comparisons of an agent with itself in which a rule is broken.
fn false_alarms(tasks: usize, rules: &[ChangeRule], score: fn(&mut Shuffle, f64) -> f64) -> f64 {
    const DUELS: u32 = 300;
    let mut draws = Shuffle::new(77);
    let alarms = (0..DUELS).filter(|number| {
        let hardness: Vec<f64> = (0..tasks).map(|_| even(&mut draws)).collect();
        let mut side = || {
            let values: Vec<Vec<f64>> = hardness
                .iter()
                .map(|hard| (0..3).map(|_| score(&mut draws, *hard)).collect())
                .collect();
            runs(tasks, 3, |task, trial| values[task][trial as usize - 1])
        };
        let (one, other) = (side(), side());
        let basis = Basis {
            seed: Seed(u64::from(*number)),
            draws: 199,
            ..Basis::default()
        };
        let applied = gate(rules, &[duel(&one, &other, basis)], Level::P95);
        applied.iter().any(|it| it.ruling == Ruling::Broken)
    });
    alarms.count() as f64 / f64::from(DUELS)
}

fn even(draws: &mut Shuffle) -> f64 {
    (draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn gate_raises_at_most_5_percent_false_alarms() {
    let rules = [rule("score<-0"), rule("cost>+0%")];
    let passes = |draws: &mut Shuffle, hard: f64| f64::from(even(draws) > hard);
    let credit = |draws: &mut Shuffle, hard: f64| 0.5 * hard + 0.5 * even(draws);
    for (tasks, score) in [
        (20, passes as fn(&mut Shuffle, f64) -> f64),
        (20, credit),
        (4, credit),
    ] {
        let share = false_alarms(tasks, &rules, score);
        assert!(share <= 0.05, "{share} with {tasks} tasks");
    }
}

#[test]
fn baseline_survives_a_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let folder = camino::Utf8Path::from_path(dir.path()).unwrap();
    let baseline = Baseline::new("main", example());
    let path = baseline.save(folder, Overwrite::Never).unwrap();
    assert_eq!(Baseline::load(&path).unwrap(), baseline);
    assert!(matches!(
        baseline.save(folder, Overwrite::Never),
        Err(BaselineError::Exists { .. })
    ));
    assert_eq!(Baseline::list(folder), std::slice::from_ref(&baseline));
    let mut wrong = baseline;
    wrong.trials.trials[0].agent = 99;
    wrong.save(folder, Overwrite::Replace).unwrap();
    assert!(matches!(
        Baseline::load(&path),
        Err(BaselineError::Unreadable { .. })
    ));
    assert!(matches!(
        Baseline::path(folder, "../x"),
        Err(BaselineError::Name { .. })
    ));
}

#[test]
fn comparison_is_readable() {
    let before = runs(12, 3, |task, trial| 0.6 + wobble(task * 7, trial));
    let worse = runs(12, 3, |task, trial| 0.4 + wobble(task * 5, trial));
    let versus = duel(&before, &worse, Basis::default());
    let rules = gate(
        &[rule("score<-0.05"), rule("time>+10%")],
        std::slice::from_ref(&versus),
        Level::P95,
    );
    let compared = Compared {
        notes: Vec::new(),
        basis: Basis::default(),
        comparisons: vec![versus],
        rules,
    };
    assert_snapshot!(compared.text(), @"
    a (run) against a (run)

            baseline  candidate  change                                 p       n
    score   0.641     0.440      −0.201 [−0.208, −0.192]                <0.001  12 tasks, 36+36 trials  worse
    passed  0.000     0.000      +0.000 [?]                             1.000   12 tasks, 36+36 trials  cannot be told apart
    cost    $0.7406   $0.5400    −$0.2006 (−27 %) [−$0.2083, −$0.1922]  <0.001  12 tasks, 36+36 trials  better
    time    62.0 s    62.0 s     +0.0 s (+0 %) [?]                      1.000   12 tasks, 36+36 trials  cannot be told apart
    tokens  20k       20k        +0 (+0 %) [?]                          1.000   12 tasks, 36+36 trials  cannot be told apart
    Tasks passed by most trials: 0 gained, 0 lost of 12 (McNemar p = 1.000).

    BROKEN     score<-0.05  a (run): score changed by −0.201 [−0.208, −0.192] on 12 tasks (p = 0.001), beyond −0.050
    holds      time>+10%  a (run): time changed by +0.0 s on 12 tasks (p = 1.000), within +6.2 s

    Means over the tasks that both tried; brackets are 95 % intervals of the difference. Seed 1.
    ");
    assert!(
        compared.markdown().contains("| score\\<-0.05 |")
            || compared.markdown().contains("score&lt;-0.05")
    );
}

#[test]
fn results_of_youbencha_are_reported() {
    let json = br#"{"version":"1.0.0","test_case":{"name":"fix | it","description":"d","repo":"r","branch":"main"},
        "execution":{"started_at":"2026-01-01T00:00:00Z","duration_ms":1500},
        "agent":{"type":"copilot-cli","status":"success","exit_code":0},
        "evaluators":[{"evaluator":"git-diff","status":"passed","metrics":{"files_changed":1,"changed_files":[]},"message":"ok","duration_ms":3}],
        "summary":{"overall_status":"passed"}}"#;
    assert_snapshot!(results_markdown(json).unwrap(), @r"
    # fix \| it

    d

    |  |  |
    |---|---|
    | result | passed |
    | agent | copilot-cli |
    | outcome | success |
    | exit code | 0 |
    | repo | r |
    | branch | main |
    | commit | unknown |
    | started | 2026-01-01T00:00:00Z |
    | took | 1.5 s |

    ## Evaluators

    | evaluator | status | finding | metrics |
    |---|---|---|---|
    | git-diff | passed | ok | files\_changed 1 |
    ");
    assert!(results_text(json).unwrap().contains("copilot-cli"));
    assert!(results_text(b"{}").is_err());
}

#[test]
fn each_reward_of_an_agent_has_a_mean_over_its_tasks() {
    let mut trials = made_up(&[
        ("a", "one", 1, Some(1.0), None),
        ("a", "one", 2, Some(0.0), None),
        ("a", "two", 1, Some(1.0), None),
        ("b", "two", 1, Some(1.0), None),
    ]);
    let rewards = |speed, style| BTreeMap::from([("speed".into(), speed), ("style".into(), style)]);
    // The second trial has a score, but its tests ended without rewards.
    trials.trials[0].rewards = rewards(0.5, 1.0);
    trials.trials[2].rewards = rewards(3.0, -1.0);
    let report = Report::new(&trials, Basis::default());
    let means: Vec<(&str, f64)> = report.agents[0]
        .rewards
        .iter()
        .map(|(name, figure)| (name.as_str(), figure.mean))
        .collect();
    assert_eq!(means, [("speed", 1.625), ("style", -0.25)]);
    assert!(report.agents[1].rewards.is_empty());
    let line = text(&report);
    let line = line.lines().find(|line| line.contains("mean rewards"));
    assert_eq!(
        line,
        Some("a: mean rewards: speed 1.625 [0.250, 3.000], style -0.250 [-1.000, 0.500].")
    );
}
