//! A clean copy of somebody's work and the commands that are run in it: what is protected as the
//! task has it, hidden tests added, in a fresh place of the trial's kind.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    Judging, Place,
    control::End,
    protect::Protect,
    shell::{self, Ran, ShellCommand},
};
use crate::{
    sandbox::{Access, Room, View, docker::Network},
    tree,
    workspace::WorkspaceError,
};

/// Names the folder of the test case.
const CASE_DIR: &str = "PROCTOR_CASE_DIR";
/// Names the file that a report is to be written to, where the work has no hand.
const REPORT: &str = "PROCTOR_REPORT";

/// How a clean copy is made and what its commands get.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// More environment.
    pub(super) env: BTreeMap<String, String>,
    /// The folder of the test case, which commands are told.
    pub(super) case_dir: Option<Utf8PathBuf>,
    /// Where commands run, below the copy.
    pub(super) working_dir: Utf8PathBuf,
    /// Run in the copy first.
    pub(super) before: Vec<Before>,
    /// Laid over the copy.
    pub(super) hidden: Hidden,
    /// What the agent has no say in.
    pub(super) protect: Protect,
    /// What commands may reach.
    pub(super) network: Network,
    /// The image to judge in, instead of the trial's.
    pub(super) image: Option<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            env: BTreeMap::new(),
            case_dir: None,
            working_dir: Utf8PathBuf::new(),
            before: Vec::new(),
            hidden: Hidden::None,
            protect: Protect::default(),
            network: Network::None,
            image: None,
        }
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

/// What is run in the clean copy before the command that judges.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// A line for the shell.
    pub(super) line: String,
    /// How long it may take.
    pub(super) timeout: Option<Duration>,
    /// What it means when it fails.
    pub(super) failure: Failure,
}

/// What a failed preparation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing about the agent: there is no verdict.
    IsNoVerdict,
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
pub(super) struct Bench<'a> {
    judging: &'a Judging<'a>,
    setup: &'a Setup,
    room: Room,
    /// The copy, on this machine.
    pub(super) copy: Utf8PathBuf,
    home: Utf8PathBuf,
    report: Utf8PathBuf,
    /// Where output goes.
    pub(super) logs: Utf8PathBuf,
    /// What was restored because it had been changed.
    pub(super) restored: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Make a clean copy of `tree`; `name` tells it from others of the same evaluator.
    pub(super) async fn open(
        setup: &'a Setup,
        judging: &'a Judging<'a>,
        place: &Place,
        (name, tree): (&str, &str),
    ) -> Result<Bench<'a>, String> {
        let all = judging
            .scratch
            .join(format!("judge-{}{name}", place.number));
        let copy = all.join("copy");
        let home = all.join("home");
        let report = all.join("report");
        let failed = |error: WorkspaceError| format!("could not make a clean copy: {error}");
        for folder in [&copy, &home.join("tmp"), &report] {
            fs_err::create_dir_all(folder).map_err(|error| failed(error.into()))?;
        }
        let mut restored = Vec::new();
        let filled = Box::pin(async {
            restored = fill(setup, judging, tree, &copy).await.map_err(failed)?;
            Ok(())
        });
        let view = view(setup, &copy, &home, &report);
        let image = setup.image.as_deref();
        let network = setup.network.clone();
        let room = Box::pin(judging.fresh_room(view, image, network, filled)).await?;
        Ok(Bench {
            judging,
            setup,
            room,
            copy,
            home,
            report,
            logs: judging.artifacts.join(format!("{}{name}", place.folder)),
            restored,
        })
    }

    /// Run what has to be run before. What it says about the work is data.
    pub(super) async fn make_ready(&self) -> Result<Result<(), Unbuilt>, String> {
        for (number, before) in self.setup.before.iter().enumerate() {
            let logs = self.logs.join(format!("before-{}", number + 1));
            let argv = shell::line(&before.line);
            let ran = self.step(&argv, before.timeout, logs).await?;
            let end = End::of(&ran, &before.line)?;
            let message = end.in_words(&before.line, &ran.last_line);
            match (end, before.failure) {
                (End::Exited(0), _) => {}
                (_, Failure::IsNoVerdict) => return Err(message),
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
        if let Some(folder) = &self.setup.case_dir {
            env.insert(CASE_DIR.to_owned(), self.room.inside(folder).into_string());
        }
        env.insert(REPORT.to_owned(), self.report_inside());
        let cwd = self.copy.join(&self.setup.working_dir);
        let command = ShellCommand {
            argv,
            env,
            cwd: &self.room.inside(&cwd),
            timeout,
            logs,
        };
        command
            .run(&self.room, self.judging.host, self.judging.cancel)
            .await
    }

    /// The file that a report is to be written to, on this machine.
    pub(super) fn report(&self) -> Utf8PathBuf {
        self.report.join("report")
    }

    /// The same as commands see it.
    pub(super) fn report_inside(&self) -> String {
        self.room.inside(&self.report()).into_string()
    }

    /// The copy as commands see it.
    pub(super) fn copy_inside(&self) -> Utf8PathBuf {
        self.room.inside(&self.copy)
    }

    /// Remove it all.
    pub(super) async fn close(self) -> Result<(), String> {
        // The engine removes its part while the files go.
        self.room.dismiss();
        let all = self.copy.parent().unwrap_or(&self.copy);
        let removed = tree::remove(all);
        let left = self.room.leave().await;
        left.map_err(|error| error.to_string())?;
        removed.map_err(|error| format!("could not remove the clean copy: {error}"))
    }
}

/// Fill `copy` with `tree` as it is judged: with what the task protects, and the tests that the
/// agent never saw. What was restored is told.
async fn fill(
    setup: &Setup,
    judging: &Judging<'_>,
    tree: &str,
    copy: &Utf8Path,
) -> Result<Vec<String>, WorkspaceError> {
    let workspace = judging.workspace;
    let is_protected = |path: &str, origin| setup.protect.has(path, origin);
    let (tree, restored) = workspace.guarded(tree, &is_protected).await?;
    workspace.clean_copy(&tree, copy).await?;
    match &setup.hidden {
        Hidden::None => {}
        Hidden::Revision(revision) => workspace.lay_over(revision, copy).await?,
        Hidden::Folder(folder) => tree::lay_over(folder.as_std_path(), copy.as_std_path())?,
    }
    Ok(restored)
}

/// What a container that judges sees of this machine.
fn view(setup: &Setup, copy: &Utf8Path, home: &Utf8Path, report: &Utf8Path) -> Vec<View> {
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
    let case = setup.case_dir.as_deref();
    all.extend(case.map(|folder| view(folder, "/proctor/case", Access::Read)));
    all
}
