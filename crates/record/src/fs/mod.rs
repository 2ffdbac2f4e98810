//! Files and directories: copying, locking, naming, and reading files of an agent without following
//! links.

pub mod beneath;
pub mod dir;
pub mod expand;
pub mod glob;
mod lock;
mod name;
pub mod named;
pub mod pointer;

pub use lock::{LOCK_FILE, is_locked, lock_dir, open_lock_file};
pub use name::is_safe_name;
pub use name::{folder_name, hex, is_name_char, new_id};
