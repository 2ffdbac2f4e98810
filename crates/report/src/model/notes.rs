//! Notes for reading a report's figures: excluded trials, incomparable versions, figures without
//! information, and weaker judging or isolation.

use std::collections::BTreeMap;

use proctor_record::text::{counted, one_line};

use crate::stats::Variation;
use crate::{
    definitions::{Defined, DefinitionRow},
    model::{
        agent::{AgentReport, Role},
        report::Report,
        treatments::about_treatments,
    },
    trials::{RowSource, RunRow, Trial, Trials},
};

/// Further names are only counted.
const MOST_NAMES: usize = 5;
/// The minimum number of trials for a note about a constant component.
const FEWEST_TRIALS: usize = 10;

pub(crate) fn notes(trials: &Trials, report: &Report) -> Vec<String> {
    let mut notes = run_notes(&report.runs);
    about_exclusions(report, &mut notes);
    about_identity("agent", &trials.agents, |it| &it.name, &mut notes);
    about_identity("task", &trials.tasks, |it| &it.name, &mut notes);
    about_missing_digests(trials, &mut notes);
    about_tasks(trials, report, &mut notes);
    about_treatments(trials, &report.delivery, &mut notes);
    about_definitions(trials, &mut notes);
    about_agents(report, &mut notes);
    about_accounts(trials, &mut notes);
    about_judges(trials, &mut notes);
    about_components(report, &mut notes);
    about_places(trials, &mut notes);
    about_sources(trials, &mut notes);
    notes
}

/// The first few names.
fn some<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(MOST_NAMES).copied();
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if names.len() > MOST_NAMES {
        text = format!("{text} and {} more", names.len() - MOST_NAMES);
    }
    text
}

/// Runs that are not complete, and records that cannot be read.
pub fn run_notes(runs: &[RunRow]) -> Vec<String> {
    let mut notes = Vec::new();
    for run in runs {
        if run.is_running {
            notes.push(format!(
                "{} is still running: its results are incomplete.",
                run.name
            ));
        }
        if run.not_run > 0 && run.experiment.is_some() {
            notes.push(format!(
                "{}: the experiment ended without {}.",
                run.name,
                counted(run.not_run, "planned trial")
            ));
        } else if run.not_run > 0 {
            notes.push(format!(
                "{}: {} without a record; they count nowhere.",
                run.name,
                counted(run.not_run, "planned trial")
            ));
        }
        if !run.unreadable.is_empty() {
            let names = some(run.unreadable.iter().map(String::as_str));
            notes.push(format!(
                "{}: unreadable or misplaced records: {names}.",
                run.name
            ));
        }
    }
    notes
}

/// Agents or tasks that share a name and have different definitions.
fn about_identity<Row: Defined>(
    kind: &str,
    rows: &[Row],
    name: fn(&Row) -> &String,
    notes: &mut Vec<String>,
) {
    for group in rows.chunk_by(|one, other| one.own_name() == other.own_name()) {
        if group.len() == 1 {
            continue;
        }
        notes.push(format!(
            "{} definitions of the {kind} {} are listed apart.",
            group.len(),
            group[0].own_name()
        ));
        let defined: Vec<(&Row, &DefinitionRow)> = group
            .iter()
            .filter_map(|row| Some((row, row.definition()?)))
            .collect();
        for pair in defined.windows(2) {
            let ((one, before), (other, after)) = (pair[0], pair[1]);
            notes.push(format!(
                "{} and {} differ in {}.",
                name(one),
                name(other),
                before.differences(after)
            ));
        }
    }
}

/// Records of older versions, and of other programs.
fn about_missing_digests(trials: &Trials, notes: &mut Vec<String>) {
    let is_missing = |trial: &&Trial| {
        trials.agents[trial.agent].definition.is_none()
            || trials.tasks[trial.task].definition.is_none()
    };
    let count = trials.trials.iter().filter(is_missing).count();
    if count > 0 {
        notes.push(format!(
            "{count} of {} trials have no digest of their definitions: whether trials with the same names had the same agent and task cannot be checked.",
            trials.trials.len()
        ));
    }
}

fn about_exclusions(report: &Report, notes: &mut Vec<String>) {
    for agent in &report.agents {
        let left_out = agent.trials - agent.judged;
        if left_out == 0 {
            continue;
        }
        let reasons: Vec<String> = agent
            .excluded
            .iter()
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        let as_zero = agent.score_excluded_as_zero;
        let as_zero = as_zero.map_or(String::new(), |figure| {
            format!("; counted as 0, its score is {:.3}", figure.mean)
        });
        notes.push(format!(
            "{}: {left_out} of {} excluded ({}){as_zero}.",
            agent.name,
            counted(agent.trials, "trial"),
            reasons.join(", ")
        ));
    }
}

fn about_tasks(trials: &Trials, report: &Report, notes: &mut Vec<String>) {
    for task in &report.tasks {
        if !task.broken.is_empty() {
            notes.push(format!(
                "Task {} is broken: {}.",
                task.name,
                task.broken.join("; ")
            ));
        }
        if task.row.definition.is_none() && task.row.hashes.len() > 1 {
            notes.push(format!(
                "Task {} has changed between these trials: there are {} definitions with this name.",
                task.name,
                task.row.hashes.len()
            ));
        }
    }
    let has_calibration = report
        .agents
        .iter()
        .any(|agent| agent.role != Role::Contender);
    if !has_calibration && report.contenders().next().is_some() {
        notes.push("No floor and no ceiling: run the agents `null` and `oracle`, too, to calibrate the scores.".to_owned());
    }
    let mut tried: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for trial in &trials.trials {
        let tasks = tried.entry(trial.agent).or_default();
        if tasks.last() != Some(&trial.task) {
            tasks.push(trial.task);
        }
    }
    let is_contender = |name: &str| report.contenders().any(|agent| agent.name == name);
    let mut sets = tried
        .into_iter()
        .filter(|(agent, _)| is_contender(&trials.agents[*agent].name))
        .map(|(_, tasks)| tasks);
    if let Some(first) = sets.next()
        && sets.any(|tasks| tasks != first)
    {
        notes.push("Not all agents tried the same tasks: their means are over different tasks; ranks are based on shared tasks only.".to_owned());
    }
}

/// Settings of tasks without effect, such as parts of the score that are not computed.
fn about_definitions(trials: &Trials, notes: &mut Vec<String>) {
    let mut tasks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for task in &trials.tasks {
        for note in &task.notes {
            tasks.entry(note).or_default().push(&task.name);
        }
    }
    for (note, names) in tasks {
        notes.push(format!("{}: {note}.", some(names)));
    }
}

fn about_agents(report: &Report, notes: &mut Vec<String>) {
    for agent in &report.agents {
        let mut mixed = |what: &str, seen: &[String]| {
            if seen.len() > 1 {
                let names = some(seen.iter().map(String::as_str));
                notes.push(format!("{} ran with several {what}: {names}.", agent.name));
            }
        };
        mixed("kinds of agent", &agent.row.kinds);
        mixed("versions", &agent.row.versions);
        mixed("models", &agent.row.models);
    }
    let unranked = |agent: &&AgentReport| agent.place.is_none();
    let names = some(
        report
            .contenders()
            .filter(unranked)
            .map(|it| it.name.as_str()),
    );
    if !names.is_empty() {
        notes.push(format!("No rank for {names}: a rank requires two tasks."));
    }
    let costless = |agent: &&AgentReport| agent.judged > 0 && agent.cost_usd.is_none();
    let names = some(
        report
            .contenders()
            .filter(costless)
            .map(|it| it.name.as_str()),
    );
    if !names.is_empty() {
        notes.push(format!(
            "The cost of {names} is unknown: agents without cost are not on the Pareto front."
        ));
    }
    for agent in report.contenders() {
        let known = agent.cost_usd.map_or(0, |cost| cost.trials);
        if known > 0 && known < agent.judged {
            notes.push(format!(
                "{}: the cost of {} of {} judged trials is unknown.",
                agent.name,
                agent.judged - known,
                agent.judged
            ));
        }
    }
}

/// Agents whose own figures differ from the gateway's.
fn about_accounts(trials: &Trials, notes: &mut Vec<String>) {
    for (number, agent) in trials.agents.iter().enumerate() {
        let own = || trials.trials.iter().filter(|trial| trial.agent == number);
        let differing: Vec<_> = own().filter(|it| !it.differences.is_empty()).collect();
        let Some(first) = differing.first() else {
            continue;
        };
        notes.push(format!(
            "{}: in {} of {} the agent's own figures differ from the gateway's by more than 1 %, such as {} ({}, trial {}); the gateway's are used.",
            agent.name,
            differing.len(),
            counted(own().count(), "trial"),
            one_line(&first.differences.join("; ")),
            trials.tasks[first.task].name,
            first.trial
        ));
    }
}

/// Judges whose calls no gateway observed.
fn about_judges(trials: &Trials, notes: &mut Vec<String>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in trials.trials.iter().flat_map(|it| &it.unverified_judges) {
        *counts.entry(name).or_default() += 1;
    }
    for (name, count) in counts {
        notes.push(format!(
            "`{name}` is unverified in {}: no gateway saw a model answer this judge.",
            counted(count, "trial")
        ));
    }
}

fn about_components(report: &Report, notes: &mut Vec<String>) {
    // In a few trials that all passed, every component is the same.
    let telling = |it: &&Variation| it.trials >= FEWEST_TRIALS;
    for component in report.components.iter().filter(telling) {
        let (name, value) = (&component.component, component.commonest);
        if component.is_constant() {
            notes.push(format!(
                "`{name}` is {value} in all {} trials: it does not distinguish agents.",
                component.trials
            ));
        } else if component.is_nearly_constant() {
            notes.push(format!(
                "`{name}` is {value} in {} of {} trials: it hardly distinguishes agents.",
                component.times, component.trials
            ));
        }
    }
}

/// Rows that were not read from our own records.
fn about_sources(trials: &Trials, notes: &mut Vec<String>) {
    let rows = trials.trials.iter();
    let foreign = rows.filter(|it| it.source == RowSource::ThunderdomeMeta);
    let count = foreign.count();
    if count > 0 {
        let read = counted(count, "trial");
        notes.push(format!("{read} from the meta.json files of Thunderdome: scores, cost and outcomes are theirs, a 0 of tokens or cost is unknown, and passed means that the agent completed and all tests passed."));
    }
}

fn about_places(trials: &Trials, notes: &mut Vec<String>) {
    let names_in = |place: &'static str| {
        let tasks = trials.tasks.iter();
        tasks
            .filter(move |task| task.places.iter().any(|it| it == place))
            .map(|task| task.name.as_str())
    };
    let open = some(names_in("container, network open"));
    if !open.is_empty() {
        notes.push(format!("Agents had open network access on {open}: Harbor's default for tasks that do not set it."));
    }
    if names_in("local").next().is_some() {
        notes.push("Trials ran in the local sandbox, which does not isolate an agent from the network or from this machine's files.".to_owned());
    }
    let has_mixed = trials.tasks.iter().any(|task| task.places.len() > 1);
    if has_mixed {
        notes.push("Trials of the same task ran in different sandboxes.".to_owned());
    }
    let bounds = trials.trials.iter().filter(|it| it.is_lower_bound).count();
    if bounds > 0 {
        notes.push(format!(
            "{} incomplete: tokens and cost are at least what is shown.",
            counted(bounds, "session")
        ));
    }
}
