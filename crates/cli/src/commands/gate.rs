//! `proctor gate`, and `proctor run --gate`: rules that a run must keep.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{GateSettings, SuiteFile},
    run::{RunSummary, SNAPSHOT_FILE},
};
use proctor_record::record::TrialStatus;
use proctor_report::{self as report, Baseline, Basis, GateRuns, Gated, OnUndecided, Rule, Trials};
use proctor_sandbox::host::Host;
use serde::Serialize;

use super::{
    compare::NamedTrials,
    github,
    planning::PlannedRun,
    report::{basis, format_of, pretty, write_report_file, write_text},
    run,
};
use crate::{
    args::{GateArgs, GateFormat, GateOptions, GatedRunArgs, UndecidedArg},
    error::{CliError, Exit},
    host, ui,
};

/// The formats of output files, by extension.
const EXTENSIONS: [(&str, GateFormat); 3] = [
    ("txt", GateFormat::Table),
    ("md", GateFormat::Markdown),
    ("json", GateFormat::Json),
];

pub fn gate(args: &GateArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let runs = Vec::from_iter(args.run.clone());
    let run = super::named_runs(&runs, args.config.as_deref(), &host)?;
    let run = run.into_iter().next_back().ok_or(CliError::NoRuns)?;
    let settings = match &args.config {
        Some(suite) => settings_of(&host.cwd.join(suite))?,
        None => match run.join(SNAPSHOT_FILE) {
            kept if kept.is_file() => settings_of(&kept)?,
            _ => None,
        },
    };
    let gate = PreparedGate::new(settings, &args.options, &host)?;
    let gated = gate.decide(
        &run,
        &report::read(std::slice::from_ref(&run))?,
        basis(&args.basis),
    )?;
    let output = args.output.as_ref().map(|path| host.cwd.join(path));
    let output = output.as_deref();
    let format = format_of(args.format, output, &EXTENSIONS)?;
    let text = match format.unwrap_or(GateFormat::Table) {
        GateFormat::Table => gated.text(gate.undecided),
        GateFormat::Markdown => gated.markdown(gate.undecided),
        GateFormat::Json => pretty(&gated)?,
    };
    write_text(output, &text)?;
    gate.conclude(&gated, &host)
}

fn settings_of(suite: &Utf8Path) -> Result<Option<GateSettings>, CliError> {
    let file = SuiteFile::read(suite);
    let settings = file.and_then(|file| file.gate());
    settings.map_err(|error| CliError::Config(vec![error]))
}

/// Runs a plan, writes its reports, and applies the rules. The rules and the baseline are checked
/// before the first trial.
pub(super) fn run_gated(planned: &PlannedRun, args: &GatedRunArgs) -> Result<Exit, CliError> {
    if planned.plan.experiment.is_some() {
        let message = "--gate and --report have no effect on a suite with an `experiment`";
        let hint = "experiments print their own answer; `proctor gate` applies rules to their run";
        return Err(CliError::input(message, hint));
    }
    let reports: Vec<Utf8PathBuf> = args
        .report
        .iter()
        .map(|path| planned.host.cwd.join(path))
        .collect();
    for path in &reports {
        super::report::format_of_file(path)?;
    }
    let gate = if args.gate {
        let settings = planned.gate.clone();
        Some(PreparedGate::new(settings, &args.options, &planned.host)?)
    } else {
        None
    };
    if args.run.options.dry_run {
        return run::dry_run(&planned.plan);
    }
    planned.show_notes();
    let summary = run::execute(planned, &args.run, &|_| None)?;
    let is_open = summary.detached || !summary.failed_starts.is_empty();
    if is_open || summary.status == TrialStatus::Interrupted {
        return run::print_result(&summary, planned, &args.run);
    }
    let trials = report::read(std::slice::from_ref(&summary.run_dir))?;
    for path in &reports {
        write_report_file(&trials, path)?;
    }
    let Some(gate) = gate else {
        return run::print_result(&summary, planned, &args.run);
    };
    let gated = gate.decide(&summary.run_dir, &trials, Basis::default())?;
    if args.run.json {
        let gate = &gated;
        let summary = &summary;
        ui::print_json(&GatedSummary { summary, gate })?;
    } else {
        run::print_result(&summary, planned, &args.run)?;
        ui::print(&format!("\n{}", gated.text(gate.undecided)))?;
    }
    gate.conclude(&gated, &planned.host)
}

fn no_baseline(name: &str, folder: &Utf8Path) -> CliError {
    let saved = Baseline::list(folder).into_iter();
    let saved: Vec<String> = saved.map(|baseline| baseline.name).collect();
    let mut hint = format!("save one with: proctor baseline save {name} RUN");
    if !saved.is_empty() {
        hint = format!("saved baselines: {}; {hint}", saved.join(", "));
    }
    CliError::input(format!("there is no baseline or run {name}"), hint)
}

/// The result of a run with that of its gate.
#[derive(Serialize)]
struct GatedSummary<'a> {
    #[serde(flatten)]
    summary: &'a RunSummary,
    gate: &'a Gated,
}

/// Rules with their baseline, ready to apply.
struct PreparedGate {
    rules: Vec<Rule>,
    baseline: Option<NamedTrials>,
    undecided: Option<OnUndecided>,
}

impl PreparedGate {
    /// The rules of the options, or else of the suite.
    fn new(
        settings: Option<GateSettings>,
        options: &GateOptions,
        host: &Host,
    ) -> Result<PreparedGate, CliError> {
        let settings = settings.unwrap_or_default();
        let rules = if options.rule.is_empty() {
            settings.rules
        } else {
            options.rule.clone()
        };
        if rules.is_empty() {
            return Err(CliError::input(
                "no rules to apply",
                "add `gate: [passed >= 80%]` to the suite, or pass --rule 'passed >= 80%'",
            ));
        }
        let baseline = options.baseline.clone().or(settings.baseline);
        let folder = host.cwd.join(&options.baselines);
        let find = |name: String| match NamedTrials::find(&name, &folder, host) {
            Err(CliError::NoRun { run }) => Err(no_baseline(run.as_str(), &folder)),
            found => found,
        };
        let baseline = baseline.map(find).transpose()?;
        let relative = rules.iter().find(|rule| rule.kind.needs_baseline());
        if let (None, Some(rule)) = (&baseline, relative) {
            let rule = rule.text.clone();
            return Err(report::GateError::NoBaseline { rule }.into());
        }
        let undecided = options.undecided.map(|it| match it {
            UndecidedArg::Pass => OnUndecided::Pass,
            UndecidedArg::Fail => OnUndecided::Fail,
        });
        Ok(PreparedGate {
            rules,
            baseline,
            undecided: undecided.or(settings.undecided),
        })
    }

    fn decide(&self, run: &Utf8Path, trials: &Trials, basis: Basis) -> Result<Gated, CliError> {
        let candidate = report::Chosen {
            label: run.file_name().unwrap_or("run"),
            trials,
            agent: None,
        };
        let runs = GateRuns {
            candidate,
            baseline: self.baseline.as_ref().map(NamedTrials::chosen),
        };
        Ok(report::decide(&self.rules, runs, basis)?)
    }

    /// The exit code. In a GitHub Actions job, rules that do not hold become annotations.
    fn conclude(&self, gated: &Gated, host: &Host) -> Result<Exit, CliError> {
        github::annotate(&gated.markdown(self.undecided), &gated.rules, host)?;
        let answer = gated.answer.counted(self.undecided);
        Ok(Exit::of_answer(answer.exit_code()))
    }
}
