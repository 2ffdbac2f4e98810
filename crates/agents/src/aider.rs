//! aider: it edits files from the model's text, has no tools and prints plain text. It exits with 0
//! after every API failure. Whether its last call was answered, and the tokens of each call, are
//! only in its local analytics log.

mod session;
#[cfg(test)]
mod tests;

use proctor_record::record::cli::{Cli, Registry};

use self::session::AiderReader;
use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, ModelName, Prompt, Start,
        TaskTools, cli,
    },
    litellm,
    reader::CliSession,
    setting::{Flag, Setting, SettingKind},
};
use crate::agent::{Launch, LaunchContext, LaunchError};

const PACKAGE: Registry = Registry::PyPi {
    name: "aider-chat",
    with: &[],
};
/// The longest argument, with the flag before the prompt.
const MAX_ARGUMENT: usize = 127 << 10;
const ANALYTICS: &str = "{scratch}/aider-analytics.jsonl";

pub(super) static AIDER: CliAdapter = CliAdapter(&CliAgent {
    name: "aider",
    title: "aider",
    code: "AIDER",
    summary: "aider: edits from the model's text, no tools",
    provider: "various",
    cli: Cli {
        login_hint: litellm::LOGIN_HINT,
        credential_env: litellm::CREDENTIAL_ENV,
        ..cli!(
            "AIDER",
            "aider",
            PACKAGE,
            "install it with: python3 -m pip install aider-chat"
        )
    },
    login: litellm::LOGIN,
    skills: None,
    task_tools: TaskTools::NONE,
    settings: &[
        Setting::new(
            "model",
            SettingKind::Text,
            "The model as `maker/name` or an alias of aider such as `sonnet`.",
        )
        .flag("--model"),
        Setting::new(
            "weak_model",
            SettingKind::LiteLlmModel,
            "The model for commit messages.",
        )
        .flag("--weak-model"),
        Setting::new(
            "edit_format",
            SettingKind::Text,
            "How the model writes its edits: `diff`, `whole`, `udiff` and others.",
        )
        .flag("--edit-format"),
        Setting::new(
            "auto_commits",
            SettingKind::Switch,
            "`false` leaves its edits uncommitted and skips the model call for a commit message.",
        )
        .passed(Flag::WhenFalse("--no-auto-commits")),
    ],
    instead: &[
        (
            "append_system_prompt",
            "write it to a file of the repo, and use `args: [--read, FILE]`",
        ),
        ("allowed_tools", "remove it: aider has no tools"),
        (
            "max_tokens",
            "put `extra_params` into a file for `args: [--model-settings-file, FILE]`",
        ),
        (
            "temperature",
            "put `use_temperature` into a file for `args: [--model-settings-file, FILE]`",
        ),
    ],
    model: ModelName::LiteLlm,
    model_variable: Some("AIDER_MODEL"),
    start: Start {
        args: &[
            Arg::Always(&["--yes-always"]),
            // Without streaming, the token counts come from the API and are not estimated.
            Arg::IfListed(&["--no-stream"]),
            Arg::IfListed(&["--no-pretty"]),
            Arg::IfListed(&["--no-fancy-input"]),
            Arg::IfListed(&["--no-check-update"]),
            Arg::IfListed(&["--no-show-release-notes"]),
            Arg::IfListed(&["--no-show-model-warnings"]),
            Arg::IfListed(&["--no-detect-urls"]),
            Arg::IfListed(&["--no-suggest-shell-commands"]),
            Arg::IfListed(&["--no-gitignore"]),
            Arg::Always(&["--chat-history-file", "{null}"]),
            Arg::Always(&["--input-history-file", "{null}"]),
            Arg::IfListed(&["--analytics-log", ANALYTICS]),
        ],
        last_args: &["--message-file", "{scratch}/prompt.md"],
        env: &[("LITELLM_LOCAL_MODEL_COST_MAP", "True")],
        collect: &[ANALYTICS],
        // Each line of standard input would be a separate message.
        prompt: Prompt::File,
        commands: CommandPrompts::StartingWith(&['/', '!']),
        setup,
    },
    session: CliSession::<AiderReader>::start,
});

/// Configures the gateway, and files that keep aider from sending analytics and from changing the
/// repo.
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    litellm::lead_to_gateway(agent, context, launch)?;
    keep_carriage_returns(agent, context, launch)?;
    let analytics = br#"{"permanently_disable": true, "asked_opt_in": true, "uuid": "00000000-0000-4000-8000-000000000000"}"#;
    let file = context.home.join(".aider/analytics.json");
    launch.files.push((file, analytics.to_vec()));
    // Its cache would be in the repo and part of the change.
    for cache in [".aider.tags.cache.v3", ".aider.tags.cache.v4"] {
        let ignore = context.workspace.join(cache).join(".gitignore");
        launch.files.push((ignore, b"*\n".to_vec()));
    }
    Ok(())
}

/// aider reads a file with other line ends than those that are in it; an argument stays as it is.
fn keep_carriage_returns(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    if !context.prompt.contains('\r') {
        return Ok(());
    }
    if context.prompt.len() >= MAX_ARGUMENT {
        let message = "aider changes carriage returns in a prompt of 128 KiB or more";
        let error = agent.names.invalid(message);
        return Err(error.with_hint("end the prompt's lines with a line feed alone"));
    }
    launch.argv.truncate(launch.argv.len() - 2);
    launch.argv.push(format!("--message={}", context.prompt));
    Ok(())
}
