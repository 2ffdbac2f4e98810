//! The script of this machine that an agent runs. Containers get a copy of it at a fixed place, with
//! the files beside it, read-only and without secrets.

use std::{io, path::Path};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use super::{Contestant, Trial};
use crate::{
    area::Area,
    fs::dir,
    platform,
    sandbox::{Access, Room, View},
    secrets::Secrets,
};

/// Where the script's folder is seen in containers.
const INSIDE: &str = "/proctor/agent";
/// A folder with more than this is not a folder of scripts: only the script itself is brought.
const MOST_BYTES: u64 = 64 << 20;
const MOST_FILES: usize = 2000;

/// The files that go with a script, as paths below its folder.
#[derive(Debug, PartialEq, Eq)]
enum Beside {
    /// All files of the folder.
    Folder(Vec<Utf8PathBuf>),
    /// The files that the script names: the folder also holds what agents must not see.
    Named(Vec<Utf8PathBuf>),
    /// None: the folder is too large.
    TooMany,
}

impl Trial<'_> {
    /// The folder with the copy of a contestant's script, as its container sees it.
    pub(super) fn script_view(
        &self,
        area: &Area,
        contestant: Contestant,
    ) -> io::Result<Option<View>> {
        if self.plan_of(contestant).agent.script().is_none() {
            return Ok(None);
        }
        let host = copies(area, contestant);
        fs::create_dir_all(&host)?;
        Ok(Some(View {
            host,
            inside: match contestant {
                Contestant::Primary => INSIDE.into(),
                Contestant::Fallback => format!("{INSIDE}-1").into(),
            },
            access: Access::Read,
        }))
    }

    /// Bring the script to its place, and say where the agent finds it.
    pub(super) fn bring_script(
        &mut self,
        area: &Area,
        secrets: &Secrets,
        key: &str,
    ) -> io::Result<Option<Utf8PathBuf>> {
        let Some(script) = self.current().agent.script() else {
            return Ok(None);
        };
        if matches!(self.room, Room::Local) {
            return Ok(Some(script.to_owned()));
        }
        let folder = script.parent().unwrap_or(Utf8Path::new("."));
        let to = copies(area, self.contestant);
        empty(&to)?;
        let name = script.file_name().unwrap_or_default();
        let mut files = vec![Utf8PathBuf::from(name)];
        match beside(script, folder, &self.hidden())? {
            Beside::Folder(all) => files = all,
            Beside::Named(named) => files.extend(named),
            Beside::TooMany => self.note(format!(
                "only {script} was brought into the container: its folder has more than {MOST_FILES} files or {} MiB",
                MOST_BYTES >> 20
            )),
        }
        for file in &files {
            copy(&folder.join(file), &to.join(file), secrets, key)?;
        }
        dir::open_to_all(to.as_std_path())?;
        Ok(Some(self.room.inside(&to.join(name))))
    }

    /// Folders and files that an agent must not see: how it is judged, and other results.
    fn hidden(&self) -> Vec<Utf8PathBuf> {
        let task = &self.plan.task;
        let repo = task.files.folder().map(Utf8Path::to_owned);
        let own = [
            task.config_file().to_owned(),
            task.folder.clone(),
            self.context.folder.to_owned(),
        ];
        own.into_iter()
            .chain(repo)
            .map(|path| path.canonicalize_utf8().unwrap_or(path))
            .collect()
    }
}

/// The folder of the copies of one contestant.
fn copies(area: &Area, contestant: Contestant) -> Utf8PathBuf {
    area.path.join(format!("agent-{}", contestant.index()))
}

/// The files that go with a script.
fn beside(script: &Utf8Path, folder: &Utf8Path, hidden: &[Utf8PathBuf]) -> io::Result<Beside> {
    let real = folder.canonicalize_utf8()?;
    if hidden.iter().any(|path| path.starts_with(&real)) {
        return named(script, folder).map(Beside::Named);
    }
    let mut found = Vec::new();
    let mut bytes = 0;
    let fits = collect(folder, Utf8Path::new(""), &mut |file, length| {
        found.push(file);
        bytes += length;
        found.len() <= MOST_FILES && bytes <= MOST_BYTES
    })?;
    Ok(if fits {
        Beside::Folder(found)
    } else {
        Beside::TooMany
    })
}

/// Visit the files below a folder until `visit` has enough; says whether it got all.
fn collect(
    root: &Utf8Path,
    below: &Utf8Path,
    visit: &mut dyn FnMut(Utf8PathBuf, u64) -> bool,
) -> io::Result<bool> {
    for entry in root.join(below).read_dir_utf8()? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if is_private(entry.file_name()) {
            continue;
        }
        let is_link = entry.file_type()?.is_symlink();
        // A link may lead nowhere, and one to a folder may lead back here.
        let Ok(about) = entry.path().metadata() else {
            continue;
        };
        let goes_on = if about.is_dir() && !is_link {
            collect(root, &path, visit)?
        } else if about.is_file() {
            visit(path, about.len())
        } else {
            true
        };
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The files beside a script whose names are in its text, and in theirs.
fn named(script: &Utf8Path, folder: &Utf8Path) -> io::Result<Vec<Utf8PathBuf>> {
    let mut others: Vec<String> = folder
        .read_dir_utf8()?
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_file() && !is_private(entry.file_name()))
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| Some(name.as_str()) != script.file_name())
        .collect();
    let mut found = Vec::new();
    let mut texts = vec![script.to_owned()];
    while let Some(path) = texts.pop() {
        if path.metadata()?.len() > MOST_BYTES {
            continue;
        }
        let text = fs::read(&path)?;
        let is_named = |name: &mut String| memchr::memmem::find(&text, name.as_bytes()).is_some();
        for name in others.extract_if(.., is_named) {
            texts.push(folder.join(&name));
            found.push(Utf8PathBuf::from(name));
        }
    }
    Ok(found)
}

/// Files of secrets, and repositories with their history.
fn is_private(name: &str) -> bool {
    name == ".git" || name == ".proctor" || name == ".env" || name.starts_with(".env.")
}

/// Copy a file with its mode, secrets replaced.
fn copy(from: &Utf8Path, to: &Utf8Path, secrets: &Secrets, key: &str) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    let bytes = secrets.replace_bytes(fs::read(from)?, key);
    fs::write(to, bytes)?;
    let mode = platform::mode(&fs::metadata(from)?);
    platform::set_mode(to.as_std_path(), mode & 0o777 | 0o400)
}

/// Remove what a folder holds; the folder stays, because a container sees it.
fn empty(folder: &Utf8Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: &Path = &entry?.path();
        if path.is_dir() {
            dir::remove(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn beside_in(dir: &tempfile::TempDir, hidden: &[&str]) -> Beside {
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let root = root.canonicalize_utf8().unwrap();
        let hidden: Vec<_> = hidden.iter().map(|path| root.join(path)).collect();
        let mut found = beside(&root.join("run.sh"), &root, &hidden).unwrap();
        if let Beside::Folder(files) | Beside::Named(files) = &mut found {
            files.sort();
        }
        found
    }

    #[test]
    fn a_folder_of_scripts_is_brought_whole_without_secrets_and_history() {
        let dir = folder(&[
            ("run.sh", "python3 lib/help.py"),
            ("lib/help.py", ""),
            ("unrelated", ""),
            (".env", "KEY=1"),
            (".env.secrets", "KEY=1"),
            (".git/config", ""),
        ]);
        let expect = ["lib/help.py", "run.sh", "unrelated"].map(Into::into);
        assert_eq!(beside_in(&dir, &[]), Beside::Folder(expect.into()));
    }

    #[test]
    fn beside_a_task_only_files_that_the_script_names_are_brought() {
        let dir = folder(&[
            ("run.sh", ". ./common.sh"),
            ("common.sh", "python3 helper.py"),
            ("helper.py", ""),
            ("solution.patch", "+secret"),
            ("suite.yaml", "agents: []"),
            ("tasks/t/tests/test.sh", ""),
        ]);
        let expect = ["common.sh", "helper.py"].map(Into::into);
        for hidden in ["suite.yaml", "tasks/t", "."] {
            let found = beside_in(&dir, &[hidden]);
            assert_eq!(found, Beside::Named(expect.clone().into()), "{hidden}");
        }
    }

    #[test]
    fn of_a_large_folder_only_the_script_is_brought() {
        let dir = folder(&[("run.sh", "")]);
        for number in 0..=MOST_FILES {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(beside_in(&dir, &[]), Beside::TooMany);
    }
}
