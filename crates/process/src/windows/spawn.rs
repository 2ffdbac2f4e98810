//! Starts a process: in its job from the first instant, with exactly the handles it is meant to have, without a window.
#![allow(
    unsafe_code,
    reason = "calls of the Windows API; each says why it is sound"
)]

use std::ffi::{OsString, c_void};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::sync::Once;

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::Debug::{
    GetErrorMode, SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX,
    SetErrorMode,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;
use windows_sys::Win32::System::Threading::{
    CREATE_NO_WINDOW, CREATE_UNICODE_ENVIRONMENT, CreateProcessW, DETACHED_PROCESS,
    DeleteProcThreadAttributeList, EXTENDED_STARTUPINFO_PRESENT, InitializeProcThreadAttributeList,
    PROC_THREAD_ATTRIBUTE_HANDLE_LIST, PROC_THREAD_ATTRIBUTE_JOB_LIST,
    PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, PROCESS_INFORMATION, STARTF_USESTDHANDLES, STARTUPINFOEXW,
    STARTUPINFOW, UpdateProcThreadAttribute,
};

use super::handle::{checked, make_inheritable, owned};
use super::job::Job;
use super::launch::WindowsLaunch;
use super::pseudo_console::PseudoConsole;

/// The console of a process.
pub(super) enum Console<'a> {
    /// One of its own that is never seen: most programs want one, and what it starts shares it.
    Hidden,
    /// None at all.
    None,
    /// The console of its parent.
    Ours,
    /// A pseudo-console.
    Pseudo(&'a PseudoConsole),
}

/// The streams of a process: stdin, stdout, stderr. Without an entry the console is meant.
pub(super) type StreamHandles<'a> = [Option<BorrowedHandle<'a>>; 3];

/// A process that was started.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) process: OwnedHandle,
    pub(super) pid: u32,
}

/// Starts a process. It is in the job, if there is one, before it executes anything, and inherits its streams and
/// nothing else.
pub(super) fn spawn(
    launch: &WindowsLaunch,
    streams: StreamHandles<'_>,
    console: &Console<'_>,
    job: Option<&Job>,
) -> io::Result<Spawned> {
    show_no_boxes();
    let file = terminated(&launch.file);
    let cwd = terminated(&launch.cwd);
    let mut line = launch.line.clone();
    let inherited: Vec<HANDLE> = streams
        .iter()
        .flatten()
        .map(AsRawHandle::as_raw_handle)
        .collect();
    for stream in streams.iter().flatten() {
        make_inheritable(*stream)?;
    }
    let jobs: Vec<HANDLE> = job
        .iter()
        .map(|job| job.as_handle().as_raw_handle())
        .collect();
    let mut attributes = Attributes::new(3)?;
    if !inherited.is_empty() {
        attributes.set_list(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, &inherited)?;
    }
    if !jobs.is_empty() {
        attributes.set_list(PROC_THREAD_ATTRIBUTE_JOB_LIST, &jobs)?;
    }
    if let Console::Pseudo(console) = console {
        attributes.set_console(console)?;
    }
    let startup = STARTUPINFOEXW {
        StartupInfo: startup(streams),
        lpAttributeList: attributes.as_mut_ptr(),
    };
    let mut made = PROCESS_INFORMATION::default();
    // SAFETY: all strings are closed by a zero and live through the call, as do the lists that the attributes point to;
    // the environment block is in Unicode as the flag says; the start-up structure is the extended one as the flag says.
    checked(unsafe {
        CreateProcessW(
            file.as_ptr(),
            line.as_mut_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            i32::from(!inherited.is_empty()),
            EXTENDED_STARTUPINFO_PRESENT | CREATE_UNICODE_ENVIRONMENT | flags(console),
            launch.env.as_ptr().cast::<c_void>(),
            cwd.as_ptr(),
            (&raw const startup).cast::<STARTUPINFOW>(),
            &raw mut made,
        )
    })?;
    drop(owned(made.hThread)?);
    Ok(Spawned {
        process: owned(made.hProcess)?,
        pid: made.dwProcessId,
    })
}

/// A crash or a missing library ends a process instead of opening a dialog. Processes inherit this
/// setting.
fn show_no_boxes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let none = SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX;
        // SAFETY: these calls take and return numbers only.
        unsafe { SetErrorMode(GetErrorMode() | none) };
    });
}

fn flags(console: &Console<'_>) -> u32 {
    match console {
        Console::Hidden => CREATE_NO_WINDOW,
        Console::None => DETACHED_PROCESS,
        Console::Ours | Console::Pseudo(_) => 0,
    }
}

/// Streams are always set, because inherited ones may not be connected to our console.
fn startup(streams: StreamHandles<'_>) -> STARTUPINFOW {
    let raw = |stream: Option<BorrowedHandle<'_>>| {
        stream.map_or(INVALID_HANDLE_VALUE, |stream| stream.as_raw_handle())
    };
    let [stdin, stdout, stderr] = streams.map(raw);
    STARTUPINFOW {
        cb: u32::try_from(size_of::<STARTUPINFOEXW>()).expect("structures are small"),
        dwFlags: STARTF_USESTDHANDLES,
        hStdInput: stdin,
        hStdOutput: stdout,
        hStdError: stderr,
        ..STARTUPINFOW::default()
    }
}

/// The folder of Windows' own programs.
pub(super) fn system_folder() -> Option<PathBuf> {
    let mut buffer = [0; 260];
    // SAFETY: the buffer has the length that is passed.
    let length = unsafe { GetSystemDirectoryW(buffer.as_mut_ptr(), 260) };
    let path = buffer
        .get(..length as usize)
        .filter(|path| !path.is_empty())?;
    Some(OsString::from_wide(path).into())
}

fn terminated(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain(Some(0)).collect()
}

/// Additional attributes for starting a process.
struct Attributes<'a> {
    /// As Windows lays it out; whole numbers, because it holds pointers.
    memory: Vec<usize>,
    /// The lists must outlive this, for only their places are noted.
    lists: std::marker::PhantomData<&'a [HANDLE]>,
}

impl<'a> Attributes<'a> {
    fn new(count: u32) -> io::Result<Self> {
        let mut size = 0;
        // SAFETY: without memory the call only says how much it wants, and fails.
        unsafe { InitializeProcThreadAttributeList(std::ptr::null_mut(), count, 0, &raw mut size) };
        let mut memory = vec![0; size.div_ceil(size_of::<usize>())];
        // SAFETY: the memory has the size that was asked for.
        checked(unsafe {
            InitializeProcThreadAttributeList(
                memory.as_mut_ptr().cast::<c_void>(),
                count,
                0,
                &raw mut size,
            )
        })?;
        Ok(Self {
            memory,
            lists: std::marker::PhantomData,
        })
    }

    fn as_mut_ptr(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast::<c_void>()
    }

    fn set_list(&mut self, attribute: u32, list: &'a [HANDLE]) -> io::Result<()> {
        self.set(attribute, list.as_ptr().cast::<c_void>(), size_of_val(list))
    }

    fn set_console(&mut self, console: &'a PseudoConsole) -> io::Result<()> {
        // This attribute is the value itself, not its place.
        let value = console.raw() as *const c_void;
        let size = size_of_val(&console.raw());
        self.set(PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, value, size)
    }

    fn set(&mut self, attribute: u32, value: *const c_void, size: usize) -> io::Result<()> {
        // SAFETY: the list was initialised for as many attributes as are set; the value outlives it.
        checked(unsafe {
            UpdateProcThreadAttribute(
                self.as_mut_ptr(),
                0,
                attribute as usize,
                value,
                size,
                std::ptr::null_mut(),
                std::ptr::null(),
            )
        })
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: the list was initialised and is not used any more.
        unsafe { DeleteProcThreadAttributeList(self.as_mut_ptr()) };
    }
}
