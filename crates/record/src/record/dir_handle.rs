//! An open directory that keeps its identity when it is moved. A process that was declared dead but
//! continues writes into the directory that was set aside, not over the results of its successor.

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::StoreError;
use crate::platform::Folder;

/// An open directory.
#[derive(Debug)]
pub struct DirHandle {
    folder: Folder,
    /// The path at which the directory was opened.
    path: Utf8PathBuf,
}

impl DirHandle {
    /// Opens a directory.
    pub fn open(path: &Utf8Path) -> std::result::Result<DirHandle, StoreError> {
        let folder = Folder::open(path.as_std_path()).map_err(|source| StoreError {
            path: path.to_owned(),
            source,
        })?;
        Ok(DirHandle {
            folder,
            path: path.to_owned(),
        })
    }

    /// Writes a JSON file atomically.
    pub fn write_json(
        &self,
        name: &str,
        value: &impl Serialize,
    ) -> std::result::Result<(), StoreError> {
        let path = self.path.join(name);
        let bytes = super::json(&path, value)?;
        let fresh = format!(".{name}-{}", uuid::Uuid::now_v7().simple());
        let written = self.folder.write(name, &fresh, &bytes);
        written.map_err(|source| StoreError { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_a_moved_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let (folder, aside) = (root.join("trial"), root.join("trial.attempt-1"));
        std::fs::create_dir(&folder).unwrap();
        let handle = DirHandle::open(&folder).unwrap();
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let written = handle.write_json("record.json", &"late");
        assert_eq!(folder.read_dir().unwrap().count(), 0);
        if cfg!(windows) && written.is_err() {
            // If the current path of the directory is unknown, nothing is written.
            return;
        }
        written.unwrap();
        let text = std::fs::read_to_string(aside.join("record.json")).unwrap();
        assert_eq!(text, "\"late\"\n");
        assert_eq!(aside.read_dir().unwrap().count(), 1, "no partial files");
    }
}
