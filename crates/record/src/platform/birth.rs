//! The start time of a process, which distinguishes it from a later one with the same pid.

/// The pid namespace of this machine and the start time of a process, as unique values; `None` if
/// there is no such process, or no permission to query it.
pub fn birth(pid: u32) -> Option<(String, u64)> {
    sys::birth(pid)
}

#[cfg(target_os = "linux")]
mod sys {
    pub(super) fn birth(pid: u32) -> Option<(String, u64)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name may contain anything, including parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let numbers = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let space = format!("{} {}", kernel.trim(), numbers.display());
        Some((space, fields.nth(18)?.parse().ok()?))
    }
}

#[cfg(target_os = "macos")]
mod sys {
    use std::mem::size_of;

    /// There are no pid namespaces, and times are absolute, so that a restart of the machine is
    /// distinguished, too.
    pub(super) fn birth(pid: u32) -> Option<(String, u64)> {
        let about = about(i32::try_from(pid).ok()?)?;
        let at = about.pbi_start_tvsec * 1_000_000 + about.pbi_start_tvusec;
        let is_alive = about.pbi_status != libc::SZOMB;
        is_alive.then(|| (space(), at))
    }

    /// The machine: its name may not be unique, but the start times of its processes are.
    fn space() -> String {
        let about = rustix::system::uname();
        format!("macos {}", about.nodename().to_string_lossy())
    }

    #[expect(unsafe_code, reason = "there is no safe API")]
    fn about(pid: i32) -> Option<libc::proc_bsdinfo> {
        let size = i32::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
        // SAFETY: all zeros is a valid value of this plain struct.
        let mut about: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
        let place = (&raw mut about).cast();
        // SAFETY: the buffer has the given size and is written only during the call.
        let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, place, size) };
        (written == size).then_some(about)
    }
}

#[cfg(windows)]
mod sys {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::{
        Foundation::{FILETIME, STILL_ACTIVE},
        System::SystemInformation::{ComputerNameDnsHostname, GetComputerNameExW},
        System::Threading::{
            GetExitCodeProcess, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
        },
    };

    /// There are no pid namespaces, and times are absolute, so that a restart of the machine is
    /// distinguished, too.
    #[expect(unsafe_code, reason = "there is no safe API")]
    pub(super) fn birth(pid: u32) -> Option<(String, u64)> {
        // SAFETY: the arguments are plain values.
        let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the handle is open and has no other owner.
        let process = unsafe { OwnedHandle::from_raw_handle(handle) };
        let none = || FILETIME {
            dwLowDateTime: 0,
            dwHighDateTime: 0,
        };
        let (mut began, mut ended, mut kernel, mut user) = (none(), none(), none(), none());
        let mut code = 0;
        let handle = process.as_raw_handle();
        // SAFETY: the handle is open, and all buffers have the right type and outlive the call.
        let asked = unsafe {
            GetExitCodeProcess(handle, &raw mut code) != 0
                && GetProcessTimes(
                    handle,
                    &raw mut began,
                    &raw mut ended,
                    &raw mut kernel,
                    &raw mut user,
                ) != 0
        };
        // An exited process exists while a handle to it is open.
        let is_alive = asked && code == STILL_ACTIVE.cast_unsigned();
        let at = u64::from(began.dwHighDateTime) << 32 | u64::from(began.dwLowDateTime);
        is_alive.then(|| (space(), at))
    }

    /// The machine: its name may not be unique, but the start times of its processes are.
    #[expect(unsafe_code, reason = "there is no safe API")]
    fn space() -> String {
        let mut name = [0_u16; 256];
        let mut length = 256;
        // SAFETY: the buffer has the given size, and the length is written only during the call.
        let asked = unsafe {
            GetComputerNameExW(ComputerNameDnsHostname, name.as_mut_ptr(), &raw mut length)
        };
        let known = if asked == 0 { 0 } else { length as usize };
        format!(
            "windows {}",
            String::from_utf16_lossy(&name[..known.min(256)])
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_live_processes_have_a_start_time() {
        let own = birth(std::process::id()).unwrap();
        assert_eq!(birth(std::process::id()), Some(own));
        assert_eq!(birth(u32::MAX - 1), None);
    }
}
