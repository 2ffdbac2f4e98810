//! `proctor report`.

use std::io::{self, BufWriter, Write};

use camino::Utf8Path;
use proctor_report::{
    self as report, Basis, PageSize, Report, Trials,
    experiment::{self, ExperimentResult},
    stats::Seed,
};
use serde::Serialize;

use crate::{
    args::{BasisArgs, ReportArgs, ReportFormat},
    error::{CliError, Exit},
    host,
    personality::{Personality, Style},
    ui,
};

/// The formats of output files, by extension.
const EXTENSIONS: [(&str, ReportFormat); 7] = [
    ("txt", ReportFormat::Table),
    ("md", ReportFormat::Markdown),
    ("html", ReportFormat::Html),
    ("htm", ReportFormat::Html),
    ("xml", ReportFormat::Junit),
    ("json", ReportFormat::Json),
    ("csv", ReportFormat::Csv),
];

pub fn report(args: &ReportArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let output = args.output.as_ref().map(|path| host.cwd.join(path));
    let output = output.as_deref();
    if let Some(path) = &args.from {
        let format = format_of(args.format, output, &EXTENSIONS)?;
        let format = format.unwrap_or(ReportFormat::Markdown);
        let path = host.cwd.join(path);
        let personality = Personality::current();
        let text = of_results(&path, format, personality.style)?;
        match personality.style {
            Style::Proctor => write_text(output, &text)?,
            Style::YouBencha => generate(output, &path, format, &text)?,
        }
        return Ok(Exit::Success);
    }
    let format = format_of(args.format, output, &EXTENSIONS)?;
    let format = format.unwrap_or(ReportFormat::Table);
    let runs = super::named_runs(&args.runs, args.config.as_deref(), &host)?;
    let trials = report::read(&runs)?;
    let size = PageSize {
        bytes: usize::from(args.max_size) * 1_000_000,
    };
    write_report(&trials, basis(&args.basis), (format, size), output)?;
    Ok(Exit::Success)
}

/// Writes a report as youBencha does: beside the results unless it has another place, and it says
/// where.
fn generate(
    output: Option<&Utf8Path>,
    results: &Utf8Path,
    format: ReportFormat,
    text: &str,
) -> io::Result<()> {
    let name = match format {
        ReportFormat::Json => "report.json",
        _ => "report.md",
    };
    let path = output.map_or_else(|| results.with_file_name(name), Utf8Path::to_owned);
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::write(&path, text)?;
    ui::print(&format!("Report generated: {path}\n"))
}

/// The statistical settings.
pub fn basis(args: &BasisArgs) -> Basis {
    Basis {
        level: args.level,
        seed: Seed(args.seed),
        ..Basis::default()
    }
}

/// The given format, or else the format for the extension of the output file. `None` without an
/// output file or an extension.
pub fn format_of<Format: Copy>(
    given: Option<Format>,
    output: Option<&Utf8Path>,
    known: &[(&'static str, Format)],
) -> Result<Option<Format>, CliError> {
    let extension = output.and_then(Utf8Path::extension);
    let (None, Some(path), Some(extension)) = (given, output, extension) else {
        return Ok(given);
    };
    let is_meant = |(name, _): &&(&str, Format)| name.eq_ignore_ascii_case(extension);
    match known.iter().find(is_meant) {
        Some((_, format)) => Ok(Some(*format)),
        None => Err(CliError::OutputExtension {
            path: path.to_owned(),
            known: known.iter().map(|(name, _)| *name).collect(),
        }),
    }
}

/// The format of a report file, by its extension.
pub fn format_of_file(path: &Utf8Path) -> Result<ReportFormat, CliError> {
    let format = format_of(None, Some(path), &EXTENSIONS)?;
    Ok(format.unwrap_or(ReportFormat::Table))
}

/// Writes the report of these trials to a file, in the format of its extension.
pub fn write_report_file(trials: &Trials, path: &Utf8Path) -> Result<(), CliError> {
    let format = (format_of_file(path)?, PageSize::default());
    write_report(trials, Basis::default(), format, Some(path))
}

fn write_report(
    trials: &Trials,
    basis: Basis,
    (format, size): (ReportFormat, PageSize),
    output: Option<&Utf8Path>,
) -> Result<(), CliError> {
    let figures = || Report::new(trials, basis);
    let text = match format {
        ReportFormat::Table => answer(trials) + &report::text(&figures()),
        ReportFormat::Markdown => report::markdown(&figures()),
        ReportFormat::Json => pretty(&AnsweredReport {
            report: figures(),
            // The notes of the report name definitions that keep an experiment from being analysed.
            experiment: experiment::results_of(trials).and_then(Result::ok),
        })?,
        ReportFormat::Junit => report::junit(trials),
        ReportFormat::Csv => report::csv(trials),
        ReportFormat::Html => return Ok(write_page(&figures(), trials, size, output)?),
    };
    Ok(write_text(output, &text)?)
}

/// The answers of the run's experiment, or why there are none; empty without an experiment.
fn answer(trials: &Trials) -> String {
    match experiment::results_of(trials) {
        None => String::new(),
        Some(Err(error)) => format!("cannot be decided: {error}\n\n"),
        Some(Ok(results)) => {
            let texts = results.iter().map(|it| format!("{}\n", it.text()));
            texts.collect()
        }
    }
}

/// A report with the answers of its run's experiment.
#[derive(Serialize)]
struct AnsweredReport {
    #[serde(flatten)]
    report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<Vec<ExperimentResult>>,
}

/// Indented JSON.
pub fn pretty(value: &impl serde::Serialize) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

/// Writes to a file or to standard output.
pub fn write_text(output: Option<&Utf8Path>, text: &str) -> io::Result<()> {
    match output {
        Some(path) => fs_err::write(path, text),
        None => ui::print(text),
    }
}

/// Writes the HTML page as a stream, because it can be large.
pub fn write_page(
    report: &Report,
    trials: &Trials,
    size: PageSize,
    output: Option<&Utf8Path>,
) -> io::Result<()> {
    let Some(path) = output else {
        return ui::stream(|mut out| report::html(report, trials, size, &mut out));
    };
    let mut out = BufWriter::with_capacity(1 << 18, fs_err::File::create(path)?);
    report::html(report, trials, size, &mut out)?;
    out.flush()
}

fn of_results(path: &Utf8Path, format: ReportFormat, style: Style) -> Result<String, CliError> {
    let json = fs_err::read(path)?;
    let failed = |source| CliError::NoResults {
        path: path.to_owned(),
        source,
    };
    let refused = |format| Err(CliError::FromFormat { format });
    match format {
        ReportFormat::Table => report::results_text(&json).map_err(failed),
        ReportFormat::Markdown => {
            let markdown = match style {
                Style::Proctor => report::results_markdown,
                Style::YouBencha => report::results_youbencha,
            };
            markdown(&json).map_err(failed)
        }
        ReportFormat::Json => {
            // Check that the file is a result.
            report::results_text(&json).map_err(failed)?;
            let value: serde_json::Value =
                serde_json::from_slice(&json).map_err(io::Error::from)?;
            Ok(pretty(&value)?)
        }
        ReportFormat::Html => refused("html"),
        ReportFormat::Junit => refused("junit"),
        ReportFormat::Csv => refused("csv"),
    }
}
