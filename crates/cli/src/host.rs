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
        is_root: is_root(),
        supervisor: Supervisor::this_executable(),
        home,
        cwd,
        env,
    })
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
