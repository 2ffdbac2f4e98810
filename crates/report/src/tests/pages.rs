//! Pages: their first screen, their size, and the page of a comparison.

use super::*;

fn page(trials: &Trials, bytes: usize) -> String {
    let report = Report::new(trials, Basis::default());
    let mut page = Vec::new();
    html(&report, trials, PageSize { bytes }, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// One failed trial among ten, in the middle.
fn ten() -> Trials {
    let names: Vec<String> = (0..10).map(|n| format!("t{n}")).collect();
    let trials: Vec<MadeUpTrial> = names
        .iter()
        .enumerate()
        .map(|(n, name)| ("a", name.as_str(), 1, Some(f64::from(n != 5)), Some(1.0)))
        .collect();
    made_up(&trials)
}

#[test]
fn page_keeps_failures_first_and_names_what_it_leaves_out() {
    let trials = ten();
    let failed = trials.trials.iter();
    let failed = failed
        .clone()
        .position(|it| it.status == TrialStatus::Failed);
    let failed = format!("id=\"t{}\"", failed.unwrap());
    let all = page(&trials, 50_000_000);
    let is_embedded = |n: usize| all.contains(&format!("id=\"t{n}\""));
    assert!((0..10).all(is_embedded));
    assert!(!all.contains("are left out, because"));
    let small = page(&trials, 2000);
    assert!(small.contains(&failed));
    assert!(
        small.contains("The sessions of 9 trials that passed are left out")
            || small.contains("The sessions of 8 trials that passed are left out"),
        "{small}"
    );
    let nothing = page(&trials, 0);
    assert!(!nothing.contains(&failed));
    assert!(nothing.contains("of 1 trial that did not pass and of 9 trials that passed"));
}

#[test]
fn first_screen_answers_in_one_sentence() {
    let sentence = |trials: &[MadeUpTrial]| {
        crate::text::best_agent(&Report::new(&made_up(trials), Basis::default()))
    };
    let one = sentence(&[
        ("a", "t", 1, Some(1.0), Some(1.0)),
        ("a", "u", 1, Some(0.0), Some(1.0)),
    ]);
    assert!(one.starts_with("a passed 1/2 50 %"), "{one}");
    let two = sentence(&[
        ("a", "t", 1, Some(1.0), Some(1.0)),
        ("b", "t", 1, Some(0.0), Some(1.0)),
    ]);
    assert!(two.contains("a has the highest score"), "{two}");
    assert_eq!(
        sentence(&[("a", "t", 1, None, None)]),
        "No trial was judged."
    );
    let best: Vec<MadeUpTrial> = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"]
        .into_iter()
        .flat_map(|task| {
            [
                ("good", task, 1, Some(1.0), Some(1.0)),
                ("bad", task, 1, Some(0.0), Some(1.0)),
            ]
        })
        .collect();
    let best = sentence(&best);
    assert!(
        best.starts_with("good is the best of 2 agents on 10 tasks"),
        "{best}"
    );
}

#[test]
fn comparison_has_a_page_with_changes_of_tasks() {
    let one = made_up(&[
        ("a", "<b>t</b>", 1, Some(0.0), Some(1.0)),
        ("a", "u", 1, Some(1.0), Some(1.0)),
    ]);
    let other = made_up(&[
        ("a", "<b>t</b>", 1, Some(1.0), Some(1.0)),
        ("a", "u", 1, Some(1.0), Some(1.0)),
    ]);
    let pairs = pair_up(side(&one), side(&other)).unwrap();
    let basis = Basis::default();
    let compared = Compared {
        basis,
        comparisons: compare_all(&pairs, basis),
        rules: Vec::new(),
        notes: Vec::new(),
    };
    let mut page = Vec::new();
    compared_html(&compared, &pairs, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<td>&lt;b&gt;t&lt;/b&gt;</td><td>0.00 0/1</td><td>1.00 1/1</td><td>+1.00</td><td>gained</td>"), "{page}");
    assert!(page.contains("<p class=\"answer\">Score +0.500"), "{page}");
}
