//! Differences between Linux, macOS and Windows, each with its own name. The rest of the crate
//! calls the same function on all platforms ([why](../../../../docs/dev/design/platforms.md)).

#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

/// Whether a folder can be removed while a file in it is open.
pub const REMOVES_WHAT_IS_OPEN: bool = cfg!(unix);

mod birth;
pub mod engine;
mod file_watch;
mod folder_watch;
mod memory;
mod retry;
mod search;
mod shell;
mod text;

pub use birth::birth;
pub use file_watch::{FileWatch, FileWrites};
pub use folder_watch::FolderWatch;
pub use memory::oom_kills;
pub use retry::{remove, rename};
pub use search::{environment_name, find_program, is_executable, is_same_name, variable};
pub use shell::{Shell, find_sh, look_in_path_only};
pub use sys::{
    Folder, HAS_MODES, OWNER_IN_ARCHIVES, SHARES_FILES_WITH_ENGINES, bytes_of, changed, disk_bytes,
    file_id, git_config, git_settings, give, is_root, link, make_private_folder, mode,
    names_beneath, new_private_file, open_beneath, path_of, set_mode, several_names, sync_folder,
    tells_case, touch, usual_engines,
};
pub use text::{
    HOME_FOLDERS, OF_WINDOWS, canonical, is_rooted, null_device, own_environment, path_of_file_url,
    slashed, slashed_below, text_of_file,
};
