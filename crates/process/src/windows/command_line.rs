//! Command lines: Windows passes one string, and each program takes it apart again. Programs do it by the rules of the
//! C library, the shells of Unix by those of the runtime that they are built on, `cmd.exe` by its own.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::OsStrExt;
use std::path::Path;

use crate::Error;

/// The most UTF-16 units that Windows takes, without the closing zero.
const MOST: usize = 32_766;

/// The most that `cmd.exe` takes. It cuts off or refuses what is longer, after it was started.
const MOST_FOR_SHELL: usize = 8_191;

const QUOTE: u16 = b'"' as u16;
const BACKSLASH: u16 = b'\\' as u16;
const COLON: u16 = b':' as u16;
const SPACE: u16 = b' ' as u16;
const PERCENT: u16 = b'%' as u16;

/// How a program takes its line apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum QuotingRules {
    /// As the C library does.
    CLibrary,
    /// As the runtime of MSYS2 and Cygwin does, on which the shells of Git for Windows are built:
    /// within double quotes a backslash escapes the next character, and outside of them names are
    /// expanded as in a shell.
    Msys,
}

impl QuotingRules {
    /// Those of the program in `file`. Its name has to do: the shell that Git for Windows puts forward is a small
    /// program that passes its line on to the real one in another folder.
    pub(super) fn of(file: &Path) -> Self {
        let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let is_shell = ["sh", "bash", "dash"]
            .iter()
            .any(|shell| shell.eq_ignore_ascii_case(stem));
        if is_shell { Self::Msys } else { Self::CLibrary }
    }
}

/// The line for a program that takes it apart by these rules.
pub(super) fn of_program(
    rules: QuotingRules,
    name: &OsStr,
    args: &[OsString],
) -> Result<Vec<u16>, Error> {
    let mut line = Vec::new();
    // The name ends at its second quote.
    line.push(QUOTE);
    line.extend(name.encode_wide());
    line.push(QUOTE);
    for (index, argument) in args.iter().enumerate() {
        if argument.encode_wide().any(|unit| unit == 0) {
            return Err(refused(name, index));
        }
        line.push(SPACE);
        match rules {
            QuotingRules::CLibrary => push(&mut line, argument),
            QuotingRules::Msys => push_for_msys(&mut line, argument),
        }
    }
    closed(name, line, MOST)
}

/// One argument, quoted where it has to be: backslashes count only before a quote.
fn push(line: &mut Vec<u16>, argument: &OsStr) {
    let units: Vec<u16> = argument.encode_wide().collect();
    let is_split = |unit: &u16| {
        [b' ', b'\t', b'\n', 0x0b, b'"']
            .map(u16::from)
            .contains(unit)
    };
    if !units.is_empty() && !units.iter().any(is_split) {
        return line.extend(units);
    }
    line.push(QUOTE);
    let mut backslashes = 0;
    for unit in units {
        match unit {
            BACKSLASH => backslashes += 1,
            QUOTE => {
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(unit);
    }
    // Those at the end stand before our own quote.
    line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
    line.push(QUOTE);
}

/// One argument for the runtime of MSYS2, always quoted: a backslash before every backslash and quote.
///
/// Text that looks like a path with a drive, or like a share after its backslashes are doubled, is
/// parsed by other rules. Therefore the first letter is placed outside of the quotes, where it is
/// literal.
fn push_for_msys(line: &mut Vec<u16>, argument: &OsStr) {
    let units: Vec<u16> = argument.encode_wide().collect();
    let is_letter = |unit: u16| u8::try_from(unit).is_ok_and(|it| it.is_ascii_alphabetic());
    let rest = match units[..] {
        [letter, COLON, ..] if is_letter(letter) => {
            line.push(letter);
            &units[1..]
        }
        [BACKSLASH, letter, ..] if is_letter(letter) => {
            line.extend([QUOTE, BACKSLASH, BACKSLASH, QUOTE, letter]);
            &units[2..]
        }
        _ => &units[..],
    };
    line.push(QUOTE);
    for unit in rest {
        if [BACKSLASH, QUOTE].contains(unit) {
            line.push(BACKSLASH);
        }
        line.push(*unit);
    }
    line.push(QUOTE);
}

/// The line by which `shell`, which is `cmd.exe`, runs a script: no start-up commands, no delayed expansion, and the
/// outer quotes taken off.
///
/// Everything is quoted. A quote is doubled, because the interpreter knows no other way to have one within quotes; a
/// percent sign is followed by a variable that is always empty, so that no name can follow it. A line break ends a
/// command and cannot be quoted at all.
pub(super) fn of_script(shell: &Path, script: &Path, args: &[OsString]) -> Result<Vec<u16>, Error> {
    let name = script.as_os_str();
    let mut line = Vec::new();
    line.push(QUOTE);
    line.extend(shell.as_os_str().encode_wide());
    line.push(QUOTE);
    line.extend(" /d /e:on /v:off /s /c \"".encode_utf16());
    // No file has a quote in its name.
    push_for_shell(&mut line, name);
    for (index, argument) in args.iter().enumerate() {
        let cannot_stand = |unit| [0, b'\r', b'\n'].map(u16::from).contains(&unit);
        if argument.encode_wide().any(cannot_stand) {
            return Err(refused(name, index));
        }
        line.push(SPACE);
        push_for_shell(&mut line, argument);
    }
    line.push(QUOTE);
    closed(name, line, MOST_FOR_SHELL)
}

fn push_for_shell(line: &mut Vec<u16>, argument: &OsStr) {
    line.push(QUOTE);
    let mut backslashes = 0;
    for unit in argument.encode_wide() {
        match unit {
            BACKSLASH => backslashes += 1,
            QUOTE => {
                // For the program that the script passes it on to, which reads the doubled quote as one as well.
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
                line.push(QUOTE);
                backslashes = 0;
            }
            PERCENT => {
                line.extend("%%cd:~,".encode_utf16());
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(unit);
    }
    line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
    line.push(QUOTE);
}

fn closed(name: &OsStr, mut line: Vec<u16>, most: usize) -> Result<Vec<u16>, Error> {
    if line.len() > most {
        return Err(Error::CommandTooLong {
            program: name.to_owned(),
            length: line.len(),
            most,
        });
    }
    line.push(0);
    Ok(line)
}

fn refused(program: &OsStr, index: usize) -> Error {
    Error::ArgumentRefused {
        program: program.to_owned(),
        position: index + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[u16]) -> String {
        String::from_utf16(line.strip_suffix(&[0]).unwrap()).unwrap()
    }

    #[track_caller]
    fn check(argument: &str, expect: &str) {
        check_by(QuotingRules::CLibrary, argument, expect);
    }

    #[track_caller]
    fn check_by(rules: QuotingRules, argument: &str, expect: &str) {
        let line = of_program(rules, OsStr::new("p"), &[argument.into()]).unwrap();
        assert_eq!(text(&line), format!("\"p\" {expect}"));
    }

    #[test]
    fn programs_get_backslashes_and_quotes_as_they_are() {
        check("plain", "plain");
        check("", "\"\"");
        check("a b", "\"a b\"");
        check("a\nb", "\"a\nb\"");
        check(r"C:\x\", r"C:\x\");
        check(r"C:\x y\", r#""C:\x y\\""#);
        check(r#"say "hi""#, r#""say \"hi\"""#);
        check(r"\\", r"\\");
        check(r#"a\\"b"#, r#""a\\\\\"b""#);
        check("%PATH% & ^ | <", "\"%PATH% & ^ | <\"");
    }

    #[test]
    fn shells_of_unix_get_every_backslash_and_quote_marked() {
        let check = |argument, expect| check_by(QuotingRules::Msys, argument, expect);
        check("-c", r#""-c""#);
        check("", r#""""#);
        check("echo 'a b' *.txt ~ {a,b}", r#""echo 'a b' *.txt ~ {a,b}""#);
        check(r"printf 'a\nb'", r#""printf 'a\\nb'""#);
        check(r"sed s/\\/x/", r#""sed s/\\\\/x/""#);
        check(r#"say "hi" \"#, r#""say \"hi\" \\""#);
        check("a\nb", "\"a\nb\"");
    }

    #[test]
    fn no_argument_of_a_shell_looks_like_a_path_of_windows() {
        let check = |argument, expect| check_by(QuotingRules::Msys, argument, expect);
        check(r#"C:\a "b""#, r#"C":\\a \"b\"""#);
        check(r"\a\b", r#""\\"a"\\b""#);
        check(r"\\server\x", r#""\\\\server\\x""#);
        check("1:2", r#""1:2""#);
    }

    #[test]
    fn shells_of_unix_are_known_by_their_names() {
        for name in [r"C:\Git\bin\sh.exe", "bash", "DASH.EXE"] {
            assert_eq!(
                QuotingRules::of(Path::new(name)),
                QuotingRules::Msys,
                "{name}"
            );
        }
        for name in ["node.exe", r"C:\sh\tool.exe", "shell.exe", ""] {
            assert_eq!(
                QuotingRules::of(Path::new(name)),
                QuotingRules::CLibrary,
                "{name}"
            );
        }
    }

    #[test]
    fn scripts_get_everything_quoted_and_no_variable_expanded() {
        let line = of_script(
            Path::new(r"C:\cmd.exe"),
            Path::new(r"C:\a b\x.cmd"),
            &[
                "plain".into(),
                "a\"b".into(),
                "%PATH%".into(),
                r"c\".into(),
                "&calc".into(),
            ],
        );
        assert_eq!(
            text(&line.unwrap()),
            concat!(
                r#""C:\cmd.exe" /d /e:on /v:off /s /c ""C:\a b\x.cmd" "plain" "a""b" "#,
                r#""%%cd:~,%PATH%%cd:~,%" "c\\" "&calc"""#
            )
        );
    }

    #[test]
    fn a_line_break_for_a_script_and_a_zero_for_anyone_are_refused() {
        let shell = Path::new("cmd.exe");
        for text in ["a\nb", "a\rb", "a\0b"] {
            let error = of_script(shell, Path::new("x.cmd"), &["ok".into(), text.into()]);
            assert!(
                matches!(error, Err(Error::ArgumentRefused { position: 2, .. })),
                "{text:?}"
            );
        }
        let error = of_program(QuotingRules::CLibrary, OsStr::new("p"), &["a\0b".into()]);
        assert!(matches!(
            error,
            Err(Error::ArgumentRefused { position: 1, .. })
        ));
    }

    #[test]
    fn the_longest_line_passes_and_one_more_does_not() {
        let line = |count| {
            of_program(
                QuotingRules::CLibrary,
                OsStr::new("p"),
                &["x".repeat(count).into()],
            )
        };
        // Two quotes, the name and a space; then the closing zero.
        assert_eq!(line(MOST - 4).unwrap().len(), MOST + 1);
        let error = line(MOST - 3).unwrap_err();
        assert!(error.to_string().contains("stdin"), "{error}");
    }

    #[test]
    fn the_longest_line_for_a_script_is_that_of_the_shell() {
        let line = |count| {
            let args = ["x".repeat(count).into()];
            of_script(Path::new("cmd.exe"), Path::new("x.cmd"), &args)
        };
        let around = text(&line(0).unwrap()).len();
        assert_eq!(line(8_191 - around).unwrap().len(), 8_192);
        let error = line(8_192 - around).unwrap_err();
        let is_expected = matches!(
            error,
            Error::CommandTooLong {
                length: 8_192,
                most: 8_191,
                ..
            }
        );
        assert!(is_expected, "{error}");
        assert!(error.to_string().contains("takes 8191:"), "{error}");
    }
}
