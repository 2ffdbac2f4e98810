//! Tests of gates on simulated trials.

use super::*;

/// Trials of one agent: each task with its results, 1 for passed.
fn run_of<'a>(agent: &'a str, tasks: &[(&'a str, &[u8])]) -> Vec<MadeUpTrial<'a>> {
    let mut trials = Vec::new();
    for (task, results) in tasks {
        for (number, result) in (1_u32..).zip(*results) {
            trials.push((agent, *task, number, Some(f64::from(*result)), Some(0.2)));
        }
    }
    trials
}

fn chosen<'a>(label: &'a str, trials: &'a Trials) -> Chosen<'a> {
    Chosen {
        label,
        trials,
        agent: None,
    }
}

fn decided(rules: &[&str], now: &Trials, before: Option<&Trials>) -> Gated {
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let runs = GateRuns {
        candidate: chosen("now", now),
        baseline: before.map(|before| chosen("main", before)),
    };
    decide(&rules, runs, Basis::default()).unwrap()
}

#[test]
fn absolute_rules_pass_fail_or_say_how_many_trials_would_decide() {
    let good = made_up(&run_of("a", &[("t", &[1; 20])]));
    let poor = made_up(&run_of("a", &[("t", &[0, 0, 0, 1])]));
    let few = made_up(&run_of("a", &[("t", &[1, 1, 1])]));
    let rule = ["passed >= 80%"];
    assert_eq!(decided(&rule, &good, None).answer, Answer::Pass);
    assert_eq!(decided(&rule, &poor, None).answer, Answer::Fail);
    let gated = decided(&rule, &few, None);
    assert_eq!(gated.answer, Answer::Undecided);
    assert_snapshot!(gated.text(None), @"
    undecided  passed >= 80%  a: passed is 100 % [44 %, 100 %] in 3 trials on 1 task: too few trials to decide; about 13 more trials would decide
    gate: undecided
    ");
    assert_eq!(gated.answer.counted(Some(OnUndecided::Pass)), Answer::Pass);
    assert_eq!(gated.answer.counted(Some(OnUndecided::Fail)), Answer::Fail);
    // The announced number of trials decides.
    let announced = made_up(&run_of("a", &[("t", &[1; 16])]));
    assert_eq!(decided(&rule, &announced, None).answer, Answer::Pass);
}

#[test]
fn cost_rules_leave_out_agents_without_cost_by_name() {
    let mut seen = run_of("priced", &[("t", &[1, 1, 1])]);
    let free = run_of("free", &[("t", &[1, 1, 1])]).into_iter();
    seen.extend(free.map(|it| (it.0, it.1, it.2, it.3, None)));
    let trials = made_up(&seen);
    let gated = decided(&["cost_per_trial <= $1"], &trials, None);
    assert_eq!(gated.answer, Answer::Pass);
    let note = "free is left out of `cost_per_trial <= $1`: its cost is not known";
    assert_eq!(gated.notes, [note]);
    let only_free: Vec<MadeUpTrial> = seen.into_iter().filter(|it| it.0 == "free").collect();
    let gated = decided(&["cost_per_trial <= $1"], &made_up(&only_free), None);
    assert_eq!(gated.answer, Answer::Nothing);
}

#[test]
fn cost_of_an_interrupted_trial_cannot_show_that_a_limit_holds() {
    let mut trials = made_up(&run_of("a", &[("t", &[1, 1, 1])]));
    trials.trials[0].is_lower_bound = true;
    let gated = decided(&["cost_per_trial <= $1"], &trials, None);
    assert_eq!(gated.answer, Answer::Undecided);
    let gated = decided(&["cost_per_trial <= $0.1"], &trials, None);
    assert_eq!(gated.answer, Answer::Fail);
}

#[test]
fn floor_and_ceiling_agents_are_not_gated() {
    let mut seen = run_of("a", &[("t", &[1, 1, 1])]);
    seen.extend(run_of("null", &[("t", &[0, 0, 0])]));
    let gated = decided(&["every task: pass^3"], &made_up(&seen), None);
    assert_eq!((gated.answer, gated.rules.len()), (Answer::Pass, 1));
}

#[test]
fn fall_of_a_task_from_all_to_none_fails_the_gate() {
    let before = made_up(&run_of("a", &[("t", &[1, 1, 1]), ("u", &[1, 1, 1])]));
    let now = made_up(&run_of("a", &[("t", &[0, 0, 0]), ("u", &[1, 1, 1])]));
    let rules = [
        "no task that passed before fails now",
        "score >= baseline - 0.05",
    ];
    let gated = decided(&rules, &now, Some(&before));
    assert_eq!(gated.answer, Answer::Fail);
    let rulings: Vec<Ruling> = gated.rules.iter().map(|it| it.ruling).collect();
    assert_eq!(rulings, [Ruling::Broken, Ruling::Undecided]);
    assert_eq!(gated.flipped.len(), 1);
    assert_eq!(gated.flipped[0].tallies(), "3/3 → 0/3");
}

#[test]
fn excluded_trials_leave_a_task_undecided() {
    let mut seen = run_of("a", &[("t", &[1, 1])]);
    seen.push(("a", "t", 3, None, None));
    seen.push(("a", "u", 1, None, None));
    let gated = decided(&["every task: pass^3"], &made_up(&seen), None);
    assert_eq!(gated.answer, Answer::Undecided);
    let message = "too few trials: t needs 1 more trial, u needs 3 trials";
    assert_eq!(gated.rules[0].message, message);
}

#[test]
fn task_with_another_definition_is_not_compared() {
    let before = made_up(&run_of("a", &[("t", &[1, 1, 1]), ("u", &[1])]));
    let mut now = made_up(&run_of("a", &[("t", &[0, 0, 0]), ("u", &[1])]));
    now.tasks[0].definition = Some(definition("another prompt"));
    let gated = decided(
        &["no task that passed before fails now"],
        &now,
        Some(&before),
    );
    assert_eq!(gated.answer, Answer::Undecided);
    let message = "not judged now, or with another definition: t";
    assert_eq!(gated.rules[0].message, message);
    assert!(gated.flipped.is_empty());
}

#[test]
fn agent_without_counterpart_in_the_baseline_is_named() {
    let before = made_up(&run_of("a", &[("t", &[1])]));
    let mut seen = run_of("a", &[("t", &[1])]);
    seen.extend(run_of("b", &[("t", &[0])]));
    let now = made_up(&seen);
    let gated = decided(
        &["no task that passed before fails now"],
        &now,
        Some(&before),
    );
    assert_eq!(gated.answer, Answer::Pass);
    let note = "b is not in the baseline: rules about changes leave it out";
    assert_eq!(gated.notes, [note]);
}

#[test]
fn rule_about_changes_without_baseline_is_an_error() {
    let now = made_up(&run_of("a", &[("t", &[1])]));
    let rules = ["score >= baseline".parse().unwrap()];
    let runs = GateRuns {
        candidate: chosen("now", &now),
        baseline: None,
    };
    let error = decide(&rules, runs, Basis::default()).unwrap_err();
    let text = "the rule `score >= baseline` needs a baseline";
    assert_eq!(error.to_string(), text);
}

/// The comment of a pull request: the rules, before and after, and the flipped tasks. Names are
/// text, not markup.
#[test]
fn comment_shows_rules_figures_and_flipped_tasks() {
    let before = made_up(&run_of("a", &[("t<b>", &[1, 1, 1]), ("u", &[0, 0, 0])]));
    let now = made_up(&run_of("a", &[("t<b>", &[0, 0, 0]), ("u", &[1, 1, 1])]));
    let rules = ["passed >= 10%", "no task that passed before fails now"];
    let gated = decided(&rules, &now, Some(&before));
    assert_snapshot!(gated.markdown(None), @r"
    <!-- proctor gate -->
    # Proctor gate: fail

    | rule | of |  | why |
    |---|---|---|---|
    | passed &gt;= 10% | a | undecided | passed is 50 % \[0 %, 100 %\] in 6 trials on 2 tasks: too few tasks to decide; about 5 more tasks would decide |
    | no task that passed before fails now | a | BROKEN | fails now: t&lt;b&gt; 3/3 → 0/3 |

    ## a (now) against a (main)

    |  | baseline | candidate | change | p | n |  |
    |---|---|---|---|---|---|---|
    | score | 0.500 | 0.500 | +0.000 \[?\] | 1.000 | 2 tasks, 6+6 trials | cannot be told apart |
    | passed | 0.500 | 0.500 | +0.000 \[?\] | 1.000 | 2 tasks, 6+6 trials | cannot be told apart |
    | cost | $0.2000 | $0.2000 | +$0.00 (+0 %) \[−$0.0000, +$0.0000\] | 1.000 | 2 tasks, 6+6 trials | cannot be told apart |
    | time | 62.0 s | 62.0 s | +0.0 s (+0 %) \[−1.3 s, +1.3 s\] | 1.000 | 2 tasks, 6+6 trials | cannot be told apart |
    | tokens | 20k | 20k | +0 (+0 %) \[?\] | 1.000 | 2 tasks, 6+6 trials | cannot be told apart |

    ## Flipped tasks

    | task | agent | passed |  |
    |---|---|---|---|
    | t&lt;b&gt; | a | 3/3 → 0/3 | fails now |
    | u | a | 0/3 → 3/3 | passes now |

    <details><summary>Notes</summary>

    - Tasks passed by most trials: 1 gained, 1 lost of 2 (McNemar p = 1.000).
    - A significant result for this change of the score cannot be shown with a reasonable number of tasks; more trials of the same tasks would not be enough.

    </details>
    ");
}
