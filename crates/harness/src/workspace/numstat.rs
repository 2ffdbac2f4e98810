//! Parses `git diff --numstat -z`.

use super::FileChange;

/// Parses `git diff --numstat -z`: `added TAB removed TAB path NUL`, or for a rename `added TAB
/// removed TAB NUL old NUL new NUL`.
pub(super) fn parse_numstat(bytes: &[u8]) -> Vec<FileChange> {
    let text = String::from_utf8_lossy(bytes);
    let mut fields = text.split('\0');
    let mut files = Vec::new();
    while let Some(field) = fields.next() {
        let mut columns = field.splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) =
            (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let path = if path.is_empty() {
            fields.next();
            fields.next().unwrap_or_default()
        } else {
            path
        };
        files.push(FileChange {
            path: path.to_owned(),
            added: added.parse().ok(),
            removed: removed.parse().ok(),
        });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numstat: &str, expect: &[(&str, Option<u64>, Option<u64>)]) {
        let expect: Vec<_> = expect
            .iter()
            .map(|(path, added, removed)| FileChange {
                path: (*path).into(),
                added: *added,
                removed: *removed,
            })
            .collect();
        assert_eq!(parse_numstat(numstat.as_bytes()), expect);
    }

    #[test]
    fn numstat_of_text_binary_and_renamed_files_is_parsed() {
        check("", &[]);
        check("3\t1\ta b.txt\0", &[("a b.txt", Some(3), Some(1))]);
        check("-\t-\tlogo.png\0", &[("logo.png", None, None)]);
        check(
            "0\t0\t\0old.rs\0new.rs\x001\t0\tx\0",
            &[("new.rs", Some(0), Some(0)), ("x", Some(1), Some(0))],
        );
    }
}
