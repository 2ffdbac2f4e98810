//! Results of rules in a GitHub Actions job.

use std::fmt::Write as _;

use proctor_report::{Ruled, Ruling};
use proctor_sandbox::host::Host;

use crate::{error::CliError, ui};

/// The variable that names the summary file of the job.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// In a GitHub Actions job: writes the summary, and an annotation for each rule that does not hold.
pub fn annotate(markdown: &str, rules: &[Ruled], host: &Host) -> Result<(), CliError> {
    if host.env.get("GITHUB_ACTIONS").is_none_or(|it| it != "true") {
        return Ok(());
    }
    if let Some(path) = host.env.get(SUMMARY).filter(|path| !path.is_empty()) {
        let mut file = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        std::io::Write::write_all(&mut file, markdown.as_bytes())?;
    }
    let mut text = String::new();
    for ruled in rules {
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
