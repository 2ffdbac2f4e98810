//! Checks that a file is a patch that git can read: `git apply` skips text that it does not know, so that a file
//! without any change would count as a reference solution that does nothing.

/// A fault of a patch file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct PatchError {
    /// The line, from 1.
    pub(super) line: usize,
    /// The fault.
    pub(super) problem: &'static str,
}

/// Header lines that change a file without a hunk.
const WITHOUT_HUNK: [&str; 7] = [
    "new file mode ",
    "deleted file mode ",
    "old mode ",
    "rename from ",
    "copy from ",
    "GIT binary patch",
    "Binary files ",
];

/// Check a patch. An empty file is a patch without changes.
pub(super) fn check(patch: &[u8]) -> Result<(), PatchError> {
    if patch.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let mut lines = patch.split(|byte| *byte == b'\n').enumerate();
    let mut has_header = false;
    let mut has_change = false;
    while let Some((number, line)) = lines.next() {
        let begins = |start: &str| line.starts_with(start.as_bytes());
        let fails = |problem| PatchError {
            line: number + 1,
            problem,
        };
        if begins("diff --git ") || begins("+++ ") {
            has_header = true;
        } else if WITHOUT_HUNK.iter().any(|start| begins(start)) {
            has_change |= has_header;
        } else if begins("@@ ") {
            let sizes = sizes(line).ok_or_else(|| fails("this is not a hunk header"))?;
            if !has_header {
                return Err(fails("this hunk has no `---` and `+++` lines before it"));
            }
            hunk(&mut lines, sizes).map_err(|at| PatchError {
                line: at.map_or(number + 1, |at| at + 1),
                problem: "the hunk does not have as many lines as its header says",
            })?;
            has_change = true;
        }
    }
    if has_change {
        return Ok(());
    }
    Err(PatchError {
        line: 1,
        problem: "this is not a patch: it has no `diff --git` header and no `---`, `+++` and `@@` lines",
    })
}

/// The number of old and of new lines in the header `@@ -1,2 +3,4 @@`.
fn sizes(header: &[u8]) -> Option<(usize, usize)> {
    let text = str::from_utf8(header).unwrap_or_default();
    let mut words = text.strip_prefix("@@ ")?.split(' ');
    let size = |word: &str| match word.split_once(',') {
        Some((start, size)) => start.parse::<usize>().ok().and(size.parse().ok()),
        None => word.parse::<usize>().ok().map(|_| 1),
    };
    let old = size(words.next()?.strip_prefix('-')?)?;
    let new = size(words.next()?.strip_prefix('+')?)?;
    words.next()?.starts_with("@@").then_some((old, new))
}

/// Skip the lines of a hunk. The error is the line that does not belong to it; `None` if the file ends too early.
fn hunk<'a>(
    lines: &mut impl Iterator<Item = (usize, &'a [u8])>,
    (mut old, mut new): (usize, usize),
) -> Result<(), Option<usize>> {
    while old > 0 || new > 0 {
        let (number, line) = lines.next().ok_or(None)?;
        let counted = match line.first() {
            // Some programs strip the space of an empty line.
            Some(b' ' | b'\r') | None => old.checked_sub(1).zip(new.checked_sub(1)),
            Some(b'-') => old.checked_sub(1).map(|old| (old, new)),
            Some(b'+') => new.checked_sub(1).map(|new| (old, new)),
            Some(b'\\') => Some((old, new)),
            Some(_) => None,
        };
        (old, new) = counted.ok_or(Some(number))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_distinguished_from_other_text() {
        let plain = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ fn\n a\n-b\n+c\n";
        let mail = format!("From 12\nSubject: [PATCH] x\n\n---\n x | 2 +-\n\n{plain}-- \n2.40\n");
        let git = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n";
        let binary = "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZ\n\n";
        let no_newline = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n";
        let rename = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n";
        for patch in ["", " \n", plain, &mail, git, binary, no_newline, rename] {
            assert_eq!(check(patch.as_bytes()), Ok(()), "{patch}");
        }
    }

    #[test]
    fn garbage_is_refused_with_its_line() {
        let missing = "--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n a\n-b\n+c";
        let wrong = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nb\n+c\n";
        let long = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n+c\n";
        for (patch, line) in [
            ("this is not a patch\n", 1),
            ("\u{0}\u{1}\n", 1),
            ("diff --git a/x b/x\n", 1),
            ("--- a/x\n+++ b/x\n", 1),
            ("x\n@@ -1 +1 @@\n-a\n+b\n", 2),
            ("--- a/x\n+++ b/x\n@@ x @@\n", 3),
            (missing, 3),
            (wrong, 5),
            (long, 5),
        ] {
            assert_eq!(check(patch.as_bytes()).unwrap_err().line, line, "{patch}");
        }
        let bytes = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\xff\n+\xfe\n";
        assert_eq!(check(bytes), Ok(()));
    }
}
