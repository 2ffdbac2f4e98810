//! The environment of a process as Windows wants it: names without regard to case, sorted, in one block.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::OsStrExt;

/// The variables of a process, with names that are not case-sensitive.
#[derive(Clone, Debug)]
pub(super) struct Variables {
    /// By name in capitals.
    entries: BTreeMap<String, (OsString, OsString)>,
}

impl Variables {
    /// Exactly these. Of two names that differ in case only the first in the order of their characters counts, which
    /// is the one in capitals: settings of Proctor's own are written so, and win over what was inherited.
    pub(super) fn new(env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut all: Vec<_> = env.into_iter().collect();
        all.sort();
        let mut entries = BTreeMap::new();
        for (name, value) in all {
            entries.entry(folded(&name)).or_insert((name, value));
        }
        Self { entries }
    }

    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.entries.get(name)?;
        Some(value)
    }

    /// `NAME=value`, each closed by a zero, and another zero.
    pub(super) fn block(&self) -> io::Result<Vec<u16>> {
        let mut block = Vec::new();
        for (name, value) in self.entries.values() {
            // Names that begin with the sign are Windows' own: the current folder of each drive.
            let is_name =
                !name.is_empty() && !name.encode_wide().skip(1).any(|unit| unit == EQUALS);
            if !is_name || has_zero(name) || has_zero(value) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            block.extend(name.encode_wide());
            block.push(EQUALS);
            block.extend(value.encode_wide());
            block.push(0);
        }
        if block.is_empty() {
            block.push(0);
        }
        block.push(0);
        Ok(block)
    }
}

const EQUALS: u16 = b'=' as u16;

fn folded(name: &OsStr) -> String {
    name.to_string_lossy().to_uppercase()
}

fn has_zero(text: &OsStr) -> bool {
    text.encode_wide().any(|unit| unit == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        Variables::new(
            pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[test]
    fn names_are_found_in_any_case_and_capitals_win() {
        let all = variables(&[("Path", "old"), ("PATH", "new"), ("PathExt", ".EXE")]);
        assert_eq!(all.get("PATH"), Some(OsStr::new("new")));
        assert_eq!(all.get("PATHEXT"), Some(OsStr::new(".EXE")));
        assert_eq!(all.get("HOME"), None);
    }

    #[test]
    fn the_block_is_sorted_and_closed() {
        let text = |variables: Variables| String::from_utf16(&variables.block().unwrap()).unwrap();
        assert_eq!(
            text(variables(&[("b", "2"), ("A", "1=1")])),
            "A=1=1\0b=2\0\0"
        );
        assert_eq!(text(variables(&[])), "\0\0");
    }

    #[test]
    fn values_not_representable_in_an_environment_block_are_refused() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0y"), ("A\0", "x")] {
            assert!(
                variables(&[(name, value)]).block().is_err(),
                "{name:?} {value:?}"
            );
        }
    }
}
