//! `proctor compare`.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_report::{self as report, Baseline, Chosen, Compared, Ruling, Trials};
use proctor_sandbox::host::Host;

use super::{
    github,
    report::{basis, format_of, pretty, write_text},
};
use crate::{
    args::{CompareArgs, CompareFormat},
    error::{CliError, Exit},
    host, ui,
};

/// The formats of output files, by extension.
const EXTENSIONS: [(&str, CompareFormat); 4] = [
    ("txt", CompareFormat::Table),
    ("md", CompareFormat::Markdown),
    ("json", CompareFormat::Json),
    ("html", CompareFormat::Html),
];

pub fn compare(args: &CompareArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let folder = host.cwd.join(&args.baselines);
    let find = |text: &str| NamedTrials::find(text, &folder, &host);
    let (baseline, candidate) = match &args.run {
        Some(run) => {
            let named = find(run.as_str())?;
            let agent = |name: &str| NamedTrials {
                agent: Some(name.to_owned()),
                ..named.clone()
            };
            (agent(&args.baseline), agent(&args.candidate))
        }
        None => (find(&args.baseline)?, find(&args.candidate)?),
    };
    let basis = basis(&args.basis);
    let notes = notes(&baseline.trials, &candidate.trials);
    // Records that cannot be read are often the reason why there is nothing to compare.
    let pairs = report::pair_up(baseline.chosen(), candidate.chosen())
        .inspect_err(|_| notes.iter().for_each(|note| ui::note(note)))?;
    let comparisons = report::compare_all(&pairs, basis);
    let compared = Compared {
        rules: report::gate(&args.fail_on, &comparisons, basis.level),
        comparisons,
        basis,
        notes,
    };
    let output = args.output.as_ref().map(|path| host.cwd.join(path));
    let output = output.as_deref();
    let format = format_of(args.format, output, &EXTENSIONS)?;
    let text = match format.unwrap_or(CompareFormat::Table) {
        CompareFormat::Table => compared.text(),
        CompareFormat::Markdown => compared.markdown(),
        CompareFormat::Json => pretty(&compared)?,
        CompareFormat::Html => {
            let mut page = Vec::new();
            report::compared_html(&compared, &pairs, &mut page)?;
            String::from_utf8_lossy(&page).into_owned()
        }
    };
    write_text(output, &text)?;
    github::annotate(&compared.markdown(), &compared.rules, &host)?;
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
pub(super) struct NamedTrials {
    label: String,
    pub(super) trials: Trials,
    agent: Option<String>,
}

impl NamedTrials {
    /// A run, a baseline, or an agent of either.
    pub(super) fn find(
        text: &str,
        baselines: &Utf8Path,
        host: &Host,
    ) -> Result<NamedTrials, CliError> {
        match NamedTrials::whole(text, baselines, host) {
            Err(CliError::NoRun { run }) => {
                let Some((place, agent)) = text.rsplit_once(':') else {
                    return Err(CliError::NoRun { run });
                };
                let mut named = NamedTrials::whole(place, baselines, host)?;
                named.agent = Some(agent.to_owned());
                Ok(named)
            }
            found => found,
        }
    }

    fn whole(text: &str, baselines: &Utf8Path, host: &Host) -> Result<NamedTrials, CliError> {
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
            && let Ok(path) = Baseline::path(baselines, text)
            && path.is_file()
        {
            return Ok(of(text, Baseline::load(&path)?.trials));
        }
        let run = super::find_run(Utf8Path::new(text), host)?;
        let trials = report::read(&[Utf8PathBuf::clone(&run)])?;
        Ok(of(run.file_name().unwrap_or(text), trials))
    }

    pub(super) fn chosen(&self) -> Chosen<'_> {
        Chosen {
            label: &self.label,
            trials: &self.trials,
            agent: self.agent.as_deref(),
        }
    }
}
