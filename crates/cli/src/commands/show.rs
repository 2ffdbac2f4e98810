//! `proctor show`: one trial, or the trials of a run, in the terminal.

mod name;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::run::{RunSummary, status};
use proctor_record::record::{
    EVENTS_FILE, PATCH_FILE, PROMPT_FILE, RECORD_FILE, Record, Tail, TrialSummary, VerdictEvidence,
    VerdictStatus,
};
use proctor_sandbox::host::Host;
use serde_json::json;

use self::name::TrialName;
use super::replay;
use crate::{
    args::{ShowArgs, ShowPart},
    error::{CliError, Exit},
    host, ui,
};

/// The maximum size of the shown output of an evaluator's command.
const MOST_OUTPUT: u64 = 8 << 10;
/// The maximum number of trials that an error lists.
const MOST_LISTED: usize = 20;

pub fn show(args: &ShowArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    match find(args, &host)? {
        Found::Run(summary) if args.json => ui::print_json(&summary)?,
        Found::Run(summary) => ui::page(&ui::trial_list(&summary), &host)?,
        Found::Trial(folder, name) => trial(&folder, &name, args, &host)?,
    }
    Ok(Exit::Success)
}

/// The thing that the arguments name.
enum Found {
    Run(Box<RunSummary>),
    /// The directory of a trial, and its name.
    Trial(Utf8PathBuf, String),
}

/// A directory of a trial, a run, or a trial of the newest run.
fn find(args: &ShowArgs, host: &Host) -> Result<Found, CliError> {
    let run_of = |run: &Utf8Path| Ok(Found::Run(Box::new(summary_of(run)?)));
    let Some(text) = &args.name else {
        return run_of(&super::one_run(args.run.as_deref(), host)?);
    };
    let folder = replay::trial_folder(&host.cwd.join(text));
    if let Ok(record) = Record::read(&folder.join("artifacts").join(RECORD_FILE)) {
        return Ok(Found::Trial(folder, name_of(&record).to_string()));
    }
    let is_path = host.cwd.join(text).is_dir();
    let is_name = text.contains(['/', '#']) || args.run.is_some();
    if (is_path || !is_name)
        && let Ok(run) = super::find_run(Utf8Path::new(text), host)
    {
        return run_of(&run);
    }
    let run = super::one_run(args.run.as_deref(), host)?;
    let (folder, name) = choose(&summary_of(&run)?, text)?;
    Ok(Found::Trial(folder, name))
}

/// The trials of a run. Records that cannot be read are named.
fn summary_of(run: &Utf8Path) -> Result<RunSummary, CliError> {
    let status = status(run)?;
    for trial in &status.unreadable {
        ui::note(&format!("cannot read the record of {trial}"));
    }
    Ok(status.summary)
}

fn name_of(record: &Record) -> TrialName {
    TrialName {
        agent: record.agent.name.clone(),
        task: record.task.name.clone(),
        number: record.trial,
    }
}

/// The trial of a run with this name.
fn choose(summary: &RunSummary, text: &str) -> Result<(Utf8PathBuf, String), CliError> {
    let names: Vec<TrialName> = summary
        .trials
        .iter()
        .map(|trial| TrialName {
            agent: trial.agent.clone(),
            task: trial.task.clone(),
            number: trial.trial,
        })
        .collect();
    if names.is_empty() {
        return Err(CliError::input(
            format!("no trial of {} can be shown", summary.run_id),
            "continue the run with `proctor run … --resume`",
        ));
    }
    let found = name::matches(&names, text);
    if let [at] = found.as_slice() {
        let record: &TrialSummary = &summary.trials[*at];
        let folder = record.record.parent().and_then(Utf8Path::parent);
        let folder = folder.unwrap_or(&summary.run_dir).to_owned();
        return Ok((folder, names[*at].to_string()));
    }
    let (what, shown) = if found.is_empty() {
        ("no trial", (0..names.len()).collect())
    } else {
        ("more than one trial", found)
    };
    let mut listed: Vec<String> = shown
        .iter()
        .take(MOST_LISTED)
        .map(|at| ui::tame(&names[*at].to_string()))
        .collect();
    if shown.len() > MOST_LISTED {
        listed.push(format!("and {} more", shown.len() - MOST_LISTED));
    }
    Err(CliError::input(
        format!("{what} of {} matches `{text}`", summary.run_id),
        format!("use one of: {}", listed.join(", ")),
    ))
}

fn trial(folder: &Utf8Path, name: &str, args: &ShowArgs, host: &Host) -> Result<(), CliError> {
    let artifacts = folder.join("artifacts");
    let text_of = |file: &str| {
        let bytes = fs_err::read(artifacts.join(file)).ok();
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    match args.part() {
        Some(ShowPart::Diff) => {
            let diff = text_of(PATCH_FILE).unwrap_or_default();
            return Ok(ui::page(&ui::colored_diff(&diff), host)?);
        }
        Some(ShowPart::Prompt) => {
            let prompt = text_of(PROMPT_FILE).unwrap_or_default();
            return Ok(ui::page(&ui::tame(&prompt), host)?);
        }
        Some(ShowPart::Session) => return Ok(ui::page(&session(&artifacts), host)?),
        None => {}
    }
    let path = artifacts.join(RECORD_FILE);
    let record = Record::read(&path)?;
    let is_bad = |status| matches!(status, VerdictStatus::Failed | VerdictStatus::Error);
    let evidence: Vec<(String, VerdictEvidence)> = record
        .verdicts
        .iter()
        .filter(|verdict| is_bad(verdict.status))
        .map(|it| {
            let evidence = VerdictEvidence::read(it, &artifacts, MOST_OUTPUT);
            (it.evaluator.clone(), evidence)
        })
        .collect();
    if args.json {
        let evidence = evidence.iter();
        let evidence = evidence.map(|(name, it)| json!({"evaluator": name, "evidence": it}));
        ui::print_json(&json!({
            "name": name,
            "folder": folder,
            "evidence": evidence.collect::<Vec<_>>(),
            "prompt": text_of(PROMPT_FILE),
            "diff": text_of(PATCH_FILE),
            "record": record,
        }))?;
        return Ok(());
    }
    let text = ui::trial_text(&ui::ShownTrial {
        name,
        record: &record,
        path: &path,
        evidence: &evidence,
        prompt: text_of(PROMPT_FILE).as_deref(),
        diff: text_of(PATCH_FILE).as_deref(),
    });
    Ok(ui::page(&text, host)?)
}

/// The events of a session, a line each.
fn session(artifacts: &Utf8Path) -> String {
    let mut tail = Tail::new(artifacts.join(EVENTS_FILE));
    let mut text = String::new();
    loop {
        let entries = tail.read();
        if entries.is_empty() {
            return text;
        }
        text.extend(entries.iter().filter_map(replay::line_of));
    }
}
