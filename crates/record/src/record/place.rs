//! A folder that files are written to wherever it is moved: who was taken for dead and comes
//! back writes to what was set aside, and not over the work of another.

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::StoreError;
use crate::platform::Folder;

/// A folder, held open.
#[derive(Debug)]
pub struct Place {
    folder: Folder,
    /// Where it was.
    path: Utf8PathBuf,
}

impl Place {
    /// Hold a folder.
    pub fn open(path: &Utf8Path) -> std::result::Result<Place, StoreError> {
        let folder = Folder::open(path.as_std_path()).map_err(|source| StoreError {
            path: path.to_owned(),
            source,
        })?;
        Ok(Place {
            folder,
            path: path.to_owned(),
        })
    }

    /// Write a JSON file whole or not at all.
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
    fn a_file_goes_to_the_folder_that_was_opened_and_not_to_the_one_that_took_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let (folder, aside) = (root.join("trial"), root.join("trial.attempt-1"));
        std::fs::create_dir(&folder).unwrap();
        let place = Place::open(&folder).unwrap();
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let written = place.write_json("record.json", &"late");
        assert_eq!(folder.read_dir().unwrap().count(), 0);
        if cfg!(windows) && written.is_err() {
            // If the current path of the directory is unknown, nothing is written.
            return;
        }
        written.unwrap();
        let text = std::fs::read_to_string(aside.join("record.json")).unwrap();
        assert_eq!(text, "\"late\"\n");
        assert_eq!(aside.read_dir().unwrap().count(), 1, "nothing half-written");
    }
}
