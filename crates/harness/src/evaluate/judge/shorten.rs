//! Shortens a change that is too long for a judge: the start of each file's change, and the names
//! of all files. The limit is Proctor's, not a fault of the work.

use std::fmt::Write as _;

/// The start of a file's section in a patch.
const START: &str = "diff --git ";
/// The minimum length of a shortened section.
const LEAST: usize = 400;
/// The maximum total length of file names.
const NAMES: usize = 40_000;

/// About `limit` bytes of a patch, and the files of the result.
pub(super) fn shortened(patch: &str, limit: usize, names: &[String]) -> String {
    let parts = parts(patch);
    let mut text = format!(
        "[This change has {} bytes in {} files. It is shown shortened; what is left out is marked.]\n",
        patch.len(),
        parts.len()
    );
    let shown = parts.len().min((limit / LEAST).max(1));
    let share = share(&parts[..shown], limit);
    for part in &parts[..shown] {
        let end = cut(part, share);
        text.push_str(&part[..end]);
        if end < part.len() {
            let left = part.len() - end;
            let _ = writeln!(
                text,
                "[{left} more bytes of this file's change are left out]"
            );
        }
    }
    if shown < parts.len() {
        let left = parts.len() - shown;
        let _ = writeln!(text, "[the changes of {left} more files are left out]");
    }
    let _ = writeln!(text, "\n[The files of the result:]");
    let mut room = NAMES;
    for (number, name) in names.iter().enumerate() {
        if name.len() >= room {
            let _ = writeln!(text, "[and {} more]", names.len() - number);
            break;
        }
        room -= name.len() + 1;
        let _ = writeln!(text, "{name}");
    }
    text
}

/// The sections of a patch, one for each file.
fn parts(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = patch
        .match_indices(START)
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || patch[..*at].ends_with('\n'))
        .collect();
    starts.push(patch.len());
    starts
        .windows(2)
        .map(|ends| &patch[ends[0]..ends[1]])
        .collect()
}

/// The length limit of a section so that all fit. Short sections leave their share to the others.
fn share(parts: &[&str], limit: usize) -> usize {
    let mut lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths.sort_unstable();
    let mut left = limit;
    for (number, length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - number);
        if *length > share {
            return share;
        }
        left -= length;
    }
    limit
}

/// The end of the last complete line within the limit, or the limit within the first line.
fn cut(part: &str, most: usize) -> usize {
    if part.len() <= most {
        return part.len();
    }
    let mut end = most;
    while !part.is_char_boundary(end) {
        end -= 1;
    }
    part[..end].rfind('\n').map_or(end, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, lines: usize) -> String {
        let mut text = format!("{START}a/{name} b/{name}\n@@ -0,0 +1 @@\n");
        (0..lines).for_each(|line| writeln!(text, "+line {line} é").unwrap());
        text
    }

    #[test]
    fn short_sections_are_kept_and_long_ones_shortened() {
        let patch = format!(
            "{}{}{}",
            part("a", 5_000),
            part("small", 2),
            part("b", 5_000)
        );
        let names = ["a".to_owned(), "small".to_owned(), "untouched".to_owned()];
        let text = shortened(&patch, 20_000, &names);
        assert!(text.len() < 21_000, "{}", text.len());
        assert!(text.contains(&part("small", 2)), "{text}");
        for name in ["a", "b"] {
            assert!(text.contains(&format!("{START}a/{name} b/{name}\n")));
        }
        assert_eq!(text.matches("more bytes of this file's change").count(), 2);
        assert!(text.starts_with(&format!(
            "[This change has {} bytes in 3 files.",
            patch.len()
        )));
        assert!(text.ends_with("small\nuntouched\n"), "{text}");
    }

    #[test]
    fn many_files_are_counted() {
        let patch: String = (0..1_000).map(|n| part(&format!("f{n}"), 40)).collect();
        let names: Vec<String> = (0..20_000).map(|n| format!("file-{n}")).collect();
        let text = shortened(&patch, 100_000, &names);
        assert!(text.len() < 250_000, "{}", text.len());
        assert!(text.contains("[the changes of 750 more files are left out]"));
        assert!(text.contains("[and "));
    }
}
