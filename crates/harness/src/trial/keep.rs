//! The workspace after a trial: kept completely, or only as a diff.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::dir,
    record::{self, StoreError, TrialStatus},
};

use super::{AgentWork, Trial};
use crate::config::KeepWorkspace;

/// How the workspace of a finished trial is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptForm {
    Whole,
    Diff,
}

impl Trial<'_> {
    /// The path of a kept workspace.
    pub(super) fn kept_path(&self) -> Utf8PathBuf {
        self.context.folder.join("src-modified")
    }

    /// How the workspace is kept. A workspace that the diff cannot restore is kept completely, with
    /// a note.
    pub(super) async fn form_to_keep(&mut self, work: Option<&AgentWork>) -> KeptForm {
        match self.context.keep_workspace {
            KeepWorkspace::All => KeptForm::Whole,
            KeepWorkspace::None => KeptForm::Diff,
            KeepWorkspace::Failed if self.record.status != TrialStatus::Passed => KeptForm::Whole,
            KeepWorkspace::Failed | KeepWorkspace::Needed => match self.check_diff(work).await {
                Ok(()) => KeptForm::Diff,
                Err(reason) => {
                    let note = format!("the complete workspace is kept: {reason}");
                    self.record.notes.push(note);
                    KeptForm::Whole
                }
            },
        }
    }

    /// Checks that the base and the patches on disk restore the workspace, as `proctor rescore`
    /// does.
    async fn check_diff(&self, work: Option<&AgentWork>) -> Result<(), String> {
        let Some(work) = work else {
            return Ok(());
        };
        let workspace = &work.workspace;
        let Some(change) = &work.change else {
            return Err("the agent's change is unknown".to_owned());
        };
        if let Some(reason) = &change.left_out {
            return Err(reason.clone());
        }
        let steps = [
            (
                record::INSTALL_PATCH_FILE,
                self.record.task.tree.as_ref(),
                &workspace.base_tree,
            ),
            (record::PATCH_FILE, Some(&workspace.base_tree), &change.tree),
        ];
        for (name, from, to) in steps {
            let Some(from) = from.filter(|from| *from != to) else {
                continue;
            };
            let restored = workspace.patched(from, &self.artifacts.join(name)).await;
            match restored {
                Ok(tree) if tree == *to => {}
                Ok(_) => return Err(format!("{name} restores different files")),
                Err(error) => return Err(format!("cannot apply {name}: {error}")),
            }
        }
        Ok(())
    }

    /// Moves the workspace to its final path, if it is kept or hooks may read it, and removes
    /// private files.
    pub(super) fn put_workspace(
        &self,
        work: Option<AgentWork>,
        form: KeptForm,
    ) -> Result<(), StoreError> {
        let failed = |path: &Utf8Path| {
            let path = path.to_owned();
            move |source| StoreError { path, source }
        };
        let is_moved = form == KeptForm::Whole || !self.plan.task.hooks.post_evaluation.is_empty();
        if let Some(AgentWork { workspace, .. }) = work.filter(|_| is_moved) {
            let to = self.kept_path();
            if self.docker().is_some() {
                dir::remove_special_modes(workspace.path().as_std_path()).map_err(failed(&to))?;
            }
            workspace.files.move_to(&to).map_err(failed(&to))?;
        }
        dir::remove(&self.private).map_err(failed(&self.private))
    }

    /// Removes the workspace that was kept only for hooks.
    pub(super) fn remove_workspace(&self, form: KeptForm) -> Result<(), StoreError> {
        let path = self.kept_path();
        if form == KeptForm::Whole || self.plan.task.hooks.post_evaluation.is_empty() {
            return Ok(());
        }
        dir::remove(&path).map_err(|source| StoreError { path, source })
    }
}
