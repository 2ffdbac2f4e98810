//! A clean copy of an agent's work, and commands in it, in a fresh environment of the trial's kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::Background;
use proctor_record::{
    fs::{beneath::UntrustedDir, dir},
    platform::{self, FileWatch, FileWrites, FolderWatch, Shell},
};
use proctor_sandbox::{
    Access, ExecEnv, Mount,
    docker::ContainerNetwork,
    shell::{self, ShellCommand, ShellResult},
};

use super::{
    EvidenceDir, Judging, above,
    case_files::{CASE_DIR, CaseFiles},
    control::End,
    fill::{self, Filled},
    protect::{self, Circumstances, Protect},
    report_file::{REPORT, ReportFile, is_forged, with_report},
    seal::{Rules, Seals},
    tests::Edit,
};
use crate::workspace::WorkspaceError;

/// The value of secrets in containers.
const NO_SECRET: &str = "no-secret";

/// The name of the report in the list of changed files.
const THE_REPORT: &str = "the report";

/// The placeholder of the copy's path in commands of known runners.
const COPY: &str = "$PROCTOR_COPY";

/// How to make a clean copy, and the input of its commands.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Additional environment variables.
    pub(super) env: BTreeMap<String, String>,
    /// The files of the test case's folder that commands can read.
    pub(super) case_files: Option<CaseFiles>,
    /// The working directory of commands, relative to the copy.
    pub(super) working_dir: Utf8PathBuf,
    /// The report that the command writes below the copy; without one it is a file outside of the copy.
    pub(super) report: Option<Utf8PathBuf>,
    /// The preparation commands.
    pub(super) before: Vec<Before>,
    /// The hidden tests, copied over the work.
    pub(super) hidden: Hidden,
    /// The Rust files of which only the `#[cfg(test)]` items are hidden tests.
    pub(super) inline_tests: Vec<String>,
    /// The rules for the owners of files.
    pub(super) protect: Protect,
    /// Facts about files that follow from the command.
    pub(super) facts: Circumstances,
    /// The network of the commands.
    pub(super) network: ContainerNetwork,
    /// The image to judge in, instead of the trial's.
    pub(super) image: Option<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            env: BTreeMap::new(),
            case_files: None,
            working_dir: Utf8PathBuf::new(),
            report: None,
            before: Vec::new(),
            hidden: Hidden::None,
            inline_tests: Vec::new(),
            protect: Protect::default(),
            facts: Circumstances::default(),
            network: ContainerNetwork::None,
            image: None,
        }
    }
}

impl Setup {
    /// The same setup for a command, with the files that it names.
    pub(super) fn of_command(mut self, argv: &[String]) -> Setup {
        let working_dir = self.working_dir.as_str().trim_end_matches('/').to_owned();
        let (named, programs) = protect::named_files(argv, &working_dir);
        self.facts = Circumstances {
            named,
            programs,
            scripts: protect::scripts(argv, &working_dir),
            working_dir,
            ..Circumstances::default()
        };
        self
    }

    /// Files that the command or these recipes of the base run and whose owner (task or agent) is not defined.
    pub(super) fn unanswered(&self, recipes: &[(String, String)]) -> BTreeSet<String> {
        let is_hidden = |path: &str| match &self.hidden {
            Hidden::None => false,
            Hidden::Revision(_) => true,
            Hidden::Folder(folder) => folder.join(path).exists(),
            Hidden::Patch(patch) => patched_files(patch).any(|it| it == path),
        };
        let is_of_case = |path: &str| {
            let name = path.rsplit('/').next();
            self.case_files
                .as_ref()
                .is_some_and(|files| files.names().any(|it| Some(it) == name))
        };
        let of_recipes = recipes
            .iter()
            .flat_map(|(path, text)| protect::scripts_of_recipes(path, text, &self.facts));
        let scripts = self.facts.scripts.iter().cloned().chain(of_recipes);
        scripts
            .filter(|it| !self.protect.answers(it) && !is_hidden(it) && !is_of_case(it))
            .collect()
    }
}

/// Tests that the agent could not see.
#[derive(Clone, Debug, Default)]
pub(super) enum Hidden {
    /// No hidden tests.
    #[default]
    None,
    /// A revision of the repo.
    Revision(String),
    /// A folder.
    Folder(Utf8PathBuf),
    /// The text of a patch of the base.
    Patch(Arc<str>),
}

/// A preparation in the clean copy, before the judging command.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// The shell command.
    pub(super) line: String,
    /// How long it may take.
    pub(super) timeout: Option<Duration>,
    /// The meaning of its failure.
    pub(super) failure: Failure,
}

/// The meaning of a failed preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The failure says nothing about the agent: there is no verdict.
    Inconclusive,
    /// The work cannot be built.
    IsTheAgents,
}

/// A preparation that failed because of the agent's work.
pub(super) struct Unbuilt {
    /// How the command ended.
    pub(super) end: End,
    /// A message that describes how it ended.
    pub(super) message: String,
}

/// A clean copy, ready for commands.
pub(super) struct CleanCopy<'a> {
    judging: &'a Judging<'a>,
    setup: &'a Setup,
    exec_env: ExecEnv,
    evidence: &'a EvidenceDir,
    /// The directory of the copy, on this machine.
    pub(super) files: UntrustedDir,
    home: Utf8PathBuf,
    report: Utf8PathBuf,
    case: Utf8PathBuf,
    /// The directory of output files.
    pub(super) logs: Utf8PathBuf,
    /// The owners of its files.
    pub(super) filled: Filled,
    seals: Seals,
    /// The watch for moves of folders with sealed files.
    moves: Option<FolderWatch>,
    /// The watch for writes to the report.
    writes: Option<FileWatch>,
    /// Whether a command took away the place of the report.
    is_blocked: bool,
    tree: String,
}

impl<'a> CleanCopy<'a> {
    /// Makes a clean copy of `tree`. `name` is unique among the copies of an evaluator.
    pub(super) async fn open(
        setup: &'a Setup,
        judging: &'a Judging<'a>,
        evidence: &'a EvidenceDir,
        which: (&str, &str),
    ) -> Result<CleanCopy<'a>, String> {
        CleanCopy::open_edited(setup, judging, evidence, which, &[]).await
    }

    /// Makes a clean copy with edits of the task's own files, before any command runs.
    pub(super) async fn open_edited(
        setup: &'a Setup,
        judging: &'a Judging<'a>,
        evidence: &'a EvidenceDir,
        (name, tree): (&str, &str),
        edits: &[Edit],
    ) -> Result<CleanCopy<'a>, String> {
        let failed = |error: WorkspaceError| format!("cannot make a clean copy: {error}");
        let all = new_folder(judging.scratch, &format!("judge-{}{name}", evidence.number));
        let all = all.map_err(|error| failed(error.into()))?;
        let [copy, home, report, case] = ["copy", "home", "report", "case"].map(|it| all.join(it));
        for folder in [&copy, &home.join("tmp"), &report, &case] {
            fs_err::create_dir_all(folder).map_err(|error| failed(error.into()))?;
        }
        if let Some(files) = &setup.case_files {
            let copied = files.copy_to(&case, judging.reference);
            copied.map_err(|error| failed(error.into()))?;
        }
        let mut filled = Filled::default();
        let filling = Box::pin(async {
            filled = fill::fill(setup, judging, tree, &copy)
                .await
                .map_err(failed)?;
            fill::edit(&UntrustedDir::new(copy.clone()), edits)
                .map_err(|error| failed(error.into()))
        });
        // The programs of a task's image may expect the files in their place.
        let place = judging
            .environment
            .map_or("/workspace".into(), |_| judging.workdir);
        let mounts = mounts(setup, place, [&copy, &home, &report, &case]);
        let image = setup.image.as_deref();
        let network = setup.network.clone();
        let exec_env = Box::pin(judging.fresh_exec_env(mounts, image, network, filling)).await?;
        let mut copy = CleanCopy {
            judging,
            setup,
            exec_env,
            evidence,
            files: UntrustedDir::new(copy),
            home,
            report,
            case,
            logs: judging.artifacts.join(format!("{}{name}", evidence.folder)),
            filled,
            seals: Seals::default(),
            moves: None,
            writes: None,
            is_blocked: false,
            tree: tree.to_owned(),
        };
        let seals = copy.sealed(|rules| Seals::take(&copy.files, rules));
        copy.seals = seals.map_err(|error| failed(error.into()))?;
        if copy.exec_env.shares_clock() {
            let folders = copy.sealed_folders();
            let folders = folders.iter().map(Utf8PathBuf::as_path);
            copy.moves = FolderWatch::start(folders);
        }
        Ok(copy)
    }

    /// The folders of sealed files and their parents in the copy.
    fn sealed_folders(&self) -> Vec<Utf8PathBuf> {
        let mut found = BTreeSet::from([Utf8Path::new("")]);
        for file in self.seals.names() {
            found.extend(Utf8Path::new(file).ancestors().skip(1));
        }
        let root = self.files.path_for_child();
        found.iter().map(|folder| root.join(folder)).collect()
    }

    /// Folders of sealed files that were moved, even if they were moved back: the files themselves
    /// do not show it.
    fn moved_folders(&self) -> Vec<String> {
        let moved = self.moves.as_ref().map(FolderWatch::moved);
        let folders = self.sealed_folders();
        let moved = moved.unwrap_or_default().into_iter();
        let moved = moved.filter_map(|number| folders.get(number));
        let name = |folder: &Utf8PathBuf| {
            let root = self.files.path_for_child();
            let below = folder.strip_prefix(root).unwrap_or(folder);
            format!("{below}/")
        };
        let names: BTreeSet<String> = moved.map(name).collect();
        names.into_iter().collect()
    }

    /// Puts an empty report in its place and watches it. The watch misses nothing, because the file
    /// is there before the command starts.
    fn expect_report(&mut self) {
        let ReportFile { root, path } = self.report_file();
        let is_ready = root.write(&path, b"").is_ok() && self.hand_over(&root, &path).is_ok();
        self.is_blocked = !is_ready;
        if is_ready && self.exec_env.shares_clock() {
            self.writes = FileWatch::start(root.path_for_child(), &path);
        }
    }

    /// Gives a file and its folders to the user of commands, if that is another user.
    fn hand_over(&self, root: &UntrustedDir, path: &Utf8Path) -> Result<(), String> {
        if matches!(self.exec_env, ExecEnv::Local) {
            return Ok(());
        }
        let all = path.ancestors().filter(|it| !it.as_str().is_empty());
        let all: Vec<_> = all.map(|it| root.path_for_child().join(it)).collect();
        self.judging.hand_over(&all, platform::give)
    }

    /// The writes of the report, as far as they are seen. This ends the watch.
    fn writes_of_report(&mut self) -> FileWrites {
        let seen = self
            .writes
            .take()
            .map_or_else(FileWrites::default, FileWatch::finish);
        FileWrites {
            is_replaced: seen.is_replaced || self.is_blocked,
            ..seen
        }
    }

    /// Calls `work` with the rules for sealed files.
    fn sealed<T>(&self, work: impl FnOnce(&Rules<'_>) -> T) -> T {
        let protect = &self.setup.protect;
        let filled = &self.filled;
        let is_sealed = |path: &str| {
            let is_tasks = protect.is_sealed(path) && !filled.agents.contains(path);
            is_tasks || filled.hidden.contains(path)
        };
        let is_decisive = |path: &str| protect.is_decisive_when_new(path);
        work(&Rules {
            is_sealed: &is_sealed,
            is_decisive: &is_decisive,
            has_times: self.exec_env.shares_clock(),
        })
    }

    /// Protected files that changed during judging, and the report if it was rewritten after the
    /// runner had closed it. Files that the untouched task or the reference solution changes in the
    /// same way are accepted.
    pub(super) async fn tampered(
        &mut self,
        argv: &[String],
        timeout: Option<Duration>,
    ) -> Result<Vec<String>, String> {
        let broken = |copy: &CleanCopy<'_>| {
            let mut found = copy.sealed(|rules| copy.seals.broken(&copy.files, rules));
            found.extend(copy.moved_folders());
            found.extend(above::settings_of_home(&UntrustedDir::new(
                copy.home.clone(),
            )));
            found
        };
        let workspace = self.judging.workspace;
        if self.is_of(&workspace.base_tree) {
            return Ok(Vec::new());
        }
        let mut suspects = broken(self);
        suspects.extend(self.settings_above()?);
        let writes = self.writes_of_report();
        if writes.count > 1 || writes.is_replaced {
            suspects.push(THE_REPORT.to_owned());
        }
        if suspects.is_empty() {
            return Ok(suspects);
        }
        let reference = match self.judging.reference {
            Some(reference) => workspace.reference_tree(reference).await.ok(),
            None => None,
        };
        let tree = reference.unwrap_or_else(|| workspace.base_tree.clone());
        let which = ("-control", tree.as_str());
        let mut control = Box::pin(CleanCopy::open(
            self.setup,
            self.judging,
            self.evidence,
            which,
        ))
        .await?;
        // Neither a failed test nor a failed build of the control matters here.
        if let Ok(Ok(())) = control.make_ready().await {
            let logs = control.logs.clone();
            control.reporting_step(argv, timeout, logs).await?;
        }
        let mut usual = broken(&control);
        let usual_writes = control.writes_of_report();
        control.close().await?;
        if !is_forged(writes, usual_writes)? {
            usual.push(THE_REPORT.to_owned());
        }
        suspects.retain(|path| !usual.contains(path));
        Ok(suspects)
    }

    /// Runner settings that appeared above the copy while commands ran. In directories of Proctor
    /// only the agent's work can have created them; elsewhere it may have been any program.
    fn settings_above(&self) -> Result<Option<String>, String> {
        let Some(file) = above::settings_above(self.files.path_for_child()) else {
            return Ok(None);
        };
        let own = self.judging.scratch.canonicalize_utf8();
        let own = own.unwrap_or_else(|_| self.judging.scratch.to_owned());
        match file.strip_prefix(own.parent().unwrap_or(&own)) {
            Ok(below) => Ok(Some(format!("../{below}"))),
            Err(_) => Err(format!(
                "{file} appeared during judging and changes how tests run: remove it and judge again with `proctor rescore`"
            )),
        }
    }

    /// The task's own files.
    pub(super) fn sealed_files(&self) -> impl Iterator<Item = &str> {
        self.seals.names()
    }

    /// The setup of this copy.
    pub(super) fn setup(&self) -> &Setup {
        self.setup
    }

    /// Whether this is a copy of the given tree.
    pub(super) fn is_of(&self, tree: &str) -> bool {
        self.tree == tree
    }

    /// Runs the preparations. A failure caused by the work is not an error.
    pub(super) async fn make_ready(&self) -> Result<Result<(), Unbuilt>, String> {
        for (number, before) in self.setup.before.iter().enumerate() {
            let logs = self.logs.join(format!("before-{}", number + 1));
            let argv = shell::line(&before.line);
            let ran = self.step(&argv, before.timeout, logs).await?;
            let end = End::of(&ran, &before.line)?;
            let message = end.in_words(&before.line, &ran.last_line);
            match (end, before.failure) {
                (End::Exited(0), _) => {}
                (_, Failure::Inconclusive) => return Err(message),
                (end, Failure::IsTheAgents) => return Ok(Err(Unbuilt { end, message })),
            }
        }
        Ok(Ok(()))
    }

    /// Runs the command that writes the report. A report that is there already is removed.
    pub(super) async fn reporting_step(
        &mut self,
        argv: &[String],
        timeout: Option<Duration>,
        logs: Utf8PathBuf,
    ) -> Result<ShellResult, String> {
        self.expect_report();
        self.step(argv, timeout, logs).await
    }

    /// Runs a command.
    pub(super) async fn step(
        &self,
        argv: &[String],
        timeout: Option<Duration>,
        logs: Utf8PathBuf,
    ) -> Result<ShellResult, String> {
        let mut env = self.exec_env.env(self.judging.host, &self.home);
        env.extend(self.setup.env.clone());
        if self.setup.case_files.is_some() {
            let case = self.exec_env.inside(&self.case).into_string();
            env.insert(CASE_DIR.to_owned(), case);
        }
        let cwd = self.working_dir();
        let report = self
            .exec_env
            .inside(&self.report.join("report"))
            .into_string();
        let argv = if self.needs_variable(argv) {
            env.insert(REPORT.to_owned(), report);
            argv.to_vec()
        } else {
            with_report(argv, &report)
        };
        let copy = self.copy_inside().into_string();
        let mut argv: Vec<String> = argv.iter().map(|it| it.replace(COPY, &copy)).collect();
        if let ExecEnv::Docker(_) = self.exec_env {
            // The agent's code runs there and must not see secrets.
            let secrets = &self.judging.host.secrets;
            for text in argv.iter_mut().chain(env.values_mut()) {
                *text = secrets.replace(text, NO_SECRET).into_owned();
            }
        }
        let command = ShellCommand {
            argv: &argv,
            env,
            cwd: &self.exec_env.inside(&cwd),
            timeout,
            logs,
            background: Background::End,
        };
        command
            .run(&self.exec_env, self.judging.host, self.judging.cancel)
            .await
    }

    /// Whether the shell of this machine expands environment variables only.
    fn needs_variable(&self, argv: &[String]) -> bool {
        let is_local = matches!(self.exec_env, ExecEnv::Local);
        is_local && argv.len() == 3 && self.judging.host.shell() == Shell::Cmd
    }

    /// The report, below the copy or in the folder of reports.
    pub(super) fn report_file(&self) -> ReportFile {
        let (root, path) = match self.setup.report.as_deref() {
            Some(path) => (self.files.clone(), path),
            None => (
                UntrustedDir::new(self.report.clone()),
                Utf8Path::new("report"),
            ),
        };
        ReportFile {
            root,
            path: path.to_owned(),
        }
    }

    /// The working directory of commands, on this machine.
    pub(super) fn working_dir(&self) -> Utf8PathBuf {
        self.files.path_for_child().join(&self.setup.working_dir)
    }

    /// The path of the copy inside the environment of commands.
    pub(super) fn copy_inside(&self) -> Utf8PathBuf {
        self.exec_env.inside(self.files.path_for_child())
    }

    /// Removes the copy and its environment.
    pub(super) async fn close(self) -> Result<(), String> {
        // The engine removes the container while the files are removed.
        self.exec_env.dismiss();
        let copy = self.files.path_for_child();
        let all = copy.parent().unwrap_or(copy);
        // Code under test can prevent that, which must not cost the verdict. The directory of all
        // copies is removed later.
        let _ = dir::remove(all);
        let left = self.exec_env.leave().await;
        left.map_err(|error| error.to_string())
    }
}

/// A new folder for one copy. Earlier commands of the same user cannot know its name and put files
/// into it.
fn new_folder(scratch: &Utf8Path, name: &str) -> io::Result<Utf8PathBuf> {
    for folder in [scratch.parent().unwrap_or(scratch), scratch] {
        // They may have put something else in the place of the folders above.
        if folder.symlink_metadata().is_ok_and(|it| !it.is_dir()) {
            fs_err::remove_file(folder)?;
        }
    }
    fs_err::create_dir_all(scratch)?;
    let folder = scratch.join(format!("{name}-{}", uuid::Uuid::now_v7()));
    fs_err::create_dir(&folder)?;
    Ok(folder)
}

/// The files that a patch changes or adds.
pub(crate) fn patched_files(patch: &str) -> impl Iterator<Item = &str> {
    let headers = patch.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    headers.map(|path| path.trim_end_matches(['\t', '\r']))
}

/// The mounts of a container for judging, with the copy at `place`.
fn mounts(
    setup: &Setup,
    place: &Utf8Path,
    [copy, home, report, case]: [&Utf8Path; 4],
) -> Vec<Mount> {
    let mount = |host: &Utf8Path, inside: &str, access| Mount {
        host: host.to_owned(),
        inside: inside.into(),
        access,
    };
    let mut all = vec![
        mount(copy, place.as_str(), Access::Write),
        mount(home, "/proctor/home", Access::Write),
        mount(report, "/proctor/report", Access::Write),
    ];
    if setup.case_files.is_some() {
        all.push(mount(case, "/proctor/case", Access::Read));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_copy_has_a_new_folder_if_its_parents_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let scratch = root.join("trial/scratch");
        let first = new_folder(&scratch, "judge-1").unwrap();
        assert_ne!(first, new_folder(&scratch, "judge-1").unwrap());
        fs_err::create_dir(root.join("elsewhere")).unwrap();
        dir::remove(&scratch).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), &scratch).unwrap();
        assert!(new_folder(&scratch, "judge-2").unwrap().is_dir());
        assert_eq!(fs_err::read_dir(root.join("elsewhere")).unwrap().count(), 0);
        dir::remove(root.join("trial")).unwrap();
        fs_err::write(root.join("trial"), "").unwrap();
        assert!(new_folder(&scratch, "judge-3").unwrap().is_dir());
    }
}
