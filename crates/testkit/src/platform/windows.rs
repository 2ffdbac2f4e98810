//! Test helpers on Windows: console events instead of signals, snapshots instead of `/proc`.

use std::io;
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use camino::Utf8Path;
use windows_sys::Wdk::System::Threading::{NtQueryInformationProcess, ProcessBasicInformation};
use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, OpenProcess, PEB, PROCESS_BASIC_INFORMATION,
    PROCESS_QUERY_INFORMATION, PROCESS_VM_READ, QueryFullProcessImageNameW,
};

use super::SignalName;

/// The exit code of a program that used memory that is not its own.
const ACCESS_VIOLATION: u32 = 0xC000_0005;

/// The variables without which programs do not start.
const SYSTEM: [&str; 5] = ["SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT"];

/// Where Windows' own programs and `git` are, and nothing else of the caller's PATH.
pub(crate) fn system_path() -> String {
    let root = std::env::var("SystemRoot").expect("every Windows has it");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let git = std::env::split_paths(&path).find(|folder| folder.join("git.exe").is_file());
    let git = git.map(|folder| format!(";{}", folder.display()));
    format!("{root}\\system32;{root}{}", git.unwrap_or_default())
}

/// The separator of PATH.
pub(crate) const PATH_SEPARATOR: char = ';';

/// The environment of a user whose home and files lie below this folder, PATH excepted.
pub(crate) fn user_env(root: &Utf8Path) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("APPDATA", root.join(r"home\AppData\Roaming").into_string()),
        ("LOCALAPPDATA", root.join("cache").into_string()),
        ("TEMP", root.join("tmp").into_string()),
        ("TMP", root.join("tmp").into_string()),
        ("USERPROFILE", root.join("home").into_string()),
    ];
    env.extend(system_env());
    env
}

/// The environment of git for someone without settings, PATH excepted.
pub(crate) fn nobodys_env() -> Vec<(&'static str, String)> {
    let mut env = vec![("HOME", r"C:\nonexistent".to_owned())];
    env.extend(system_env());
    env
}

fn system_env() -> impl Iterator<Item = (&'static str, String)> {
    let names = SYSTEM.into_iter();
    names.filter_map(|name| Some((name, std::env::var(name).ok()?)))
}

/// A folder under its one true name, without the prefix that turns off the rules for paths.
pub(crate) fn true_name(folder: &Path) -> io::Result<PathBuf> {
    let name = folder.canonicalize()?;
    let plain = name.to_str().and_then(|name| name.strip_prefix(r"\\?\"));
    Ok(plain.map_or(name.clone(), PathBuf::from))
}

/// Lets a program be interrupted alone: events go to groups of processes.
pub(crate) fn prepare(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Asks a program to stop, as Ctrl-Break does: only that reaches a single group.
#[expect(unsafe_code, reason = "std has no console events")]
pub(crate) fn interrupt(child: &Child) -> io::Result<()> {
    // SAFETY: takes two numbers.
    let done = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, child.id()) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// There are no signals.
pub(crate) fn signal_of(_status: ExitStatus) -> Option<i32> {
    None
}

/// Refused before anything is played.
pub(crate) fn start_session() -> io::Result<()> {
    Err(io::Error::other("there are no sessions"))
}

/// Aborts; other signals were refused before anything is played.
pub(crate) fn kill_self(_name: SignalName) -> io::Result<()> {
    std::process::abort()
}

/// Ends this process with an access violation, without a dialog.
pub(crate) fn crash() -> io::Result<()> {
    std::process::exit(ACCESS_VIOLATION.cast_signed())
}

/// Stays when asked to end by Ctrl-Break, which is how one program asks another.
pub(crate) fn ignore_term() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    // The handler answers while there is a listener.
    Box::leak(Box::new(tokio::signal::windows::ctrl_break()?));
    Ok(())
}

/// The living processes, this one excepted, that have `needle` in their command line or program, as
/// "pid: command line".
pub(crate) fn processes_with(needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for pid in process_ids() {
        if pid == std::process::id() {
            continue;
        }
        let (program, command) = describe(pid);
        if program.contains(needle) || command.contains(needle) {
            found.push(format!("{pid}: {program}: {command}"));
        }
    }
    found
}

#[expect(unsafe_code, reason = "std cannot list processes")]
fn process_ids() -> Vec<u32> {
    let mut ids = Vec::new();
    // SAFETY: the entry has its size set and lives as long as the calls; the handle is closed once.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
        assert_ne!(snapshot, INVALID_HANDLE_VALUE, "processes can be listed");
        let mut entry: PROCESSENTRY32W = std::mem::zeroed();
        entry.dwSize = u32::try_from(size_of::<PROCESSENTRY32W>()).expect("a small structure");
        let mut more = Process32FirstW(snapshot, &raw mut entry);
        while more != 0 {
            ids.push(entry.th32ProcessID);
            more = Process32NextW(snapshot, &raw mut entry);
        }
        CloseHandle(snapshot);
    }
    ids
}

/// The program and the command line of a process; empty where we may not look.
#[expect(unsafe_code, reason = "std cannot look at other processes")]
fn describe(pid: u32) -> (String, String) {
    // SAFETY: the handle is one that was opened here, and is closed once.
    unsafe {
        let process = OpenProcess(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ, 0, pid);
        if process.is_null() {
            return (String::new(), String::new());
        }
        let described = (program(process), command_line(process));
        CloseHandle(process);
        described
    }
}

#[expect(unsafe_code, reason = "std cannot look at other processes")]
fn program(process: HANDLE) -> String {
    let mut buffer = vec![0_u16; 32 * 1024];
    let mut length = u32::try_from(buffer.len()).expect("a small buffer");
    // SAFETY: the buffer is as long as it is said to be.
    let done =
        unsafe { QueryFullProcessImageNameW(process, 0, buffer.as_mut_ptr(), &raw mut length) };
    if done == 0 {
        return String::new();
    }
    String::from_utf16_lossy(&buffer[..length as usize])
}

/// The command line as it lies in the process's own memory: the only place where Wine also has it.
fn command_line(process: HANDLE) -> String {
    let read = || {
        let block: PEB = read_from(process, environment_block(process)?)?;
        let started_with = read_from(process, block.ProcessParameters)?;
        let text = started_with.CommandLine;
        let mut units = vec![0_u16; usize::from(text.Length) / size_of::<u16>()];
        read_into(process, text.Buffer, &mut units)?;
        Some(String::from_utf16_lossy(&units))
    };
    read().unwrap_or_default()
}

/// Where a process keeps what it was started with, in its own memory.
#[expect(unsafe_code, reason = "std cannot look at other processes")]
fn environment_block(process: HANDLE) -> Option<*const PEB> {
    let size = u32::try_from(size_of::<PROCESS_BASIC_INFORMATION>()).expect("a small structure");
    // SAFETY: the structure is as large as it is said to be, and zeros are a value of it.
    unsafe {
        let mut about: PROCESS_BASIC_INFORMATION = std::mem::zeroed();
        let into = (&raw mut about).cast();
        let asked = ProcessBasicInformation;
        let status = NtQueryInformationProcess(process, asked, into, size, std::ptr::null_mut());
        (status == 0).then_some(about.PebBaseAddress.cast_const())
    }
}

/// One of Windows' own structures from the memory of another process.
#[expect(unsafe_code, reason = "the structures have no value to begin with")]
fn read_from<T: Copy>(process: HANDLE, at: *const T) -> Option<T> {
    // SAFETY: zeros are a value of all that Windows keeps there: numbers and pointers.
    let mut value = [unsafe { std::mem::zeroed() }];
    read_into(process, at, &mut value)?;
    Some(value[0])
}

#[expect(unsafe_code, reason = "std cannot look at other processes")]
fn read_into<T: Copy>(process: HANDLE, at: *const T, buffer: &mut [T]) -> Option<()> {
    let (into, size) = (buffer.as_mut_ptr().cast(), size_of_val(buffer));
    let mut got = 0;
    // SAFETY: the buffer is as large as it is said to be, and what is copied into it are numbers and
    // pointers; the address is one of the other process and not followed here.
    let done = unsafe { ReadProcessMemory(process, at.cast(), into, size, &raw mut got) };
    (done != 0 && got == size).then_some(())
}
