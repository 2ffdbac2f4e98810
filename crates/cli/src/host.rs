//! Reads the machine and the environment, once, at the start.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use proctor_process::Supervisor;
use proctor_record::secrets::Secrets;
use proctor_sandbox::host::Host;

use crate::platform;

/// The machine and the user.
pub fn host() -> std::io::Result<Host> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .map(|(name, value)| (platform::variable_name(name), value))
        .collect();
    // On a system that does not allow this, agents in the local sandbox can read it: see docs/sandbox.md.
    let _ = proctor_process::hide_from_others(stays_readable);
    let folder = |names: &[&str]| {
        let values = names.iter().filter_map(|name| env.get(*name));
        values
            .map(Utf8PathBuf::from)
            .find(|path| path.is_absolute())
    };
    let home = folder(platform::HOME);
    let cache = folder(platform::CACHE).or_else(|| home.as_deref().map(platform::usual_cache));
    let cwd = Utf8PathBuf::try_from(std::env::current_dir()?)
        .map_err(camino::FromPathBufError::into_io_error)?;
    let ids = platform::ids();
    Ok(Host {
        temp: folder(platform::TEMP).unwrap_or_else(|| platform::usual_temp(home.as_deref())),
        cache: cache.map(|cache| cache.join("proctor")),
        is_root: ids.0 == 0,
        ids,
        name: platform::machine(&env),
        binary: Utf8PathBuf::try_from(std::env::current_exe()?)
            .map_err(camino::FromPathBufError::into_io_error)?,
        supervisor: Supervisor::this_executable(),
        home,
        cwd,
        secrets: Secrets::of(&env, &[]),
        env,
    })
}

/// Variables that libraries read while Proctor runs. Everything else is in [`Host`], and is removed from the environment
/// of this process: agents in the local sandbox run as the same user, who can read it.
const READ_LATER: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "LANG",
    "TZ",
    "TZDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "RUST_BACKTRACE",
];

fn stays_readable(name: &[u8]) -> bool {
    let mut stays = READ_LATER.iter();
    stays.any(|known| known.as_bytes() == name) || name.starts_with(b"LC_")
}
