//! Tasks for which Proctor starts its own executable again: sending Ctrl-Break to the processes of
//! a job from within their console, and starting a program within a pseudo-console.
#![allow(
    unsafe_code,
    reason = "calls of the Windows API; each says why it is sound"
)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::windows::io::AsHandle;
use std::path::Path;
use std::process::ExitCode;

use windows_sys::Win32::System::Console::{
    AttachConsole, CTRL_BREAK_EVENT, FreeConsole, GenerateConsoleCtrlEvent, GetConsoleProcessList,
    SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

use super::handle::{exit_code, wait_any};
use super::helper::ours;
use super::job::{Job, JobMember};
use super::launch::WindowsLaunch;
use super::spawn::{Console, spawn};
use crate::Error;

/// Sends Ctrl-Break to processes. The arguments are the id of the sender and their ids.
const END: &str = "end";

/// Starts the program that follows on the console that we were started on.
pub(super) const INSIDE: &str = "inside";

/// Does what it was started for.
pub(crate) fn supervise() -> ExitCode {
    let mut args = std::env::args_os().skip(2);
    let word = args.next().unwrap_or_default();
    let rest: Vec<OsString> = args.collect();
    if word == END {
        let pid = |text: &OsString| text.to_str()?.parse().ok();
        let mut pids = rest.iter().filter_map(pid);
        let Some(owner) = pids.next() else {
            return ExitCode::FAILURE;
        };
        break_consoles(owner, pids.collect());
        ExitCode::SUCCESS
    } else if word == INSIDE {
        // An exit code of Windows has 32 bits, for which the standard library has no other way.
        std::process::exit(run_inside(&rest).cast_signed())
    } else {
        ExitCode::FAILURE
    }
}

/// The assistant that sends Ctrl-Break to all processes of a job. It is killed when this is
/// dropped.
#[derive(Debug)]
pub(super) struct Asking {
    _assistant: Job,
    /// The target processes: while their handles are open, their ids are not reused.
    _asked: Vec<JobMember>,
}

/// Starts the assistant that sends Ctrl-Break to all processes of `job`.
pub(super) fn ask_to_end(assistant: &Path, job: &Job) -> io::Result<Asking> {
    let asked = job.members();
    let mut args: Vec<OsString> = vec![crate::command::SUPERVISE.into(), END.into()];
    args.push(std::process::id().to_string().into());
    args.extend(asked.iter().map(|member| member.pid.to_string().into()));
    let assistant = std::path::absolute(assistant)?;
    let folder = assistant.parent().unwrap_or(&assistant);
    let launch = WindowsLaunch::plan(assistant.as_os_str(), &args, &ours(), folder);
    let launch = launch.map_err(io::Error::other)?;
    let own = Job::new()?;
    let (input, output) = (
        File::open("NUL")?,
        OpenOptions::new().write(true).open("NUL")?,
    );
    let errors = output.try_clone()?;
    let streams = [
        Some(input.as_handle()),
        Some(output.as_handle()),
        Some(errors.as_handle()),
    ];
    spawn(&launch, streams, &Console::None, Some(&own))?;
    Ok(Asking {
        _assistant: own,
        _asked: asked,
    })
}

/// Ctrl-Break on each console that one of these processes has, once; never on that of `owner`, to which a process may
/// have gone by itself.
fn break_consoles(owner: u32, mut left: BTreeSet<u32>) {
    while let Some(pid) = left.pop_first() {
        // SAFETY: these calls take numbers only, and change the console of this process, which no
        // other thread uses.
        let is_attached = unsafe {
            FreeConsole();
            AttachConsole(pid) != 0
        };
        if is_attached {
            ignore_events();
            let all = sharing();
            for other in &all {
                left.remove(other);
            }
            if !all.contains(&owner) {
                // SAFETY: takes numbers only. Group 0 means all processes on the console.
                unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, 0) };
            }
        }
    }
}

/// The processes on our console.
fn sharing() -> Vec<u32> {
    let mut list = vec![0; 1024];
    // SAFETY: the list has the length that is passed. More processes than that are counted, but not listed.
    let count = unsafe { GetConsoleProcessList(list.as_mut_ptr(), 1024) };
    list.truncate(count as usize);
    list
}

/// Ignores all events of the console.
fn ignore_events() {
    unsafe extern "system" fn heard(_event: u32) -> BOOL {
        1
    }
    // SAFETY: the handler touches nothing.
    unsafe { SetConsoleCtrlHandler(Some(heard), 1) };
}

/// Runs a program with our stdin, and with our console for stdout and stderr. Its exit code is ours.
fn run_inside(words: &[OsString]) -> u32 {
    const NOT_STARTED: u32 = 1;
    ignore_events();
    let Ok(mut console) = OpenOptions::new().read(true).write(true).open("CONOUT$") else {
        return NOT_STARTED;
    };
    match start_inside(words, &console) {
        Ok(code) => code,
        Err(error) => {
            let program = words.first().map(OsString::as_os_str).unwrap_or_default();
            // Only the terminal can show it.
            let _ = writeln!(console, "cannot start {}: {error}", program.display());
            NOT_STARTED
        }
    }
}

fn start_inside(words: &[OsString], console: &File) -> Result<u32, Error> {
    let (program, args) = words.split_first().ok_or_else(|| Error::ProgramNotFound {
        program: OsString::new(),
    })?;
    let launch = WindowsLaunch::plan(program, args, &ours(), Path::new("."))?;
    let run = || {
        let second = console.try_clone()?;
        let stdin = io::stdin();
        let streams = [
            Some(stdin.as_handle()),
            Some(console.as_handle()),
            Some(second.as_handle()),
        ];
        let spawned = spawn(&launch, streams, &Console::Ours, None)?;
        let process = spawned.process.as_handle();
        wait_any(&[process], None)?;
        exit_code(process)
    };
    run().map_err(|source| Error::Start {
        program: OsStr::to_owned(program),
        source,
    })
}
