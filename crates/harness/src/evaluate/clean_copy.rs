//! A clean copy of an agent's work and the commands that are run in it, in a fresh place of the trial's kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    Judging, Place, above,
    case_files::{CASE_DIR, CaseFiles},
    control::End,
    fill::{self, Filled},
    protect::{self, Circumstances, Protect},
    seal::{Rules, Seals},
    tests::Edit,
};
use crate::{
    fs::{beneath::UntrustedDir, dir},
    platform::{FolderEvent, FolderWatch, Shell, Watched},
    sandbox::{
        Access, Room, View,
        docker::Network,
        shell::{self, Ran, ShellCommand},
    },
    workspace::WorkspaceError,
};

/// Names the file that a report is to be written to, in the text of a command.
pub(super) const REPORT: &str = "PROCTOR_REPORT";

/// Stands in the place of secrets in containers.
const NO_SECRET: &str = "no-secret";

/// Stands for the report in the list of changed files.
const THE_REPORT: &str = "the report";

/// A report larger than this is not read.
const MAX_REPORT: u64 = 64 << 20;

/// Names the copy, in the words of known runners.
const COPY: &str = "$PROCTOR_COPY";

/// How a clean copy is made and what its commands get.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// More environment.
    pub(super) env: BTreeMap<String, String>,
    /// The files of the test case's folder that commands see.
    pub(super) case_files: Option<CaseFiles>,
    /// Where commands run, below the copy.
    pub(super) working_dir: Utf8PathBuf,
    /// Run in the copy first.
    pub(super) before: Vec<Before>,
    /// Laid over the copy.
    pub(super) hidden: Hidden,
    /// The rules for the owners of files.
    pub(super) protect: Protect,
    /// The facts that the command gives about files.
    pub(super) facts: Circumstances,
    /// The network of the commands.
    pub(super) network: Network,
    /// The image to judge in, instead of the trial's.
    pub(super) image: Option<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            env: BTreeMap::new(),
            case_files: None,
            working_dir: Utf8PathBuf::new(),
            before: Vec::new(),
            hidden: Hidden::None,
            protect: Protect::default(),
            facts: Circumstances::default(),
            network: Network::None,
            image: None,
        }
    }
}

impl Setup {
    /// The same for a command: the files that it names are known.
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

    /// Files that the command runs, and of which nothing says whether they are the task's or the agent's.
    pub(super) fn unanswered(&self) -> Vec<&str> {
        let is_hidden = |path: &str| match &self.hidden {
            Hidden::None => false,
            Hidden::Revision(_) => true,
            Hidden::Folder(folder) => folder.join(path).exists(),
        };
        let is_of_case = |path: &str| {
            let name = path.rsplit('/').next();
            self.case_files
                .as_ref()
                .is_some_and(|files| files.names().any(|it| Some(it) == name))
        };
        let scripts = self.facts.scripts.iter().map(String::as_str);
        scripts
            .filter(|it| !self.protect.answers(it) && !is_hidden(it) && !is_of_case(it))
            .collect()
    }
}

/// Tests that the agent never saw.
#[derive(Clone, Debug, Default)]
pub(super) enum Hidden {
    /// There are none.
    #[default]
    None,
    /// A revision of the repo.
    Revision(String),
    /// A folder.
    Folder(Utf8PathBuf),
}

/// A preparation in the clean copy, before the command that judges.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// A line for the shell.
    pub(super) line: String,
    /// How long it may take.
    pub(super) timeout: Option<Duration>,
    /// The meaning of its failure.
    pub(super) failure: Failure,
}

/// The meaning of a failed preparation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing about the agent: there is no verdict.
    Inconclusive,
    /// The work cannot be built.
    IsTheAgents,
}

/// A preparation that failed because of the work.
pub(super) struct Unbuilt {
    /// How it ended.
    pub(super) end: End,
    /// The same in words.
    pub(super) message: String,
}

/// A clean copy, ready for commands.
pub(super) struct CleanCopy<'a> {
    judging: &'a Judging<'a>,
    setup: &'a Setup,
    room: Room,
    place: &'a Place,
    /// The copy, on this machine.
    pub(super) files: UntrustedDir,
    home: Utf8PathBuf,
    report: Utf8PathBuf,
    case: Utf8PathBuf,
    /// Where output goes.
    pub(super) logs: Utf8PathBuf,
    /// The owners of its files.
    pub(super) filled: Filled,
    seals: Seals,
    /// Watches the folders of sealed files.
    moves: Option<FolderWatch>,
    /// Watches the folder of the report.
    writes: Option<FolderWatch>,
    tree: String,
}

impl<'a> CleanCopy<'a> {
    /// Make a clean copy of `tree`; `name` tells it from others of the same evaluator.
    pub(super) async fn open(
        setup: &'a Setup,
        judging: &'a Judging<'a>,
        place: &'a Place,
        which: (&str, &str),
    ) -> Result<CleanCopy<'a>, String> {
        CleanCopy::open_edited(setup, judging, place, which, &[]).await
    }

    /// The same with edits of the task's own files, which no command sees as they were.
    pub(super) async fn open_edited(
        setup: &'a Setup,
        judging: &'a Judging<'a>,
        place: &'a Place,
        (name, tree): (&str, &str),
        edits: &[Edit],
    ) -> Result<CleanCopy<'a>, String> {
        let all = judging
            .scratch
            .join(format!("judge-{}{name}", place.number));
        let [copy, home, report, case] = ["copy", "home", "report", "case"].map(|it| all.join(it));
        let failed = |error: WorkspaceError| format!("could not make a clean copy: {error}");
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
        let view = view(setup, [&copy, &home, &report, &case]);
        let image = setup.image.as_deref();
        let network = setup.network.clone();
        let room = Box::pin(judging.fresh_room(view, image, network, filling)).await?;
        let mut copy = CleanCopy {
            judging,
            setup,
            room,
            place,
            files: UntrustedDir::new(copy),
            home,
            report,
            case,
            logs: judging.artifacts.join(format!("{}{name}", place.folder)),
            filled,
            seals: Seals::default(),
            moves: None,
            writes: None,
            tree: tree.to_owned(),
        };
        let seals = copy.sealed(|rules| Seals::take(&copy.files, rules));
        copy.seals = seals.map_err(|error| failed(error.into()))?;
        if copy.room.shares_clock() {
            let folders = copy.sealed_folders();
            let folders = folders.iter().map(Utf8PathBuf::as_path);
            copy.moves = FolderWatch::start(Watched::Moves, folders);
            let report = [copy.report.as_path()].into_iter();
            copy.writes = FolderWatch::start(Watched::Writes, report);
        }
        Ok(copy)
    }

    /// The folders of sealed files, and those above them in the copy.
    fn sealed_folders(&self) -> Vec<Utf8PathBuf> {
        let mut found = BTreeSet::from([Utf8Path::new("")]);
        for file in self.seals.names() {
            found.extend(Utf8Path::new(file).ancestors().skip(1));
        }
        let root = self.files.path_for_child();
        found.iter().map(|folder| root.join(folder)).collect()
    }

    /// Folders of sealed files that were moved, also if they were moved back: their files would not show it.
    fn moved_folders(&self) -> Vec<String> {
        let events = self.moves.as_ref().map(FolderWatch::events);
        let folders = self.sealed_folders();
        let moved = events.unwrap_or_default().into_iter();
        let moved = moved.filter_map(|event| match event {
            FolderEvent::Moved(number) => folders.get(number),
            // Only moves are watched.
            FolderEvent::Overflow => folders.first(),
            FolderEvent::Written(..) => None,
        });
        let name = |folder: &Utf8PathBuf| {
            let root = self.files.path_for_child();
            let below = folder.strip_prefix(root).unwrap_or(folder);
            format!("{below}/")
        };
        let names: BTreeSet<String> = moved.map(name).collect();
        names.into_iter().collect()
    }

    /// How often programs wrote the report, as far as that is seen. A report whose folder was moved, or lost in a
    /// flood of events, counts as written again.
    fn writes_of_report(&self) -> usize {
        let events = self.writes.as_ref().map(FolderWatch::events);
        let events = events.unwrap_or_default().into_iter();
        let writes = events.map(|event| match event {
            FolderEvent::Written(_, name) => usize::from(name == b"report"),
            FolderEvent::Moved(_) | FolderEvent::Overflow => 2,
        });
        writes.sum()
    }

    /// Work with the rules of what must stay the same while commands run.
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
            has_times: self.room.shares_clock(),
        })
    }

    /// Protected files that the work changed while it was judged, and the report if it was written again after the
    /// runner had closed it. Files that the task's own code changes in the same way, with the reference solution if
    /// there is one, are not held against the work.
    pub(super) async fn tampered(
        &self,
        argv: &[String],
        timeout: Option<Duration>,
    ) -> Result<Vec<String>, String> {
        let broken = |copy: &CleanCopy<'_>| {
            let mut found = copy.sealed(|rules| copy.seals.broken(&copy.files, rules));
            found.extend(copy.moved_folders());
            found
        };
        let workspace = self.judging.workspace;
        if self.is_of(&workspace.base_tree) {
            return Ok(Vec::new());
        }
        let mut suspects = broken(self);
        suspects.extend(self.settings_above()?);
        if self.writes_of_report() > 1 {
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
        let control =
            Box::pin(CleanCopy::open(self.setup, self.judging, self.place, which)).await?;
        // Whether it passes does not matter here, and neither does one that cannot be built.
        if let Ok(Ok(())) = control.make_ready().await {
            let logs = control.logs.clone();
            control.step(argv, timeout, logs).await?;
        }
        let mut usual = broken(&control);
        // Without a report of the control nothing is known about the command's ways.
        if control.writes_of_report() != 1 {
            usual.push(THE_REPORT.to_owned());
        }
        control.close().await?;
        suspects.retain(|path| !usual.contains(path));
        Ok(suspects)
    }

    /// Settings of runners that appeared above the copy while commands ran. In folders of our own only the work can
    /// have put them there; elsewhere it may have been any program of this machine.
    fn settings_above(&self) -> Result<Option<String>, String> {
        let Some(file) = above::settings_above(self.files.path_for_child()) else {
            return Ok(None);
        };
        let own = self.judging.scratch.canonicalize_utf8();
        let own = own.unwrap_or_else(|_| self.judging.scratch.to_owned());
        match file.strip_prefix(own.parent().unwrap_or(&own)) {
            Ok(below) => Ok(Some(format!("../{below}"))),
            Err(_) => Err(format!(
                "{file} appeared while the work was judged, and would decide how tests run: remove it and judge again with `proctor rescore`"
            )),
        }
    }

    /// The task's own files.
    pub(super) fn sealed_files(&self) -> impl Iterator<Item = &str> {
        self.seals.names()
    }

    /// How it was made.
    pub(super) fn setup(&self) -> &Setup {
        self.setup
    }

    /// Whether it is a copy of this tree.
    pub(super) fn is_of(&self, tree: &str) -> bool {
        self.tree == tree
    }

    /// Run the preparations. A failure of the work is data.
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

    /// Run a command.
    pub(super) async fn step(
        &self,
        argv: &[String],
        timeout: Option<Duration>,
        logs: Utf8PathBuf,
    ) -> Result<Ran, String> {
        let mut env = self.room.env(self.judging.host, &self.home);
        env.extend(self.setup.env.clone());
        if self.setup.case_files.is_some() {
            let case = self.room.inside(&self.case).into_string();
            env.insert(CASE_DIR.to_owned(), case);
        }
        let cwd = self.working_dir();
        let report = self.room.inside(&self.report()).into_string();
        let argv = if self.needs_variable(argv) {
            env.insert(REPORT.to_owned(), report);
            argv.to_vec()
        } else {
            with_report(argv, &report)
        };
        let copy = self.copy_inside().into_string();
        let mut argv: Vec<String> = argv.iter().map(|it| it.replace(COPY, &copy)).collect();
        if let Room::Docker(_) = self.room {
            // The work runs there, and would see what it was not given.
            let secrets = &self.judging.host.secrets;
            for text in argv.iter_mut().chain(env.values_mut()) {
                *text = secrets.replace(text, NO_SECRET).into_owned();
            }
        }
        let command = ShellCommand {
            argv: &argv,
            env,
            cwd: &self.room.inside(&cwd),
            timeout,
            logs,
        };
        command
            .run(&self.room, self.judging.host, self.judging.cancel)
            .await
    }

    /// Whether the shell of this machine knows variables of the environment only.
    fn needs_variable(&self, argv: &[String]) -> bool {
        let is_local = matches!(self.room, Room::Local);
        is_local && argv.len() == 3 && self.judging.host.shell() == Shell::Cmd
    }

    /// The file that a report is to be written to, on this machine.
    pub(super) fn report(&self) -> Utf8PathBuf {
        self.report.join("report")
    }

    /// The report at a path below the copy, or in the folder of reports.
    pub(super) fn report_file(&self, below: Option<&Utf8Path>) -> ReportFile {
        let (root, path) = match below {
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

    /// The folder that commands run in, on this machine.
    pub(super) fn working_dir(&self) -> Utf8PathBuf {
        self.files.path_for_child().join(&self.setup.working_dir)
    }

    /// The copy as commands see it.
    pub(super) fn copy_inside(&self) -> Utf8PathBuf {
        self.room.inside(self.files.path_for_child())
    }

    /// Remove it all.
    pub(super) async fn close(self) -> Result<(), String> {
        // The engine removes its part while the files go.
        self.room.dismiss();
        let copy = self.files.path_for_child();
        let all = copy.parent().unwrap_or(copy);
        let removed = dir::remove(all);
        let left = self.room.leave().await;
        left.map_err(|error| error.to_string())?;
        removed.map_err(|error| format!("could not remove the clean copy: {error}"))
    }
}

/// A report in a folder that the work writes to: folders on the way may be links to anywhere.
pub(super) struct ReportFile {
    root: UntrustedDir,
    path: Utf8PathBuf,
}

impl ReportFile {
    /// Remove what came with the work: it is not a report of this run.
    pub(super) fn remove(&self) {
        // One that cannot be removed cannot be read either.
        let _ = self.root.remove(&self.path);
    }

    /// The report; `None` when there is none.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match self.root.read(&self.path, MAX_REPORT) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("the report cannot be read: {error}")),
        }
    }
}

/// The command with the path of the report in its text. The path is not in the environment, where every program that
/// the command starts would find it.
fn with_report(argv: &[String], report: &str) -> Vec<String> {
    if argv.len() == 3 && argv.starts_with(&shell::line("")[..2]) {
        if !argv[2].contains(REPORT) {
            return argv.to_vec();
        }
        let path = shell_words::quote(report);
        return shell::line(&format!("{REPORT}={path}\n{}", argv[2]));
    }
    let [plain, braced] = [format!("${REPORT}"), format!("${{{REPORT}}}")];
    let expanded = |word: &String| word.replace(&plain, report).replace(&braced, report);
    argv.iter().map(expanded).collect()
}

/// The folders of this machine that a container for judging sees.
fn view(setup: &Setup, [copy, home, report, case]: [&Utf8Path; 4]) -> Vec<View> {
    let view = |host: &Utf8Path, inside: &str, access| View {
        host: host.to_owned(),
        inside: inside.into(),
        access,
    };
    let mut all = vec![
        view(copy, "/workspace", Access::Write),
        view(home, "/proctor/home", Access::Write),
        view(report, "/proctor/report", Access::Write),
    ];
    if setup.case_files.is_some() {
        all.push(view(case, "/proctor/case", Access::Read));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_named_in_the_text_of_a_command_only() {
        let words = ["jest", "--outputFile=$PROCTOR_REPORT", "${PROCTOR_REPORT}"];
        let words = with_report(&words.map(str::to_owned), "/r");
        assert_eq!(words, ["jest", "--outputFile=/r", "/r"]);
        let line = with_report(&shell::line("x > \"$PROCTOR_REPORT\""), "/a b");
        assert_eq!(line[2], "PROCTOR_REPORT='/a b'\nx > \"$PROCTOR_REPORT\"");
        assert_eq!(with_report(&shell::line("x"), "/r"), shell::line("x"));
    }
}
