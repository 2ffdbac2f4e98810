//! `script`: a program that gets the paths of the trial in its environment. Values are passed as
//! environment variables or arguments, never as shell text.

use std::time::Duration;

use camino::Utf8PathBuf;
use proctor_process::Background;
use proctor_record::record::{HookPhase, HookStatus};
use proctor_sandbox::{
    ExecEnv,
    shell::{self, ShellCommand, ShellResult},
};

use super::{HookContext, HookResult, redact::Redactor};
use crate::config::ScriptHook;

impl ScriptHook {
    pub(super) async fn run(
        &self,
        context: &HookContext<'_>,
        number: usize,
        redactor: &Redactor,
    ) -> HookResult {
        let phase = match context.phase {
            HookPhase::PreExecution => "pre_execution",
            HookPhase::PostEvaluation => "post_evaluation",
        };
        let below = Utf8PathBuf::from(format!("hooks/{phase}-{number}"));
        let logs = context.artifacts.join(&below);
        let own_dir = self.working_dir.as_ref();
        let own_dir = own_dir.map(|dir| Utf8PathBuf::from(filled(dir.as_str(), context)));
        let mut env = context.host.clean_env(context.home);
        env.extend(self.env.clone());
        let reported = context.variables.iter();
        env.extend(reported.map(|(name, value)| ((*name).to_owned(), value.clone())));
        let command = ShellCommand {
            argv: &self.argv(context),
            env,
            cwd: own_dir.as_deref().unwrap_or(context.cwd),
            timeout: Some(Duration::from_millis(self.timeout_ms)),
            logs: logs.clone(),
            background: Background::End,
        };
        let ran = command
            .run(&ExecEnv::Local, context.host, context.cancel)
            .await;
        for name in ["stdout", "stderr", "output.log"] {
            if let Err(error) = redactor.file(&logs.join(name)) {
                return HookResult::new(
                    HookStatus::Failed,
                    format!("cannot write the output of the hook: {error}"),
                );
            }
        }
        let mut result = self.result(ran);
        result.output = Some(below.join("output.log"));
        result
    }

    fn result(&self, ran: Result<ShellResult, String>) -> HookResult {
        let ended = ran.and_then(|ran| Ok((ran.code(&self.command)?, ran.last_line)));
        let (code, last) = match ended {
            Ok(ended) => ended,
            Err(message) => return HookResult::new(HookStatus::Failed, message),
        };
        let command = &self.command;
        let mut result = match (code, last.as_str()) {
            (0, _) => HookResult::new(
                HookStatus::Passed,
                format!("`{command}` exited with code 0"),
            ),
            (code, last) => {
                let message = format!("`{command}` exited with code {code}: {last}");
                HookResult::new(HookStatus::Failed, message)
            }
        };
        result.exit_code = Some(code);
        result
    }

    fn argv(&self, context: &HookContext<'_>) -> Vec<String> {
        let Some(args) = &self.args else {
            return shell::line(&self.command);
        };
        std::iter::once(&self.command)
            .chain(args)
            .map(|word| filled(word, context))
            .collect()
    }
}

/// The text with the values of the trial's variables.
fn filled(text: &str, context: &HookContext<'_>) -> String {
    let variables = context.variables.iter();
    variables.fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    })
}
