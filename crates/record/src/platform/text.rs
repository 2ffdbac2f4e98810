//! Text forms of paths and environments.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use camino::{Utf8Path, Utf8PathBuf};

/// A relative path with slashes, as in records and reports on all systems.
pub fn slashed(path: &str) -> Cow<'_, str> {
    if cfg!(windows) && path.contains('\\') {
        Cow::Owned(path.replace('\\', "/"))
    } else {
        Cow::Borrowed(path)
    }
}

/// The canonical path, in the form that users and other programs know.
pub fn canonical(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let real = path.canonicalize_utf8()?;
    if cfg!(windows) {
        return Ok(proctor_process::plain_path(real.as_str())
            .into_owned()
            .into());
    }
    Ok(real)
}

/// The text of a file that a person wrote. On Windows, line ends are normalised, so that a prompt
/// is the same on every system.
pub fn text_of_file(text: String) -> String {
    if cfg!(windows) && text.contains("\r\n") {
        text.replace("\r\n", "\n")
    } else {
        text
    }
}

/// Whether a path starts at a root or a drive.
pub fn is_rooted(path: &str) -> bool {
    let is_drive =
        |path: &str| matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    path.starts_with('/') || (cfg!(windows) && (path.starts_with('\\') || is_drive(path)))
}

/// The path after `file://`.
pub fn path_of_file_url(rest: &str) -> &str {
    if cfg!(windows) {
        drive_path(rest)
    } else {
        rest
    }
}

/// The path after the third slash, if it starts with a drive.
fn drive_path(rest: &str) -> &str {
    match rest.as_bytes() {
        [b'/', letter, b':', ..] if letter.is_ascii_alphabetic() => &rest[1..],
        _ => rest,
    }
}

/// The null device for an agent in `workspace`, which differs in a container.
pub fn null_device(workspace: &Utf8Path) -> &'static str {
    if cfg!(windows) && !workspace.as_str().starts_with('/') {
        "NUL"
    } else {
        "/dev/null"
    }
}

/// A text in which container paths below `roots` have slashes. Paths are joined by the rules of
/// this machine.
pub fn slashed_below<'a>(text: &'a str, roots: &[&str]) -> Cow<'a, str> {
    if cfg!(windows) {
        with_slashes_below(text, roots)
    } else {
        text.into()
    }
}

fn with_slashes_below<'a>(text: &'a str, roots: &[&str]) -> Cow<'a, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let ends_path = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '|' | ';');
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = roots.iter().filter_map(|root| rest.find(root)).min() {
        let (before, from) = rest.split_at(start);
        let end = from.find(ends_path).unwrap_or(from.len());
        made.push_str(before);
        made.push_str(&from[..end].replace('\\', "/"));
        rest = &from[end..];
    }
    made.push_str(rest);
    made.into()
}

/// A path that is the same file if the file system ignores case.
pub(super) fn other_case(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    let flip = |c: char| {
        if c.is_ascii_lowercase() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        }
    };
    let other: String = name.chars().map(flip).collect();
    (other != name).then(|| folder.with_file_name(other))
}

/// The directories that programs expect in a HOME.
pub const HOME_FOLDERS: &[&str] = if cfg!(windows) {
    &["tmp", "AppData/Roaming", "AppData/Local"]
} else {
    &["tmp"]
};

/// Variables that Windows programs need to start or to find their files.
pub const OF_WINDOWS: [&str; 20] = [
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "OS",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "ProgramW6432",
    "CommonProgramFiles",
    "CommonProgramFiles(x86)",
    "CommonProgramW6432",
    "ProgramData",
    "ALLUSERSPROFILE",
    "PUBLIC",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
    "PROCESSOR_IDENTIFIER",
    "USERNAME",
    "COMPUTERNAME",
];

/// The variables of this system in addition to the allowed ones, with a separate HOME.
pub fn own_environment(
    from: &BTreeMap<String, String>,
    home: &Utf8Path,
) -> BTreeMap<String, String> {
    if !cfg!(windows) {
        return BTreeMap::from([("TMPDIR".to_owned(), home.join("tmp").into_string())]);
    }
    windows_environment(from, home)
}

/// The same for Windows: the directories of a user, all below `home`.
fn windows_environment(
    from: &BTreeMap<String, String>,
    home: &Utf8Path,
) -> BTreeMap<String, String> {
    let known = |name: &&str| {
        let mut pairs = from.iter();
        let (_, value) = pairs.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(((*name).to_owned(), value.clone()))
    };
    let mut env: BTreeMap<String, String> = OF_WINDOWS.iter().filter_map(known).collect();
    let below = |folders: &[&str]| {
        folders.iter().fold(home.to_string(), |mut path, part| {
            path.push('\\');
            path.push_str(part);
            path
        })
    };
    let (drive, rest) = home.as_str().split_at_checked(2).unwrap_or(("", ""));
    for (name, value) in [
        ("USERPROFILE", home.to_string()),
        ("HOMEDRIVE", drive.to_owned()),
        ("HOMEPATH", rest.to_owned()),
        ("APPDATA", below(&["AppData", "Roaming"])),
        ("LOCALAPPDATA", below(&["AppData", "Local"])),
        ("TEMP", below(&["tmp"])),
        ("TMP", below(&["tmp"])),
        ("TMPDIR", below(&["tmp"])),
    ] {
        env.insert(name.to_owned(), value);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_paths_have_slashes() {
        let check = |text: &str, expect: &str| {
            let roots = ["/proctor/home", "/workspace"];
            assert_eq!(with_slashes_below(text, &roots), expect);
        };
        check(
            r"/proctor/home\.claude\x.json",
            "/proctor/home/.claude/x.json",
        );
        check(
            r"--config=/workspace\a\b c\d",
            r"--config=/workspace/a/b c\d",
        );
        check(
            r#"{"f":"/workspace\\a"} and C:\b"#,
            r#"{"f":"/workspace//a"} and C:\b"#,
        );
        check(r"say \n", r"say \n");
    }

    #[test]
    fn file_url_can_have_a_drive() {
        assert_eq!(drive_path("/C:/a b"), "C:/a b");
        assert_eq!(drive_path("/srv/repo"), "/srv/repo");
    }

    #[test]
    fn windows_user_directories_are_below_the_trial_home() {
        let host = [
            ("SYSTEMROOT", r"C:\Windows"),
            ("PathExt", ".EXE"),
            ("APPDATA", r"C:\Users\me\AppData\Roaming"),
            ("SECRET", "x"),
        ];
        let host = host.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = windows_environment(&host.into(), Utf8Path::new(r"C:\t\home"));
        for (name, value) in [
            ("SystemRoot", r"C:\Windows"),
            ("PATHEXT", ".EXE"),
            ("USERPROFILE", r"C:\t\home"),
            ("HOMEDRIVE", "C:"),
            ("HOMEPATH", r"\t\home"),
            ("APPDATA", r"C:\t\home\AppData\Roaming"),
            ("LOCALAPPDATA", r"C:\t\home\AppData\Local"),
            ("TEMP", r"C:\t\home\tmp"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!env.contains_key("SECRET"));
    }
}
