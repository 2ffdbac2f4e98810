//! One config file: its path, text and error messages. Values inserted for `${NAME}` may be
//! secrets; messages show `${NAME}` instead.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, FaultKind, Format, MAX_FILE_BYTES, Node, Span};
use proctor_record::fs::hex;
use sha2::{Digest, Sha256};

use super::interpolate::{self, Unset, UnsetByAgent, Variables};

/// Shorter values are not masked: they are not secrets, and masking them would garble messages.
const SHORTEST_SECRET: usize = 4;
/// The maximum length of a message, which may quote a whole prompt.
const MAX_MESSAGE_CHARS: usize = 500;

/// A config file that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    path: Utf8PathBuf,
    text: String,
    inserted: Vec<(String, String)>,
}

/// Omits the values of variables.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// Reads a file and its tree, with variables replaced.
    pub(crate) fn read(
        path: &Utf8Path,
        variables: &Variables<'_>,
    ) -> Result<(Source, Node), ConfigError> {
        let (mut source, mut root) = Source::parse(path, read_text(path)?)?;
        let filled = interpolate::fill(&mut root, &source.text, variables);
        source.inserted = filled.inserted;
        if filled.faults.is_empty() {
            Ok((source, root))
        } else {
            Err(source.error(filled.faults))
        }
    }

    /// Reads a file and its tree, without variables.
    pub(crate) fn read_as_is(path: &Utf8Path) -> Result<(Source, Node), ConfigError> {
        Source::parse(path, read_text(path)?)
    }

    /// Reads a file in Harbor's format, which has variables only in environment tables. Returns the
    /// unset ones: they are errors only if the task runs.
    pub(crate) fn read_harbor(
        path: &Utf8Path,
        variables: &Variables<'_>,
    ) -> Result<(Source, Node, Vec<Unset>), ConfigError> {
        let parsed = Source::parse(path, read_text(path)?);
        let (mut source, mut root) = parsed.map_err(with_template_hint)?;
        let (filled, unset) = interpolate::fill_env(&mut root, &source.text, variables);
        source.inserted = filled.inserted;
        if filled.faults.is_empty() {
            Ok((source, root, unset))
        } else {
            Err(source.error(filled.faults))
        }
    }

    /// Replaces the variables of a suite. Returns unset variables of agents: they are errors only
    /// if the agent runs.
    pub(super) fn fill_suite(
        &mut self,
        root: &mut Node,
        variables: &Variables<'_>,
    ) -> Result<UnsetByAgent, ConfigError> {
        let (filled, unset) = interpolate::fill_suite(root, &self.text, variables);
        self.inserted = filled.inserted;
        if filled.faults.is_empty() {
            Ok(unset)
        } else {
            Err(self.error(filled.faults))
        }
    }

    pub(super) fn parse(path: &Utf8Path, text: String) -> Result<(Source, Node), ConfigError> {
        let source = Source {
            path: path.to_owned(),
            text,
            inserted: Vec::new(),
        };
        let root = Format::of(path)
            .parse(&source.text)
            .map_err(|faults| source.error(faults))?;
        Ok((source, root))
    }

    /// A part of a file that has no positions.
    pub(crate) fn of_text(path: &Utf8Path, text: String) -> Source {
        Source {
            path: path.to_owned(),
            text,
            inserted: Vec::new(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The sha256 of the file's bytes, in hex.
    pub fn hash(&self) -> String {
        hex(&Sha256::digest(self.text.as_bytes()))
    }

    /// An error about this file. Values of variables are replaced by their names.
    pub fn error(&self, faults: Vec<Fault>) -> ConfigError {
        let mut shown: Vec<Fault> = Vec::with_capacity(faults.len());
        for mut fault in faults {
            if let Some(hint) = hint_for(&fault) {
                fault.hint = Some(hint.to_owned());
            }
            fault.message = self.presentable(&fault.message);
            fault.hint = fault.hint.map(|hint| self.presentable(&hint));
            // An alias can repeat the same fault.
            if !shown.contains(&fault) {
                shown.push(fault);
            }
        }
        shown.sort_by_key(|fault| fault.span.start);
        ConfigError {
            path: self.path.clone(),
            text: Some(self.text.clone()),
            faults: shown,
        }
    }

    /// A message that is safe to show: names instead of values, cropped to fit a screen. Masking
    /// comes first, because part of a value would not be recognized.
    fn presentable(&self, text: &str) -> String {
        let mut shown = text.to_owned();
        for (value, name) in &self.inserted {
            if value.len() >= SHORTEST_SECRET {
                let name = format!("${{{name}}}");
                shown = shown.replace(value, &name);
                shown = shown.replace(&*value.escape_debug().to_string(), &name);
            }
        }
        match shown.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((end, _)) => format!("{}…", &shown[..end]),
            None => shown,
        }
    }
}

/// Adds a hint to the errors of a file with placeholders of a template language.
fn with_template_hint(mut error: ConfigError) -> ConfigError {
    let text = error.text.as_deref().unwrap_or_default();
    if ["{{", "{%"].iter().any(|mark| text.contains(mark)) {
        for fault in &mut error.faults {
            let hint = "the file looks like a template: replace its placeholders first";
            fault.hint.get_or_insert_with(|| hint.to_owned());
        }
    }
    error
}

/// The hint for an unknown key whose setting has another name or another place.
fn hint_for(fault: &Fault) -> Option<&'static str> {
    const BUDGET: &str = "limit the cost with `gateway: {budget_usd: N}` for each trial, or `run_budget_usd` (`--max-cost`) for the run";
    const SUITES: &str =
        "it is a key of suites; for a test case, pass it as an option of `proctor run`";
    let FaultKind::UnknownKey(key) = &fault.kind else {
        return None;
    };
    match key.as_str() {
        "max_cost" | "max_cost_usd" | "max_budget" | "max_budget_usd" | "cost_limit"
        | "max_price" | "budget" | "budget_usd" | "run_budget_usd" => Some(BUDGET),
        "trials" | "parallel" | "sandbox" | "network" => Some(SUITES),
        _ => None,
    }
}

pub(super) fn read_text(path: &Utf8Path) -> Result<String, ConfigError> {
    let unreadable = |error| ConfigError::unreadable(path, &error);
    let about = std::fs::metadata(path).map_err(unreadable)?;
    if about.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
    }
    let size = usize::try_from(about.len()).unwrap_or(usize::MAX);
    let refused = |message: &str| ConfigError {
        path: path.to_owned(),
        text: None,
        faults: vec![Fault::new(Span::default(), message)],
    };
    if !about.is_file() {
        return Err(refused("this is not a regular file"));
    }
    if size > MAX_FILE_BYTES {
        return Err(refused("the file is larger than 32 MiB"));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))
}

fn not_utf8(path: &Utf8Path, error: &std::string::FromUtf8Error) -> ConfigError {
    let start = error.utf8_error().valid_up_to();
    let span = Span {
        start,
        end: start + '\u{fffd}'.len_utf8(),
    };
    ConfigError {
        path: path.to_owned(),
        text: Some(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        faults: vec![Fault::new(span, "the file is not UTF-8 text").with_hint("save it as UTF-8")],
    }
}
