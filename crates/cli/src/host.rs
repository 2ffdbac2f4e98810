//! Looks at the machine and the environment, once, at the start.

use camino::Utf8PathBuf;
use proctor_harness::host::Host;
use proctor_process::Supervisor;

/// The machine and the user.
pub fn host() -> std::io::Result<Host> {
    let env: std::collections::BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let path = |name: &str| {
        env.get(name)
            .filter(|value| value.starts_with('/'))
            .map(Utf8PathBuf::from)
    };
    let home = path("HOME");
    let cache = path("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
    let cwd = Utf8PathBuf::try_from(std::env::current_dir()?)
        .map_err(camino::FromPathBufError::into_io_error)?;
    Ok(Host {
        temp: path("TMPDIR").unwrap_or_else(|| "/tmp".into()),
        cache: cache.map(|cache| cache.join("proctor")),
        is_root: ids().0 == 0,
        ids: ids(),
        name: machine(),
        binary: Utf8PathBuf::try_from(std::env::current_exe()?)
            .map_err(camino::FromPathBufError::into_io_error)?,
        supervisor: Supervisor::this_executable(),
        home,
        cwd,
        env,
    })
}

/// Our user and group.
fn ids() -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or((u32::MAX, u32::MAX), |process| {
        (process.uid(), process.gid())
    })
}

/// The name of the machine.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}
