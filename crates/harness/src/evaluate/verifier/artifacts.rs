//! The artifacts of a Harbor task: files that are collected from the agent's container, with a
//! manifest, and given to a separate verifier at the same paths.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::{beneath::UntrustedDir, dir, glob::Pattern},
    record,
};
use proctor_sandbox::ContainerEnv;
use serde::{Deserialize, Serialize};

use super::CollectedArtifact;

/// The directory of collected files, next to the record of the trial.
pub(crate) const FOLDER: &str = "collected";
/// The file that lists them.
const MANIFEST: &str = "manifest.json";
/// The directory whose files every task collects.
const ALWAYS: &str = "/logs/artifacts";

/// An entry of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    /// The absolute path in the agent's container.
    pub(super) source: Utf8PathBuf,
    /// The path of the copy, relative to the manifest.
    pub(super) destination: Utf8PathBuf,
    /// A file or a directory.
    #[serde(rename = "type")]
    pub(super) kind: ArtifactKind,
    /// Whether it was collected.
    pub(super) status: ArtifactStatus,
}

/// The kind of an artifact. One that was not collected is a file if its name has an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ArtifactKind {
    File,
    Directory,
}

/// The result of collecting an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ArtifactStatus {
    /// It was copied.
    Ok,
    /// It is a directory without files.
    Empty,
    /// It does not exist.
    Failed,
    /// An earlier artifact has this place.
    Skipped,
}

impl ManifestEntry {
    /// Whether there is a copy.
    fn is_kept(&self) -> bool {
        matches!(self.status, ArtifactStatus::Ok | ArtifactStatus::Empty)
    }
}

/// The manifest of artifacts that were collected earlier, such as before a run was judged again.
pub(super) fn earlier(folder: &Utf8Path) -> Option<Vec<ManifestEntry>> {
    let bytes = fs::read(folder.join(MANIFEST)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Collects artifacts from the agent's container into `folder`.
pub(super) async fn collect(
    artifacts: &[CollectedArtifact],
    exec_env: &ContainerEnv,
    workdir: &Utf8Path,
    folder: &Utf8Path,
) -> Result<Vec<ManifestEntry>, String> {
    let always = CollectedArtifact {
        source: ALWAYS.into(),
        destination: None,
        exclude: Vec::new(),
    };
    let is_always = |it: &CollectedArtifact| it.source.as_str().trim_end_matches('/') == ALWAYS;
    let implied = (!artifacts.iter().any(is_always)).then_some(&always);
    let mut manifest: Vec<ManifestEntry> = Vec::new();
    for artifact in implied.into_iter().chain(artifacts) {
        let source = inside(workdir, &artifact.source);
        let to = artifact.destination.as_ref().unwrap_or(&source);
        let mut entry = ManifestEntry {
            destination: below(to),
            kind: match source.extension() {
                Some(_) => ArtifactKind::File,
                None => ArtifactKind::Directory,
            },
            source,
            status: ArtifactStatus::Skipped,
        };
        let overlaps = |known: &ManifestEntry| {
            let (one, other) = (&known.destination, &entry.destination);
            one.starts_with(other) || other.starts_with(one)
        };
        if !manifest.iter().any(overlaps) {
            let fetched = fetch(&mut entry, &artifact.exclude, exec_env, folder).await;
            fetched.map_err(|error| format!("cannot collect {}: {error}", entry.source))?;
        }
        manifest.push(entry);
    }
    let written = record::write_json(&folder.join(MANIFEST), &manifest);
    written.map_err(|error| format!("cannot write the manifest of artifacts: {error}"))?;
    Ok(manifest)
}

/// Copies one artifact into `folder`, and notes what it is.
async fn fetch(
    entry: &mut ManifestEntry,
    exclude: &[String],
    exec_env: &ContainerEnv,
    folder: &Utf8Path,
) -> std::io::Result<()> {
    let stage = folder.join(".stage");
    fs::create_dir_all(&stage)?;
    let fetched = exec_env
        .container
        .fetch(entry.source.as_str(), stage.as_std_path());
    entry.status = ArtifactStatus::Failed;
    if fetched.await.map_err(std::io::Error::other)? {
        let copy = stage.join(entry.source.file_name().unwrap_or_default());
        leave_out(&copy, exclude)?;
        entry.status = ArtifactStatus::Ok;
        entry.kind = ArtifactKind::File;
        if copy.symlink_metadata()?.is_dir() {
            entry.kind = ArtifactKind::Directory;
            if UntrustedDir::new(&copy).names(".")?.is_empty() {
                entry.status = ArtifactStatus::Empty;
            }
        }
        place(&copy, &folder.join(&entry.destination))?;
    }
    dir::remove(&stage)
}

/// The directories of a separate verifier that artifacts replace.
pub(super) fn replaced(manifest: &[ManifestEntry]) -> Vec<&str> {
    let is_folder =
        |entry: &&ManifestEntry| entry.is_kept() && entry.kind == ArtifactKind::Directory;
    let folders = manifest.iter().filter(is_folder);
    folders.map(|entry| entry.source.as_str()).collect()
}

/// Copies collected files to `stage`, at their paths in the agent's container.
pub(super) fn lay_out(
    manifest: &[ManifestEntry],
    folder: &Utf8Path,
    stage: &Utf8Path,
) -> std::io::Result<()> {
    for entry in manifest.iter().filter(|entry| entry.is_kept()) {
        let from = folder.join(&entry.destination);
        let to = stage.join(below(&entry.source));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if from.symlink_metadata()?.is_dir() {
            dir::copy_where(from.as_std_path(), to.as_std_path(), &|_| true)?;
        } else if from.symlink_metadata()?.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    // A program of the agent must not run as another user of the verifier.
    dir::remove_special_modes(stage.as_std_path())
}

/// An absolute path in the container.
fn inside(workdir: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    if path.as_str().starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", workdir.as_str().trim_end_matches('/')).into()
    }
}

/// A path without its root and without steps upwards, to be joined to a directory.
fn below(path: &Utf8Path) -> Utf8PathBuf {
    let parts = path.as_str().split('/');
    let parts = parts.filter(|part| !matches!(*part, "" | "." | ".."));
    parts.collect()
}

/// Moves a collected file or directory to its place.
fn place(from: &Utf8Path, to: &Utf8Path) -> std::io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    dir::rename(from, to)
}

/// Removes the files of a directory that match a pattern, by name or by path, as `tar --exclude`.
fn leave_out(folder: &Utf8Path, patterns: &[String]) -> std::io::Result<()> {
    if patterns.is_empty() || !folder.symlink_metadata()?.is_dir() {
        return Ok(());
    }
    let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::new(text)).collect();
    remove_matches(folder, Utf8Path::new("."), &patterns)
}

fn remove_matches(root: &Utf8Path, at: &Utf8Path, patterns: &[Pattern]) -> std::io::Result<()> {
    let folder = UntrustedDir::new(root);
    for name in folder.names(at)? {
        let Some(name) = name.to_str() else { continue };
        let path = match at.as_str() {
            "." => Utf8PathBuf::from(name),
            at => Utf8PathBuf::from(format!("{at}/{name}")),
        };
        let is_out = |it: &Pattern| it.matches(name) || it.matches(path.as_str());
        if patterns.iter().any(is_out) {
            folder.remove(path.as_std_path())?;
        } else if folder.metadata(&path).is_ok_and(|about| about.is_dir()) {
            remove_matches(root, &path, patterns)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_collected_files() {
        for (path, expect) in [
            ("/app/out.txt", "app/out.txt"),
            ("../../etc/passwd", "etc/passwd"),
            ("a/./b//c/", "a/b/c"),
            ("/", ""),
        ] {
            assert_eq!(below(path.into()), expect);
        }
        assert_eq!(inside("/app".into(), "out".into()), "/app/out");
        assert_eq!(inside("/".into(), "out".into()), "/out");
        assert_eq!(inside("/app".into(), "/out".into()), "/out");
    }

    #[test]
    fn excluded_files_are_left_out_by_name_and_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let names = [
            "a.log",
            "keep",
            "deep/b.log",
            "deep/keep",
            "cache/x",
            "deep/cache",
        ];
        for name in names {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        leave_out(root, &["*.log".to_owned(), "deep/cache".to_owned()]).unwrap();
        let is_there = |name: &&str| root.join(name).exists();
        let left: Vec<&str> = names.into_iter().filter(is_there).collect();
        assert_eq!(left, ["keep", "deep/keep", "cache/x"]);
    }
}
