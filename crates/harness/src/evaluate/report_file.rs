//! The report that a judged command writes: its path, its content, and whether it was forged.

use std::io::ErrorKind;

use camino::Utf8PathBuf;
use proctor_record::{fs::beneath::UntrustedDir, platform::FileWrites};
use proctor_sandbox::shell;

/// The shell variable with the path of the report file.
pub(super) const REPORT: &str = "PROCTOR_REPORT";

/// The maximum size of a report.
const MAX_REPORT: u64 = 64 << 20;

/// A report in a folder that the agent's code can write to: parent folders may be links to
/// anywhere.
pub(super) struct ReportFile {
    pub(super) root: UntrustedDir,
    pub(super) path: Utf8PathBuf,
}

impl ReportFile {
    /// Reads the report; `None` if there is none. The report is empty until it is written.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match self.root.read(&self.path, MAX_REPORT) {
            Ok(bytes) => Ok((!bytes.is_empty()).then_some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read the report: {error}")),
        }
    }
}

/// Whether a report was forged, by its writes with the work and with a control. A command that
/// writes its report twice, or replaces it, does so with the control, too.
pub(super) fn is_forged(work: FileWrites, control: FileWrites) -> Result<bool, String> {
    if work.is_replaced && !control.is_replaced {
        return Ok(true);
    }
    match (work.count, control.count) {
        (0 | 1, _) | (_, 2..) => Ok(false),
        (_, 1) => Ok(true),
        (_, 0) => Err("the report was written more than once, and there is none of the untouched task to compare with: add a reference solution".to_owned()),
    }
}

/// The command with the path of the report in its text. The path is not in the environment, where
/// every child process could read it.
pub(super) fn with_report(argv: &[String], report: &str) -> Vec<String> {
    if argv.len() == 3 && argv.starts_with(&shell::line("")[..2]) {
        if !argv[2].contains(REPORT) {
            return argv.to_vec();
        }
        let path = shell_words::quote(report);
        return shell::line(&format!("{REPORT}={path}\n{}", argv[2]));
    }
    let [plain, braced] = [format!("${REPORT}"), format!("${{{REPORT}}}")];
    let expanded = |word: &String| word.replace(&plain, report).replace(&braced, report);
    argv.iter().map(expanded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_forged_if_its_writes_differ_from_the_control() {
        let seen = |count, is_replaced| FileWrites { count, is_replaced };
        let once = seen(1, false);
        for (work, control, expected) in [
            (once, once, Some(false)),
            (seen(0, false), once, Some(false)),
            (seen(2, false), once, Some(true)),
            (seen(2, false), seen(2, false), Some(false)),
            (seen(2, false), seen(0, false), None),
            (seen(1, true), once, Some(true)),
            (seen(1, true), seen(1, true), Some(false)),
            (seen(2, true), seen(1, true), Some(true)),
            (seen(1, true), seen(0, false), Some(true)),
        ] {
            let found = is_forged(work, control).ok();
            assert_eq!(found, expected, "{work:?} {control:?}");
        }
    }

    #[test]
    fn report_path_is_in_the_command_text_only() {
        let words = ["jest", "--outputFile=$PROCTOR_REPORT", "${PROCTOR_REPORT}"];
        let words = with_report(&words.map(str::to_owned), "/r");
        assert_eq!(words, ["jest", "--outputFile=/r", "/r"]);
        let line = with_report(&shell::line("x > \"$PROCTOR_REPORT\""), "/a b");
        assert_eq!(line[2], "PROCTOR_REPORT='/a b'\nx > \"$PROCTOR_REPORT\"");
        assert_eq!(with_report(&shell::line("x"), "/r"), shell::line("x"));
    }
}
