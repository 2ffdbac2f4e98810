//! `proctor ablate`: removes each part of a file, or each skill or server, and reports its effect.

mod subject;

use std::{fmt::Write as _, ops::ControlFlow};

use proctor_harness::run::experiment::NoResult;
use proctor_record::fs::folder_name;
use proctor_report::{
    Basis,
    experiment::{AblationRequest, analyse_ablation},
    read,
    stats::{AblationDesign, Level, PlannedVariance},
};
use serde_json::json;

use self::subject::Subject;
use super::{
    ab::BaseSuite,
    planning::{self, PlannedRun},
    run,
};
use crate::{
    args::AblateArgs,
    error::{CliError, Exit},
    host, ui,
};

/// The most parts: more would need too many variants.
const MOST_PARTS: usize = 100;
/// The longest part of an agent's name that is made from the name of a part.
const LONGEST_SLUG: usize = 40;

pub fn ablate(args: &AblateArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let base = BaseSuite::read(&args.run, None, &host)?;
    let subject = Subject::read(args, &base.places(&host), &base.agent)?;
    let parts = subject.parts.len();
    if parts > MOST_PARTS {
        return Err(CliError::input(
            format!(
                "{} has {parts} parts, and at most {MOST_PARTS} are possible",
                args.file
            ),
            "use larger parts, such as `--by section`",
        ));
    }
    let design = AblationDesign::new(parts);
    let names = variant_names(&subject, &design);
    let variants = names.iter().zip(&design.variants);
    let variants = variants.map(|(name, has)| {
        let mut variant = subject.variant(has)?;
        variant["name"] = json!(name);
        Ok(variant)
    });
    let variants = variants.collect::<Result<Vec<_>, CliError>>()?;
    let file = base.with_variants(variants, subject.key())?;
    let planned = planning::suite(file, &[], &args.run, (&host, &settings))?;
    let outline = outline(args, &subject, &design, (&names, &planned));
    let summary = match run::run_with_outline(&planned, &args.run, &outline, &|_| None)? {
        ControlFlow::Continue(summary) => summary,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let trials = read(std::slice::from_ref(&summary.run_dir))?;
    let result = analyse_ablation(AblationRequest {
        trials: &trials,
        parts: &subject.parts,
        variants: &names,
        design: &design,
        margin: args.equivalent,
        basis: Basis::default(),
    });
    let result = result.map_err(NoResult::from)?;
    if args.run.json {
        ui::print_json(&json!({"run": summary.run_dir, "result": result}))?;
    } else {
        ui::print(&result.text())?;
        ui::print(&ui::exclusion_reasons(&summary))?;
        ui::print(&run::pointers(&summary.run_dir))?;
    }
    Ok(Exit::of_answer(result.exit_code()))
}

/// The names of the agents: the full one and those without a part, or numbers.
fn variant_names(subject: &Subject, design: &AblationDesign) -> Vec<String> {
    let numbered = |number: usize| match number.checked_sub(1) {
        _ if !design.one_at_a_time => format!("mix-{:03}", number + 1),
        None => "full".to_owned(),
        Some(missing) => {
            let slug = folder_name(&subject.parts[missing].name.to_lowercase());
            let slug: String = slug.chars().take(LONGEST_SLUG).collect();
            format!("without-{number:02}-{}", slug.trim_matches('-'))
        }
    };
    (0..design.variants.len()).map(numbered).collect()
}

/// The size of an ablation, before it starts; for a dry run, also the variants.
fn outline(
    args: &AblateArgs,
    subject: &Subject,
    design: &AblationDesign,
    (names, planned): (&[String], &PlannedRun),
) -> String {
    let trials = planned.plan.trials.len();
    let parts = subject.parts.len();
    let mut tasks: Vec<&str> = planned
        .plan
        .trials
        .iter()
        .map(|it| it.task.name.as_str())
        .collect();
    tasks.sort_unstable();
    tasks.dedup();
    let each = trials / (tasks.len() * names.len()).max(1);
    let mut text = format!(
        "{}: {} of {} with {} on {}, {} each\n",
        ui::counted(trials, "trial"),
        ui::counted(names.len(), "variant"),
        args.file,
        ui::counted(parts, subject.noun()),
        ui::counted(tasks.len(), "task"),
        ui::counted(each, "trial"),
    );
    if !design.one_at_a_time {
        text.push_str("each variant lacks about half of the parts\n");
    }
    // In an orthogonal design, half of the variants have the part.
    let arm = if design.one_at_a_time {
        1
    } else {
        names.len() / 2
    };
    let level = Level::new(1.0 - Level::P95.alpha() / parts as f64).unwrap_or(Level::P95);
    let detectable = PlannedVariance::default().detectable(tasks.len(), arm * each, level);
    let _ = match detectable.filter(|share| *share <= 1.0) {
        Some(share) => writeln!(
            text,
            "this size usually detects an effect of {:.0} points or more of a part",
            100.0 * share
        ),
        None => writeln!(
            text,
            "too small to decide about scores: use more tasks, or more trials with --trials"
        ),
    };
    if args.run.options.dry_run {
        for (name, has) in names.iter().zip(&design.variants) {
            let missing = subject.parts.iter().zip(has).filter(|(_, has)| !**has);
            let missing: Vec<&str> = missing.map(|(part, _)| part.name.as_str()).collect();
            let missing = match missing.as_slice() {
                [] => "all parts".to_owned(),
                missing => format!("without {}", missing.join(", ")),
            };
            let _ = writeln!(text, "{name}: {missing}");
        }
    }
    text
}
