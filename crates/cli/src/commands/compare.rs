//! `proctor compare`.

use std::fmt::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_report::{self as report, Baseline, Chosen, Compared, Ruled, Ruling, Trials};
use proctor_sandbox::host::Host;

use super::report::{basis, format_of, pretty, write_text};
use crate::{
    args::{CompareArgs, CompareFormat},
    error::{CliError, Exit},
    host, ui,
};

/// The variable that names the summary file of a GitHub Actions job.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// The formats of output files, by extension.
const EXTENSIONS: [(&str, CompareFormat); 3] = [
    ("txt", CompareFormat::Table),
    ("md", CompareFormat::Markdown),
    ("json", CompareFormat::Json),
];

pub fn compare(args: &CompareArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let (baseline, candidate) = match &args.run {
        Some(run) => {
            let named = NamedTrials::find(run.as_str(), args, &host)?;
            let agent = |name: &str| NamedTrials {
                agent: Some(name.to_owned()),
                ..named.clone()
            };
            (agent(&args.baseline), agent(&args.candidate))
        }
        None => (
            NamedTrials::find(&args.baseline, args, &host)?,
            NamedTrials::find(&args.candidate, args, &host)?,
        ),
    };
    let basis = basis(&args.basis);
    let pairs = report::pair_up(baseline.chosen(), candidate.chosen())?;
    let comparisons = report::compare_all(&pairs, basis);
    let compared = Compared {
        rules: report::gate(&args.fail_on, &comparisons, basis.level),
        comparisons,
        basis,
        notes: notes(&baseline.trials, &candidate.trials),
    };
    let output = args.output.as_ref().map(|path| host.cwd.join(path));
    let output = output.as_deref();
    let format = format_of(args.format, output, &EXTENSIONS)?;
    let text = match format.unwrap_or(CompareFormat::Table) {
        CompareFormat::Table => compared.text(),
        CompareFormat::Markdown => compared.markdown(),
        CompareFormat::Json => pretty(&compared)?,
    };
    write_text(output, &text)?;
    annotate_github(&compared, &host)?;
    Ok(exit(&compared, args))
}

/// Notes on the runs of both sides, each once.
fn notes(baseline: &Trials, candidate: &Trials) -> Vec<String> {
    let mut runs = baseline.runs.clone();
    let more = candidate
        .runs
        .iter()
        .filter(|run| !baseline.runs.contains(run));
    runs.extend(more.cloned());
    report::run_notes(&runs)
}

/// The exit code: violated rules first, then rules without data.
fn exit(compared: &Compared, args: &CompareArgs) -> Exit {
    let worst = compared.rules.iter().map(|ruled| ruled.ruling).max();
    let has_nothing = || compared.comparisons.iter().all(|it| it.changes.is_empty());
    match worst {
        Some(Ruling::Broken) => Exit::Failed,
        Some(Ruling::Nothing) => Exit::Infrastructure,
        Some(Ruling::Undecided) if args.fail_undecided => Exit::Undecided,
        None if has_nothing() => Exit::Infrastructure,
        Some(Ruling::Undecided | Ruling::Holds) | None => Exit::Success,
    }
}

/// A set of trials, with the name given by the user.
#[derive(Clone)]
struct NamedTrials {
    label: String,
    trials: Trials,
    agent: Option<String>,
}

impl NamedTrials {
    /// A run, a baseline, or an agent of either.
    fn find(text: &str, args: &CompareArgs, host: &Host) -> Result<NamedTrials, CliError> {
        match NamedTrials::whole(text, args, host) {
            Err(CliError::NoRun { run }) => {
                let Some((place, agent)) = text.rsplit_once(':') else {
                    return Err(CliError::NoRun { run });
                };
                let mut named = NamedTrials::whole(place, args, host)?;
                named.agent = Some(agent.to_owned());
                Ok(named)
            }
            found => found,
        }
    }

    fn whole(text: &str, args: &CompareArgs, host: &Host) -> Result<NamedTrials, CliError> {
        let folder = host.cwd.join(&args.baselines);
        let of = |label: &str, trials| NamedTrials {
            label: label.to_owned(),
            trials,
            agent: None,
        };
        let file = host.cwd.join(text);
        if file.is_file() {
            let baseline = Baseline::load(&file)?;
            return Ok(of(&baseline.name, baseline.trials));
        }
        if !file.is_dir()
            && let Ok(path) = Baseline::path(&folder, text)
            && path.is_file()
        {
            return Ok(of(text, Baseline::load(&path)?.trials));
        }
        let run = super::find_run(Utf8Path::new(text), host)?;
        let trials = report::read(&[Utf8PathBuf::clone(&run)])?;
        Ok(of(run.file_name().unwrap_or(text), trials))
    }

    fn chosen(&self) -> Chosen<'_> {
        Chosen {
            label: &self.label,
            trials: &self.trials,
            agent: self.agent.as_deref(),
        }
    }
}

/// In a GitHub Actions job: writes the summary, and an annotation for each rule that does not hold.
fn annotate_github(compared: &Compared, host: &Host) -> Result<(), CliError> {
    if host.env.get("GITHUB_ACTIONS").is_none_or(|it| it != "true") {
        return Ok(());
    }
    if let Some(path) = host.env.get(SUMMARY).filter(|path| !path.is_empty()) {
        let mut file = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        std::io::Write::write_all(&mut file, compared.markdown().as_bytes())?;
    }
    let mut text = String::new();
    for ruled in &compared.rules {
        if let Some(line) = annotation(ruled) {
            let _ = writeln!(text, "{line}");
        }
    }
    // On standard error, so that JSON on standard output stays JSON; GitHub reads both.
    if !text.is_empty() {
        ui::note(text.trim_end());
    }
    Ok(())
}

fn annotation(ruled: &Ruled) -> Option<String> {
    let kind = match ruled.ruling {
        Ruling::Holds => return None,
        Ruling::Undecided | Ruling::Nothing => "warning",
        Ruling::Broken => "error",
    };
    let title = property(&format!("{} of {}", ruled.rule, ruled.candidate));
    let message = data(&ruled.message);
    Some(format!("::{kind} title={title}::{message}"))
}

/// Text of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property of a workflow command, with colons and commas escaped.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotation_escapes_newlines_and_separators() {
        let ruled = Ruled {
            rule: "cost>+20%".to_owned(),
            candidate: "a, b: c".to_owned(),
            ruling: Ruling::Broken,
            message: "100 %\n::error::more".to_owned(),
        };
        assert_eq!(
            annotation(&ruled).unwrap(),
            "::error title=cost>+20%25 of a%2C b%3A c::100 %25%0A::error::more"
        );
    }
}
