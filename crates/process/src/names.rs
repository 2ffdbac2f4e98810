//! Names as Windows reads them: which files the name of a program stands for, and paths without the prefix that turns
//! the reading off. Only text, so that the rules are the same and tested on every platform.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The extensions that Windows can start, in the search order of `cmd.exe`. `PATHEXT` may omit or
/// reorder them. Its other extensions are opened by other programs, not started.
const STARTABLE: [&str; 4] = ["COM", "EXE", "BAT", "CMD"];

/// The files that `name`, which may be a path, stands for where `PATHEXT` is this: the name itself if its extension says
/// that it can be started, then the name with each such extension added. The bare name is none: npm puts a shell script
/// of that name beside its `.cmd`.
pub fn startable_names(name: &OsStr, path_ext: Option<&OsStr>) -> Vec<OsString> {
    let own = Path::new(name).extension().and_then(OsStr::to_str);
    let itself = own
        .filter(|own| startable(own).is_some())
        .map(|_| name.to_owned());
    let with = |extension: &str| {
        let mut name = name.to_owned();
        name.push(".");
        name.push(extension.to_lowercase());
        name
    };
    let others = extensions(path_ext).into_iter().map(with);
    itself.into_iter().chain(others).collect()
}

fn startable(extension: &str) -> Option<&'static str> {
    STARTABLE
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(extension))
}

fn extensions(path_ext: Option<&OsStr>) -> Vec<&'static str> {
    match path_ext.and_then(OsStr::to_str) {
        None | Some("") => STARTABLE.to_vec(),
        Some(list) => list
            .split(';')
            .filter_map(|entry| startable(entry.trim().strip_prefix('.')?))
            .collect(),
    }
}

/// A path of Windows without the `\\?\` in front that only few programs understand, `cmd.exe` least of all. It stays where
/// it is needed: before long paths, and before names that would mean something else without it.
pub fn plain_path(path: &str) -> Cow<'_, str> {
    /// From this length on, in UTF-16 units, the form without it is not understood everywhere.
    const LONG: usize = 248;
    let Some(rest) = path.strip_prefix(r"\\?\") else {
        return path.into();
    };
    let plain = match rest.strip_prefix(r"UNC\") {
        Some(share) => format!(r"\\{share}"),
        None => rest.to_owned(),
    };
    let is_drive =
        |bytes: &[u8]| matches!(bytes, [letter, b':', b'\\', ..] if letter.is_ascii_alphabetic());
    let is_plain = is_drive(plain.as_bytes()) || plain.starts_with(r"\\");
    let means_the_same = plain.split('\\').all(|part| !is_special(part));
    if is_plain && means_the_same && plain.encode_utf16().count() < LONG {
        plain.into()
    } else {
        path.into()
    }
}

/// Whether Windows interprets a name as something other than a file, unless the path is verbatim.
fn is_special(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let devices = ["CON", "PRN", "AUX", "NUL"];
    let is_port = |stem: &str| {
        let upper = stem.to_ascii_uppercase();
        let digits = upper.strip_prefix("COM").or(upper.strip_prefix("LPT"));
        digits.is_some_and(|digit| matches!(digit.as_bytes(), [b'0'..=b'9']))
    };
    devices
        .iter()
        .any(|device| device.eq_ignore_ascii_case(stem))
        || is_port(stem)
        || name.contains('/')
        || (name.len() > 1 && name.ends_with(['.', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_do_not_see_the_long_form_where_the_short_one_means_the_same() {
        for (long, expect) in [
            (r"\\?\C:\a b\c.txt", r"C:\a b\c.txt"),
            (r"\\?\UNC\server\share\x", r"\\server\share\x"),
            (r"C:\a", r"C:\a"),
            ("/srv/a", "/srv/a"),
            (r"\\?\C:\a\con", r"\\?\C:\a\con"),
            (r"\\?\C:\a\com1.txt", r"\\?\C:\a\com1.txt"),
            (r"\\?\C:\ends with dot.", r"\\?\C:\ends with dot."),
            (r"\\?\C:\dot.\c", r"\\?\C:\dot.\c"),
            (r"\\?\Volume{1}\a", r"\\?\Volume{1}\a"),
        ] {
            assert_eq!(plain_path(long), expect);
        }
        let long = format!(r"\\?\C:\{}", "a\\".repeat(150));
        assert_eq!(plain_path(&long), long);
    }

    #[test]
    fn program_names_resolve_by_pathext() {
        let check = |name: &str, list: Option<&str>, expect: &[&str]| {
            let names = startable_names(OsStr::new(name), list.map(OsStr::new));
            assert_eq!(names, expect, "{name} {list:?}");
        };
        check(
            "npm",
            Some(".COM;.EXE;;.CMD"),
            &["npm.com", "npm.exe", "npm.cmd"],
        );
        check("npm", Some(".JS;.exe;.VBS"), &["npm.exe"]);
        check("npm", None, &["npm.com", "npm.exe", "npm.bat", "npm.cmd"]);
        check(
            "npm",
            Some(""),
            &["npm.com", "npm.exe", "npm.bat", "npm.cmd"],
        );
        check("Node.EXE", Some(".EXE"), &["Node.EXE", "Node.EXE.exe"]);
        check("python3.11", Some(".EXE"), &["python3.11.exe"]);
        check("page.js", Some(".JS;.EXE"), &["page.js.exe"]);
    }
}
