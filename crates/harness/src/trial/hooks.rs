//! The hooks of a trial: before the agent starts, and after the results are written.

use std::collections::BTreeMap;

use camino::Utf8Path;
use proctor_record::{
    outcome::Outcome,
    record::{self, HookPhase, HookRecord, HookStatus, Results},
    session::LogError,
};

use super::{Site, Trial, prepare::NotRun};
use crate::hook::HookContext;

impl Trial<'_> {
    /// Runs the hooks that prepare the workspace. Their changes are not the agent's work. If one
    /// fails, the agent does not run.
    pub(super) async fn pre_execution(&mut self, site: &mut Site) -> Result<(), NotRun> {
        let task = &self.plan.task;
        if task.hooks.pre_execution.is_empty() {
            return Ok(());
        }
        let workspace = site.workspace.path();
        let mut variables = self.common_variables();
        // The agent's workspace, where scripts put what the agent is to find.
        variables.insert("WORKSPACE_DIR", workspace.to_string());
        variables.insert("REPO_DIR", workspace.to_string());
        variables.insert("REPO_URL", task.origin());
        variables.insert("BRANCH", task.branch().unwrap_or_default().to_owned());
        let context = HookContext {
            phase: HookPhase::PreExecution,
            variables,
            cwd: workspace,
            home: &site.trial_dir.home,
            artifacts: &self.artifacts,
            results: None,
            host: self.context.host,
            cancel: self.context.cancel,
        };
        let mut done = Vec::new();
        for (at, hook) in task.hooks.pre_execution.iter().enumerate() {
            let record = hook.run(&context, at + 1).await;
            let is_failed = record.status == HookStatus::Failed;
            done.push(record);
            if is_failed {
                break;
            }
        }
        let failed = done
            .iter()
            .find(|record| record.status == HookStatus::Failed);
        let failed = failed.map(|record| record.message.clone());
        self.record.hooks.extend(done);
        if let Some(message) = failed {
            return Err(NotRun::Infrastructure {
                outcome: if self.context.cancel.is_cancelled() {
                    Outcome::Interrupted
                } else {
                    Outcome::Sandbox
                },
                code: "PRE_EXECUTION_FAILED",
                message: format!("the pre_execution hook failed: {message}"),
            });
        }
        self.settle(&mut site.workspace).await
    }

    /// Runs the hooks that process the results. They cannot change the results.
    pub(super) async fn post_evaluation(&mut self, results: &Results) {
        let hooks = std::sync::Arc::clone(&self.plan.task.hooks.post_evaluation);
        if hooks.is_empty() || self.context.cancel.is_cancelled() {
            return;
        }
        let path = self.artifacts.join(record::RESULTS_FILE);
        let mut variables = self.common_variables();
        variables.insert("RESULTS_PATH", path.to_string());
        let status = results.summary.overall_status.as_str();
        variables.insert("OVERALL_STATUS", status.to_owned());
        let home = match tempfile::tempdir_in(&self.context.host.temp) {
            Ok(home) => home,
            Err(error) => {
                let message = format!("cannot create a directory for post_evaluation: {error}");
                self.record
                    .errors
                    .push(LogError::new("HOOK_FAILED", message));
                return;
            }
        };
        let place = Utf8Path::from_path(home.path()).unwrap_or(self.context.folder);
        let _ = fs_err::create_dir(place.join("tmp"));
        let mut done: Vec<HookRecord> = Vec::new();
        for (at, hook) in hooks.iter().enumerate() {
            let context = HookContext {
                phase: HookPhase::PostEvaluation,
                variables: variables.clone(),
                cwd: &self.artifacts,
                home: place,
                artifacts: &self.artifacts,
                results: Some(results),
                host: self.context.host,
                cancel: self.context.cancel,
            };
            done.push(hook.run(&context, at + 1).await);
        }
        let failed = done
            .iter()
            .filter(|record| record.status == HookStatus::Failed);
        let failed = failed.map(|record| {
            let message = format!(
                "a post_evaluation hook failed: {}: {}",
                record.name, record.message
            );
            LogError::new("HOOK_FAILED", message)
        });
        self.record.errors.extend(failed);
        self.record.hooks.extend(done);
    }

    fn common_variables(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("WORKSPACE_DIR", self.context.folder.to_string()),
            ("ARTIFACTS_DIR", self.artifacts.to_string()),
            ("TEST_CASE_NAME", self.plan.task.name.clone()),
        ])
    }
}
