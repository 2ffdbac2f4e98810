//! Files and directories: copying, locking, naming, and reading what an agent wrote without following links.

pub(crate) mod beneath;
pub(crate) mod dir;
pub(crate) mod glob;
mod lock;
mod name;
pub(crate) mod pointer;

pub(crate) use lock::{LOCK_FILE, is_locked, lock_dir, open_lock_file};
pub use name::is_safe_name;
pub(crate) use name::{folder_name, hex, is_name_char, new_id};
