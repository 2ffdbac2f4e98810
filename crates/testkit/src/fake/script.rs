//! The scripts of the fake agent: their steps, and where a script is found.

use std::{
    env::consts::EXE_SUFFIX,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::play;
use crate::platform::SignalName;

/// The exit code of a script that cannot be played.
pub const BAD_SCRIPT: u8 = 97;

/// The exit code of a step that failed.
pub const FAILED_STEP: u8 = 96;

/// Plays these steps instead of a script; how a fake agent starts children of itself.
pub(super) const STEPS_FLAG: &str = "--steps";

/// One thing that a fake agent does. Text is written exactly as given: no newline is added unless
/// a step says so. Relative paths start at the working directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Writes text or bytes.
    Print(Print),
    /// Writes a JSON value and a newline to stdout.
    Line(Value),
    /// Writes what a file holds.
    Emit {
        /// The file.
        path: PathBuf,
        /// Where to.
        #[serde(default)]
        stream: Stream,
    },
    /// Writes this many bytes in lines.
    Flood {
        /// How many, newlines included.
        bytes: u64,
        /// The length of a line, newline included.
        #[serde(default = "eighty")]
        line_len: u64,
        /// Where to.
        #[serde(default)]
        stream: Stream,
    },
    /// Writes one line of this many bytes and its newline to stdout.
    LongLine {
        /// How many, newline excluded.
        bytes: u64,
    },
    /// Writes a text to stdout, broken in the middle of its first multi-byte character.
    SplitUtf8 {
        /// The text.
        text: String,
        /// How long to wait in the middle.
        pause_ms: u64,
    },
    /// Writes a line to stdout that is not UTF-8.
    InvalidUtf8,
    /// Sleeps.
    SleepMs(u64),
    /// Exits with this code.
    Exit(u8),
    /// Dies as a program that used memory that is not its own: SIGSEGV, or an access violation.
    Crash,
    /// Sends itself a signal, and exits with 96 if that did not end it. Windows has ABRT only.
    KillSelf(SignalName),
    /// Ignores from now on that it is asked to end: SIGTERM, or Ctrl-Break.
    IgnoreTerm,
    /// Becomes the leader of a session of its own, if it leads no group yet. Unix only.
    Setsid,
    /// Starts a child that does nothing but keep stdout and stderr open for so many seconds.
    HoldStdout {
        /// How long.
        seconds: u64,
    },
    /// Starts a child that sleeps.
    SpawnChild(Child),
    /// Writes a file, with the directories above it.
    WriteFile(TextFile),
    /// Appends to a file, which is made if need be.
    Append(TextFile),
    /// Removes a file or a directory.
    Delete(PathBuf),
    /// Runs a program, without output, and fails if it fails.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// Reads the rest of stdin into a file.
    SaveStdin(PathBuf),
    /// Writes the arguments as a JSON list into a file.
    SaveArgv(PathBuf),
    /// Writes the environment as a JSON object into a file.
    SaveEnv(PathBuf),
    /// Reads lines from stdin until one contains this text; fails when stdin ends before.
    WaitForStdinLine {
        /// The text; every line contains the empty one.
        #[serde(default)]
        contains: String,
    },
    /// Writes a question to stdout, reads a line from stdin, and goes on by whether there was one.
    Ask {
        /// The question.
        text: String,
        /// The steps after an answer.
        #[serde(default)]
        answered: Vec<Step>,
        /// The steps after stdin is closed.
        #[serde(default)]
        closed: Vec<Step>,
    },
}

/// The text to write, and the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Print {
    /// The text. Exactly one of this and `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// How many times.
    #[serde(default = "once")]
    pub repeat: u64,
    /// Where to.
    #[serde(default)]
    pub stream: Stream,
}

impl Print {
    pub(super) fn bytes(&self) -> Result<Vec<u8>, String> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(base64)) => decode_base64(base64),
            _ => Err("print needs exactly one of text and base64".to_owned()),
        }
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0_u32);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("{:?} is not a base64 digit", char::from(digit))),
        };
        bits = ((bits << 6) | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    Ok(bytes)
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// A file and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFile {
    /// The file.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

/// A child that sleeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent switches of a script"
)]
pub struct Child {
    /// How long, in seconds.
    pub sleep_s: u64,
    /// In a session of its own. Unix only.
    #[serde(default)]
    pub setsid: bool,
    /// Through another child that exits at once, so that it is orphaned.
    #[serde(default)]
    pub double_fork: bool,
    /// With an empty environment.
    #[serde(default)]
    pub clear_env: bool,
    /// Deaf to being asked to end.
    #[serde(default)]
    pub ignore_term: bool,
    /// An argument by which tests find it.
    #[serde(default)]
    pub marker: String,
}

fn eighty() -> u64 {
    80
}

fn once() -> u64 {
    1
}

/// A script as it was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FakeScript {
    steps: Vec<Step>,
    alternatives: Vec<Alternative>,
}

/// Steps for certain arguments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Alternative {
    when_args: Vec<String>,
    steps: Vec<Step>,
}

impl FakeScript {
    /// Reads a script; the error says which entry is wrong.
    pub fn parse(script: Value) -> Result<Self, String> {
        let Value::Array(entries) = script else {
            return Err("a script is a list of steps".to_owned());
        };
        let mut parsed = Self::default();
        for (index, entry) in entries.into_iter().enumerate() {
            let added = parsed.add(entry);
            added.map_err(|error| format!("entry {index}: {error}"))?;
        }
        Ok(parsed)
    }

    fn add(&mut self, entry: Value) -> Result<(), String> {
        if entry.get("when_args").is_some() {
            let alternative: Alternative = read(entry)?;
            check(&alternative.steps)?;
            self.alternatives.push(alternative);
        } else {
            let step = read(entry)?;
            check(std::slice::from_ref(&step))?;
            self.steps.push(step);
        }
        Ok(())
    }

    /// The steps for these arguments: those of the first alternative that fits, else the main ones.
    fn steps_for(self, args: &[OsString]) -> Vec<Step> {
        let fits = |alternative: &Alternative| {
            let wanted = &alternative.when_args;
            !wanted.is_empty()
                && args.windows(wanted.len()).any(|window| {
                    let pairs = window.iter().zip(wanted);
                    pairs
                        .into_iter()
                        .all(|(arg, wanted)| arg == wanted.as_str())
                })
        };
        let found = self.alternatives.into_iter().find(fits);
        found.map_or(self.steps, |alternative| alternative.steps)
    }
}

fn read<T: serde::de::DeserializeOwned>(entry: Value) -> Result<T, String> {
    serde_json::from_value(entry).map_err(|error| error.to_string())
}

/// Why a step cannot be played here. Windows has no sessions and hardly any signals.
fn refusal(step: &Step) -> Option<&'static str> {
    match step {
        _ if cfg!(unix) => None,
        Step::KillSelf(SignalName::Abrt) => None,
        Step::KillSelf(_) => Some("kill_self is for Unix only, but for ABRT: use crash or exit"),
        Step::Setsid => Some("setsid is for Unix only"),
        Step::SpawnChild(child) if child.setsid => Some("spawn_child with setsid is for Unix only"),
        _ => None,
    }
}

/// Checks that the types cannot express.
fn check(steps: &[Step]) -> Result<(), String> {
    for step in steps {
        if let Some(why) = refusal(step) {
            return Err(why.to_owned());
        }
        match step {
            Step::Print(print) => drop(print.bytes()?),
            Step::Run { argv } if argv.is_empty() => return Err("run needs a program".to_owned()),
            Step::Ask {
                answered, closed, ..
            } => check(answered).and_then(|()| check(closed))?,
            _ => {}
        }
    }
    Ok(())
}

/// The fake agent's `main`.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match steps(&args) {
        Ok(steps) => play::play(&steps),
        Err(error) => {
            play::complain(&error);
            ExitCode::from(BAD_SCRIPT)
        }
    }
}

fn steps(args: &[OsString]) -> Result<Vec<Step>, String> {
    if let [flag, steps, ..] = args
        && flag == STEPS_FLAG
    {
        let steps = steps.to_str().ok_or("the steps are not UTF-8")?;
        return serde_json::from_str(steps).map_err(|error| error.to_string());
    }
    let (path, args) = match args {
        [flag, path, rest @ ..] if flag == "--script" => (PathBuf::from(path), rest),
        _ => (script_path()?, args),
    };
    let in_file = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read(&path).map_err(|error| in_file(error.to_string()))?;
    let json = serde_json::from_slice(&text).map_err(|error| in_file(error.to_string()))?;
    Ok(FakeScript::parse(json).map_err(in_file)?.steps_for(args))
}

/// The default script. An extension such as `.exe` is not part of a program's name.
fn script_path() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("FAKE_AGENT_SCRIPT") {
        return Ok(path.into());
    }
    let called = std::env::args_os().next().unwrap_or_default();
    let candidates: Vec<PathBuf> = places_of(Path::new(&called))
        .into_iter()
        .map(|program| {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            let name = name.strip_suffix(EXE_SUFFIX).unwrap_or(&name);
            program.with_file_name(format!("{name}.script.json"))
        })
        .collect();
    let found = candidates.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| format!("no script: FAKE_AGENT_SCRIPT is not set, none of {candidates:?}"))
}

/// Where the program may lie that was called by this name.
fn places_of(called: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if called.components().count() > 1 {
        places.push(called.to_owned());
    } else if let Some(path) = std::env::var_os("PATH") {
        places.extend(std::env::split_paths(&path).map(|dir| dir.join(called)));
    }
    places.extend(std::env::current_exe());
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_choose_the_alternative_and_nothing_else_does() {
        let script = json!([
            {"when_args": ["--version"], "steps": [{"exit": 1}]},
            {"when_args": ["auth", "status"], "steps": [{"exit": 2}]},
            {"exit": 3},
        ]);
        let script = FakeScript::parse(script).unwrap();
        let exit = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            script.clone().steps_for(&args)
        };
        assert_eq!(exit(&["--version"]), [Step::Exit(1)]);
        assert_eq!(exit(&["-v", "auth", "status"]), [Step::Exit(2)]);
        assert_eq!(exit(&["auth", "-v", "status"]), [Step::Exit(3)]);
        assert_eq!(exit(&[]), [Step::Exit(3)]);
    }

    #[test]
    fn a_wrong_entry_is_named() {
        let cases = [
            (json!({}), "list"),
            (
                json!([{"exit": 0}, {"prnt": {}}]),
                "entry 1: unknown variant",
            ),
            (json!([{"print": {"txt": "a"}}]), "entry 0: unknown field"),
            (
                json!([{"when_args": [], "step": []}]),
                "entry 0: unknown field",
            ),
        ];
        for (script, expected) in cases {
            let error = FakeScript::parse(script).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn base64_gives_the_bytes_back() {
        assert_eq!(decode_base64("").unwrap(), b"");
        assert_eq!(decode_base64("Zg==").unwrap(), b"f");
        assert_eq!(decode_base64("Zm8=").unwrap(), b"fo");
        assert_eq!(decode_base64("/+8A").unwrap(), [0xff, 0xef, 0x00]);
    }
}
