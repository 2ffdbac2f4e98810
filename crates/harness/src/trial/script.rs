//! The script that an agent runs. Containers get a copy at a fixed path, with the files next to it,
//! read-only and without secrets.

use std::{io, path::Path};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{fs::dir, platform, secrets::Secrets};
use proctor_sandbox::{Access, ExecEnv, Mount, trial_dir::TrialDir};

use super::{Contestant, Site, Trial};

/// The path of the script's directory in containers.
const INSIDE: &str = "/proctor/agent";
/// The maximum size of a script directory: beyond it only the script itself is copied.
const MOST_BYTES: u64 = 64 << 20;
const MOST_FILES: usize = 2000;

/// The files that are copied with a script, relative to its directory.
#[derive(Debug, PartialEq, Eq)]
enum Beside {
    /// All files of the folder.
    Folder(Vec<Utf8PathBuf>),
    /// The files that the script names: the directory also contains files that agents must not see.
    Named(Vec<Utf8PathBuf>),
    /// None: the directory is too large.
    TooMany,
}

impl Trial<'_> {
    /// The mount of the copied script directory of a contestant.
    pub(super) fn script_mount(
        &self,
        trial_dir: &TrialDir,
        contestant: Contestant,
    ) -> io::Result<Option<Mount>> {
        if self.plan_of(contestant).agent.script().is_none() {
            return Ok(None);
        }
        let host = copies(trial_dir, contestant);
        fs::create_dir_all(&host)?;
        Ok(Some(Mount {
            host,
            inside: match contestant {
                Contestant::Primary => INSIDE.into(),
                Contestant::Fallback => format!("{INSIDE}-1").into(),
            },
            access: Access::Read,
        }))
    }

    /// Copies the script. Returns its path for the agent.
    pub(super) fn bring_script(
        &mut self,
        contestant: Contestant,
        site: &Site,
        secrets: &Secrets,
        key: &str,
    ) -> io::Result<Option<Utf8PathBuf>> {
        let Some(script) = self.plan_of(contestant).agent.script() else {
            return Ok(None);
        };
        if matches!(site.exec_env, ExecEnv::Local) {
            return Ok(Some(script.to_owned()));
        }
        let folder = script.parent().unwrap_or(Utf8Path::new("."));
        let to = copies(&site.trial_dir, contestant);
        empty(&to)?;
        let name = script.file_name().unwrap_or_default();
        let mut files = vec![Utf8PathBuf::from(name)];
        match beside(script, folder, &self.hidden())? {
            Beside::Folder(all) => files = all,
            Beside::Named(named) => files.extend(named),
            Beside::TooMany => self.note(format!(
                "only {script} was copied into the container: its folder has more than {MOST_FILES} files or {} MiB",
                MOST_BYTES >> 20
            )),
        }
        for file in &files {
            copy(&folder.join(file), &to.join(file), secrets, key)?;
        }
        dir::open_to_all(to.as_std_path())?;
        Ok(Some(site.exec_env.inside(&to.join(name))))
    }

    /// Files and directories that an agent must not see: how it is judged, and other results.
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

/// The directory with the copies of one contestant.
fn copies(trial_dir: &TrialDir, contestant: Contestant) -> Utf8PathBuf {
    trial_dir.path.join(format!("agent-{}", contestant.index()))
}

/// The files that are copied with a script.
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

/// Visits the files below a directory until `visit` has enough. Returns whether all were visited.
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
        // A link may be broken, and a link to a directory may form a loop.
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

/// The files next to a script whose names occur in its text, and recursively in theirs.
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

/// Whether a file holds secrets, or is a repository with its history.
fn is_private(name: &str) -> bool {
    name == ".git" || name == ".proctor" || name == ".env" || name.starts_with(".env.")
}

/// Copies a file with its mode, with secrets replaced.
fn copy(from: &Utf8Path, to: &Utf8Path, secrets: &Secrets, key: &str) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    let bytes = secrets.replace_bytes(fs::read(from)?, key);
    fs::write(to, bytes)?;
    let mode = platform::mode(&fs::metadata(from)?);
    platform::set_mode(to.as_std_path(), mode & 0o777 | 0o400)
}

/// Empties a directory that is mounted in a container.
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
    fn script_folder_is_copied_without_secrets_and_history() {
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
    fn only_named_files_are_copied_from_a_task_folder() {
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
    fn only_the_script_is_copied_from_a_large_folder() {
        let dir = folder(&[("run.sh", "")]);
        for number in 0..=MOST_FILES {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(beside_in(&dir, &[]), Beside::TooMany);
    }
}
