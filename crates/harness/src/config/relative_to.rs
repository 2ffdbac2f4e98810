//! Where relative paths begin that a file names for directories of work and results, and for hooks.
//! Files of a test case are always beside it.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::fs::named;

/// Where relative paths of directories and hooks begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelativeTo {
    /// In the directory of the file.
    #[default]
    File,
    /// In the working directory, as youBencha has it.
    WorkingDirectory,
}

impl RelativeTo {
    /// The place of `written`, which need not exist, in a file of `folder`.
    pub(super) fn place(self, folder: &Utf8Path, written: impl AsRef<Utf8Path>) -> Utf8PathBuf {
        match self {
            RelativeTo::File => named::absolute(&folder.join(written)),
            RelativeTo::WorkingDirectory => named::absolute(written.as_ref()),
        }
    }

    /// The place of `written`, or if it does not exist, the other one.
    pub(super) fn existing(self, folder: &Utf8Path, written: &str) -> Utf8PathBuf {
        let other = match self {
            RelativeTo::File => RelativeTo::WorkingDirectory,
            RelativeTo::WorkingDirectory => RelativeTo::File,
        };
        let (first, second) = (self.place(folder, written), other.place(folder, written));
        if !first.exists() && second.exists() {
            second
        } else {
            first
        }
    }
}
