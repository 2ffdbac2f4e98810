//! A trial as text: verdicts with their evidence, prompt and diff. Text of agents is shown without
//! control characters.

use std::{
    ffi::OsString,
    fmt::Write as _,
    io::{self, IsTerminal},
    path::Path,
};

use camino::Utf8Path;
use proctor_harness::run::RunSummary;
use proctor_record::record::{Record, TrialStatus, TrialSummary, VerdictEvidence};
use proctor_sandbox::host::Host;

use super::{report, tame};

/// The pager, unless `PAGER` names another one.
const PAGER: &str = "less";
/// Options of `less`: quit if the text fits on a screen, keep colours, do not clear the screen.
const LESS: &str = "FRX";

/// A trial with its files.
pub struct ShownTrial<'a> {
    pub name: &'a str,
    pub record: &'a Record,
    pub path: &'a Utf8Path,
    /// The evaluators that did not pass, with their evidence.
    pub evidence: &'a [(String, VerdictEvidence)],
    pub prompt: Option<&'a str>,
    pub diff: Option<&'a str>,
}

/// All of a trial.
pub fn trial_text(trial: &ShownTrial) -> String {
    let mut text = format!("{}\n", tame(trial.name));
    text.push_str(&report::one(trial.record, trial.path.as_str()));
    for (evaluator, evidence) in trial.evidence {
        text.push_str(&evidence_text(evaluator, evidence));
    }
    if let Some(prompt) = trial.prompt {
        let _ = writeln!(text, "{}\n{}", title("prompt"), indented(prompt));
    }
    if let Some(diff) = trial.diff.filter(|diff| !diff.is_empty()) {
        let _ = writeln!(text, "{}\n{}", title("diff"), colored_diff(diff));
    }
    text
}

fn title(text: &str) -> String {
    format!("\n\x1b[1m{text}\x1b[0m")
}

fn evidence_text(evaluator: &str, evidence: &VerdictEvidence) -> String {
    let mut text = String::new();
    if !evidence.failed_tests.is_empty() {
        let heading = format!("{}: tests that did not pass", tame(evaluator));
        let _ = writeln!(text, "{}", title(&heading));
        for test in &evidence.failed_tests {
            let _ = writeln!(text, "  \x1b[31m✗\x1b[0m {}", tame(&test.name));
            if let Some(message) = &test.message {
                text.push_str(&indented(&indented(message)));
            }
        }
    }
    if !evidence.output.is_empty() {
        let heading = format!("{}: output", tame(evaluator));
        let _ = writeln!(text, "{}", title(&heading));
        if evidence.left_out > 0 {
            let _ = writeln!(text, "  … {} bytes before this", evidence.left_out);
        }
        text.push_str(&indented(&evidence.output));
    }
    text
}

fn indented(text: &str) -> String {
    let text = tame(text);
    let lines = text.lines().map(|line| format!("  {line}\n"));
    lines.collect()
}

/// A diff with colours.
pub fn colored_diff(diff: &str) -> String {
    let mut text = String::with_capacity(diff.len());
    for line in tame(diff).lines() {
        let color = match line.as_bytes() {
            [b'd', b'i', b'f', b'f', ..] | [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => {
                "\x1b[1m"
            }
            [b'@', b'@', ..] => "\x1b[36m",
            [b'+', ..] => "\x1b[32m",
            [b'-', ..] => "\x1b[31m",
            _ => {
                let _ = writeln!(text, "{line}");
                continue;
            }
        };
        let _ = writeln!(text, "{color}{line}\x1b[0m");
    }
    text
}

/// The trials of a run, those that did not pass with the reason.
pub fn trial_list(summary: &RunSummary) -> String {
    let mut text = String::new();
    for trial in &summary.trials {
        let name = format!("{}/{}#{}", trial.agent, trial.task, trial.trial);
        let badge = report::badge(trial.status);
        let reason = trial
            .reason
            .as_deref()
            .map_or(String::new(), |reason| format!("  {}", tame(reason)));
        let _ = writeln!(text, "{badge} {}{reason}", tame(&name));
    }
    text.push('\n');
    text.push_str(&report::totals(summary));
    text.push_str(&next_step(summary));
    text
}

/// The commands that show the first trial that did not pass and the pages of the run, and that run the rest.
pub fn next_step(summary: &RunSummary) -> String {
    let failed = |trial: &&_| report::is_contender(trial) && trial.status != TrialStatus::Passed;
    let failed = summary.trials.iter().find(failed);
    let shown = failed.map(|trial| {
        let name = tame(&format!("{}/{}#{}", trial.agent, trial.task, trial.trial));
        let name = if name.contains([' ', '\'', '"', '$', '(', ')']) {
            format!("'{}'", name.replace('\'', "'\\''"))
        } else {
            name
        };
        format!("proctor show {name}")
    });
    let view = format!("proctor view {}", summary.run_id);
    let is_cut_off = |trial: &TrialSummary| trial.status == TrialStatus::Interrupted;
    let has_rest = summary.not_run > 0 || summary.trials.iter().any(is_cut_off);
    let rest = format!("the same command with --resume {}", summary.run_id);
    let steps = shown
        .into_iter()
        .chain([view])
        .chain(has_rest.then_some(rest));
    let lines: Vec<String> = steps.map(|step| format!("next: {step}\n")).collect();
    lines.concat()
}

/// Prints text: through the pager if standard output is a terminal.
pub fn page(text: &str, host: &Host) -> io::Result<()> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return super::print(text);
    }
    match in_pager(text, host) {
        Ok(()) => Ok(()),
        Err(_) => super::print(text),
    }
}

fn in_pager(text: &str, host: &Host) -> io::Result<()> {
    let named = host.env.get("PAGER").map_or(PAGER, String::as_str);
    let mut words = named.split_whitespace();
    let program = words.next().and_then(|name| host.find_program(name));
    let program = program.ok_or(io::ErrorKind::NotFound)?;
    let mut file = tempfile::NamedTempFile::new()?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    let args = words.map(OsString::from);
    let args: Vec<OsString> = args.chain([file.path().into()]).collect();
    let env = host.env.iter();
    let mut env: std::collections::BTreeMap<OsString, OsString> = env
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    env.entry("LESS".into()).or_insert_with(|| LESS.into());
    let cwd: &Path = host.cwd.as_std_path();
    proctor_process::run_interactive(program.as_std_path(), &args, cwd, &env)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_is_colored_and_hostile_text_is_harmless() {
        let diff = "diff --git a/x b/x\n@@ -1 +1 @@\n-a\x1b[2J\n+b\u{202e}c\n d\n";
        let expect = "\x1b[1mdiff --git a/x b/x\x1b[0m\n\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a[2J\x1b[0m\n\x1b[32m+bc\x1b[0m\n d\n";
        assert_eq!(colored_diff(diff), expect);
    }
}
