//! When a process began, which tells it from a later one with the same number.

/// The space of process numbers of this machine and when the process with this number began, in words and numbers that
/// fit nothing else; `None` when there is no such process, or none that we may ask about.
pub fn birth(pid: u32) -> Option<(String, u64)> {
    sys::birth(pid)
}

#[cfg(target_os = "linux")]
mod sys {
    pub(super) fn birth(pid: u32) -> Option<(String, u64)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name may hold anything, also parentheses.
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

    /// There are no spaces of process numbers, and times are of the calendar, so that a restart is told apart, too.
    pub(super) fn birth(pid: u32) -> Option<(String, u64)> {
        let about = about(i32::try_from(pid).ok()?)?;
        let at = about.pbi_start_tvsec * 1_000_000 + about.pbi_start_tvusec;
        let is_alive = about.pbi_status != libc::SZOMB;
        is_alive.then(|| (space(), at))
    }

    /// The machine itself: its name may be another's, but its processes began at other microseconds.
    fn space() -> String {
        let about = rustix::system::uname();
        format!("macos {}", about.nodename().to_string_lossy())
    }

    #[expect(unsafe_code, reason = "there is no safe call for it")]
    fn about(pid: i32) -> Option<libc::proc_bsdinfo> {
        let size = i32::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut about: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
        let place = (&raw mut about).cast();
        // SAFETY: the place is of the size that is said, and is written to only during the call.
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

    /// There are no spaces of process numbers, and times are of the calendar, so that a restart is told apart, too.
    #[expect(unsafe_code, reason = "there is no safe call for it")]
    pub(super) fn birth(pid: u32) -> Option<(String, u64)> {
        // SAFETY: it takes plain values.
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
        // SAFETY: the handle is open, and all places are of the right kind and live until the call ends.
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

    /// The machine itself: its name may be another's, but its processes began at other instants.
    #[expect(unsafe_code, reason = "there is no safe call for it")]
    fn space() -> String {
        let mut name = [0_u16; 256];
        let mut length = 256;
        // SAFETY: the place has the room that is said, and the length is written to during the call only.
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
    fn the_living_have_a_birth_and_nobody_has_none() {
        let own = birth(std::process::id()).unwrap();
        assert_eq!(birth(std::process::id()), Some(own));
        assert_eq!(birth(u32::MAX - 1), None);
    }
}
