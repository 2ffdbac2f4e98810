//! `script`: a program that is told by its environment where things are. Values go in as
//! environment or as arguments, never as shell text.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;

use super::{Did, HookPhase, HookStatus, Scene, redact::Redactor};
use crate::sandbox::{
    Room,
    shell::{self, Ran, ShellCommand},
};

/// A program to run.
#[derive(Clone)]
pub struct Script {
    /// The program, or without `args` a line for the shell.
    pub command: String,
    /// Its arguments; `${NAME}` of a variable that it is told is filled in.
    pub args: Option<Vec<String>>,
    /// More environment.
    pub env: BTreeMap<String, String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Where it runs; in the workspace or the artifacts folder when left out.
    pub working_dir: Option<Utf8PathBuf>,
}

/// Values of the environment may be secrets.
impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl Script {
    pub(super) async fn run(&self, scene: &Scene<'_>, number: usize, redactor: &Redactor) -> Did {
        let phase = match scene.phase {
            HookPhase::PreExecution => "pre_execution",
            HookPhase::PostEvaluation => "post_evaluation",
        };
        let below = Utf8PathBuf::from(format!("hooks/{phase}-{number}"));
        let logs = scene.artifacts.join(&below);
        let cwd = self.working_dir.as_deref().unwrap_or(scene.cwd);
        let mut env = scene.host.clean_env(scene.home);
        env.extend(self.env.clone());
        let told = scene.variables.iter();
        env.extend(told.map(|(name, value)| ((*name).to_owned(), value.clone())));
        let command = ShellCommand {
            argv: &self.argv(scene),
            env,
            cwd,
            timeout: Some(self.timeout),
            logs: logs.clone(),
        };
        let ran = command.run(&Room::Local, scene.host, scene.cancel).await;
        for name in ["stdout", "stderr", "output.log"] {
            if let Err(error) = redactor.file(&logs.join(name)) {
                return Did::new(HookStatus::Failed, format!("its output: {error}"));
            }
        }
        let mut did = self.did(ran);
        did.output = Some(below.join("output.log"));
        did
    }

    fn did(&self, ran: Result<Ran, String>) -> Did {
        let ended = ran.and_then(|ran| Ok((ran.code(&self.command)?, ran.last_line)));
        let (code, last) = match ended {
            Ok(ended) => ended,
            Err(message) => return Did::new(HookStatus::Failed, message),
        };
        let command = &self.command;
        let mut did = match (code, last.as_str()) {
            (0, _) => Did::new(
                HookStatus::Passed,
                format!("`{command}` exited with code 0"),
            ),
            (code, last) => {
                let message = format!("`{command}` exited with code {code}: {last}");
                Did::new(HookStatus::Failed, message)
            }
        };
        did.exit_code = Some(code);
        did
    }

    fn argv(&self, scene: &Scene<'_>) -> Vec<String> {
        let Some(args) = &self.args else {
            return shell::line(&self.command);
        };
        let filled = |word: &String| {
            let variables = scene.variables.iter();
            variables.fold(word.clone(), |word, (name, value)| {
                word.replace(&format!("${{{name}}}"), value)
            })
        };
        std::iter::once(&self.command)
            .chain(args)
            .map(filled)
            .collect()
    }
}
