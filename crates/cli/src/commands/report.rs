//! `proctor report`.

use std::io::{self, BufWriter, Write};

use camino::Utf8Path;
use proctor_harness::{
    report::{self, Basis, Report, Trials},
    stats::Seed,
};

use crate::{
    args::{BasisArgs, ReportArgs, ReportFormat},
    error::{CliError, Exit},
    host, platform, ui,
};

pub fn report(args: &ReportArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let output = args.output.as_ref().map(|path| host.cwd.join(path));
    let output = output.as_deref();
    if let Some(path) = &args.from {
        let format = args.format.or_else(|| named_format(output));
        let format = format.unwrap_or(ReportFormat::Markdown);
        let text = of_results(&host.cwd.join(path), format)?;
        write_text(output, &text)?;
        return Ok(Exit::Success);
    }
    let format = args.format.or_else(|| named_format(output));
    let format = format.unwrap_or(ReportFormat::Table);
    let runs = super::named_runs(&args.runs, args.config.as_deref(), &host)?;
    let trials = report::read(&runs)?;
    write_report(&trials, basis(&args.basis), format, output)?;
    Ok(Exit::Success)
}

/// The statistical settings.
pub fn basis(args: &BasisArgs) -> Basis {
    Basis {
        level: args.level,
        seed: Seed(args.seed),
        ..Basis::default()
    }
}

/// The format for a file's extension.
fn named_format(output: Option<&Utf8Path>) -> Option<ReportFormat> {
    match output?.extension()? {
        "md" => Some(ReportFormat::Markdown),
        "html" | "htm" => Some(ReportFormat::Html),
        "xml" => Some(ReportFormat::Junit),
        "json" => Some(ReportFormat::Json),
        "csv" => Some(ReportFormat::Csv),
        _ => None,
    }
}

fn write_report(
    trials: &Trials,
    basis: Basis,
    format: ReportFormat,
    output: Option<&Utf8Path>,
) -> Result<(), CliError> {
    let figures = || Report::new(trials, basis);
    let text = match format {
        ReportFormat::Table => report::text(&figures()),
        ReportFormat::Markdown => report::markdown(&figures()),
        ReportFormat::Json => pretty(&figures())?,
        ReportFormat::Junit => report::junit(trials),
        ReportFormat::Csv => report::csv(trials),
        ReportFormat::Html => return Ok(write_page(&figures(), trials, output)?),
    };
    Ok(write_text(output, &text)?)
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
fn write_page(report: &Report, trials: &Trials, output: Option<&Utf8Path>) -> io::Result<()> {
    let Some(path) = output else {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = report::html(report, trials, &mut out).and_then(|()| out.flush());
        return match written {
            Err(error) if platform::reader_is_gone(&error) => Ok(()),
            other => other,
        };
    };
    let mut out = BufWriter::with_capacity(1 << 18, fs_err::File::create(path)?);
    report::html(report, trials, &mut out)?;
    out.flush()
}

fn of_results(path: &Utf8Path, format: ReportFormat) -> Result<String, CliError> {
    let json = fs_err::read(path)?;
    let failed = |source| CliError::NoResults {
        path: path.to_owned(),
        source,
    };
    let refused = |format| Err(CliError::FromFormat { format });
    match format {
        ReportFormat::Table => report::results_text(&json).map_err(failed),
        ReportFormat::Markdown => report::results_markdown(&json).map_err(failed),
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
