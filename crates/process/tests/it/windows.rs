//! Tests for Windows: crash codes, `PATHEXT`, shims and scripts, the limit of command lines, nested
//! jobs.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use proctor_process::quick::{QuickCommand, output};
use proctor_process::{Command, EndReason, Error, Event, Output, Status};

use crate::support::{Nest, PATIENCE, PROMPT, finish, player, program, run, spawn};

/// Arguments that a shell would make something else of.
const NASTY: [&str; 14] = [
    "",
    "a b",
    "\"",
    "a\"b\"c",
    "\\",
    "c:\\x y\\",
    "a\\\"b",
    "%PATH%",
    "100%",
    "&calc",
    "^|<>",
    "!x!",
    "ünï→",
    "(a;b,c=d)",
];

/// A folder with a space in its name that holds a copy of the player.
struct Bin(tempfile::TempDir);

impl Bin {
    fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("my bin ")
            .tempdir()
            .unwrap();
        fs::copy(program(), folder.path().join("player.exe")).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text.replace('\n', "\r\n")).unwrap();
    }

    /// A command found in this folder.
    fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(name, std::env::temp_dir());
        command.args = args.iter().map(OsString::from).collect();
        command.env = std::env::vars_os().collect();
        command
            .env
            .retain(|name, _| !name.eq_ignore_ascii_case("PATH"));
        command.env.insert("Path".into(), self.path().into());
        command
    }
}

fn shown(arguments: &[&str]) -> String {
    let lines: Vec<String> = arguments
        .iter()
        .map(|argument| format!("{argument:?}\n"))
        .collect();
    lines.concat()
}

/// Wine's `cmd.exe` expands variables in what `%*` stands for, which that of Windows does not: no percent sign gets
/// through a script there, however it is written. All else passes on both.
fn passes_through_shell(argument: &&str) -> bool {
    let is_wine = std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("WINE"));
    !(is_wine && argument.contains('%'))
}

#[tokio::test]
async fn exit_codes_have_32_bits_and_those_of_crashes_have_words() {
    for (code, words) in [
        (1000, "exit code 1000"),
        (-1_073_741_819, "exit code 0xC0000005 (access violation)"),
        (
            -1_073_740_791,
            "exit code 0xC0000409 (stack buffer overrun or abort)",
        ),
    ] {
        let run = run(player(&format!("exit {code}"))).await;
        assert_eq!(run.report.exit.status, Some(Status::Code(code)));
        assert_eq!(run.report.exit.status.unwrap().to_string(), words);
    }
}

#[tokio::test]
async fn a_name_is_found_with_the_extensions_of_its_own_environment() {
    let bin = Bin::new();
    let found = run(bin.command("player", &["play", "out found"])).await;
    assert_eq!(found.text(), "found\n");
    let mut command = bin.command("player", &["play", "out found"]);
    command
        .env
        .retain(|name, _| !name.eq_ignore_ascii_case("PATHEXT"));
    command.env.insert("PathExt".into(), ".CMD".into());
    let error = spawn(command).await.unwrap_err();
    assert!(matches!(error, Error::ProgramNotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_shim_of_npm_is_seen_through_and_passes_anything_on() {
    let bin = Bin::new();
    bin.write(
        "tool.cmd",
        "@ECHO off\nGOTO start\n:find_dp0\nSET dp0=%~dp0\nEXIT /b\n:start\nSETLOCAL\nCALL :find_dp0\n\
         endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & \"%dp0%\\player.exe\"   %*\n",
    );
    let mut args = vec!["play", "arguments; exit 9", "line\nbreak"];
    args.extend(NASTY);
    let run = run(bin.command("tool", &args)).await;
    assert_eq!(run.text(), shown(&args[2..]));
    assert_eq!(run.report.exit.status, Some(Status::Code(9)));
}

#[tokio::test]
async fn cmd_script_that_is_not_a_shim_gets_verbatim_arguments() {
    let bin = Bin::new();
    bin.write(
        "tool.cmd",
        "@echo off\n\"%~dp0player.exe\" play \"arguments; exit 9\" %*\nexit /b %ERRORLEVEL%\n",
    );
    let args: Vec<&str> = NASTY.into_iter().filter(passes_through_shell).collect();
    let run = run(bin.command("tool.cmd", &args)).await;
    assert_eq!(
        run.text(),
        shown(&args),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert_eq!(run.report.exit.status, Some(Status::Code(9)));
}

#[tokio::test]
async fn unrepresentable_script_arguments_are_refused_before_start() {
    let bin = Bin::new();
    bin.write("tool.cmd", "@echo off\necho %*\n");
    let error = spawn(bin.command("tool", &["a\nb"])).await.unwrap_err();
    assert!(
        matches!(error, Error::ArgumentRefused { position: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("stdin"), "{error}");
}

#[tokio::test]
async fn too_long_command_line_is_refused_before_start() {
    let mut command = player("arguments");
    command.args.push("x".repeat(30_000).into());
    assert_eq!(run(command.clone()).await.text().len(), 30_003);
    command.args.push("y".repeat(3_000).into());
    let error = spawn(command).await.unwrap_err();
    assert!(matches!(error, Error::CommandTooLong { .. }), "{error}");
    assert!(error.to_string().contains("32766"), "{error}");
    let bin = Bin::new();
    bin.write("tool.cmd", "@echo off\necho %*\n");
    let long = "x".repeat(9_000);
    let error = spawn(bin.command("tool", &[&long])).await.unwrap_err();
    assert!(matches!(error, Error::CommandTooLong { .. }), "{error}");
    assert!(error.to_string().contains("8191"), "{error}");
}

#[tokio::test]
async fn a_helper_may_be_a_script() {
    let bin = Bin::new();
    bin.write("tool.cmd", "@echo off\necho from a script\n");
    let command = QuickCommand::new("tool")
        .envs(std::env::vars_os())
        .env("PATH", bin.path());
    let result = output(command, PATIENCE).await.unwrap();
    assert_eq!(result.stdout, b"from a script\r\n");
}

#[tokio::test]
async fn a_job_ends_with_the_jobs_that_lie_within_it() {
    let nest = Nest::new();
    let script = nest.script("alive; start { alive; sleep 600000 }; sleep 600000");
    // A driver in a job of ours, with a job of its own for a player.
    let mut command = player("");
    command.args = vec!["drive-player".into(), script.into()];
    let mut process = spawn(command).await.unwrap();
    nest.wait_for(2).await;
    process.end(EndReason::Asked);
    assert!(finish(process).await.took < PROMPT);
    nest.assert_gone();
}

#[tokio::test]
async fn the_first_process_of_a_container_is_refused() {
    let command = QuickCommand::new(program())
        .envs(std::env::vars_os())
        .args([proctor_process::INIT]);
    let result = output(command, PATIENCE).await.unwrap();
    assert_eq!(result.status, Status::Code(1));
    assert!(String::from_utf8_lossy(&result.stderr).contains("Linux"));
}

/// Wine does not send such events to the consoles of others, so that this is for real systems.
#[tokio::test]
async fn a_console_that_is_broken_lets_a_process_say_its_last_words() {
    let nest = Nest::new();
    let script =
        nest.script("alive; heed 3; out ready; start { alive; sleep 600000 }; sleep 600000");
    let mut command = player(&script);
    command.limits.term_grace = Duration::from_secs(20);
    let mut process = spawn(command).await.unwrap();
    assert!(matches!(process.next().await, Event::Output { .. }));
    nest.wait_for(2).await;
    process.end(EndReason::Asked);
    let run = finish(process).await;
    assert_eq!(run.text().trim_end(), "bye");
    assert_eq!(run.report.exit.status, Some(Status::Code(3)));
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Asked));
    assert!(run.took < Duration::from_secs(15), "{:?}", run.took);
    nest.assert_gone();
}

/// Output to a pseudo-console arrives only on real Windows. Under Wine the process still runs on it
/// and ends.
#[tokio::test]
async fn pseudo_console_a_process_runs_on_it() {
    let mut command = player("out drawn; exit 5");
    command.output = Output::Pty {
        columns: 80,
        rows: 25,
    };
    let run = run(command).await;
    assert_eq!(
        run.report.exit.status,
        Some(Status::Code(5)),
        "{:?}",
        run.text()
    );
    assert!(run.text().contains("drawn"), "{:?}", run.text());
}
