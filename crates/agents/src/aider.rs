//! aider: it edits by what the model writes, has no tools and prints plain text. It exits with 0
//! after every failure of the API. Whether its last call was answered, and the tokens of each call,
//! stand only in its analytics log, which is kept on this machine.

mod session;
#[cfg(test)]
mod tests;

use proctor_record::record::cli::{Cli, Registry};

use self::session::AiderReader;
use super::{
    cli::{Arg, CliAdapter, CliAgent, CliContestant, ModelName, Prompt, Start, cli},
    litellm,
    reader::CliSession,
    setting::{Flag, Kind, Setting},
};
use crate::agent::{Launch, LaunchContext, LaunchError};

const PACKAGE: Registry = Registry::PyPi {
    name: "aider-chat",
    with: &[],
};
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
    settings: &[
        Setting::new(
            "model",
            Kind::Text,
            "The model as `maker/name` or an alias of aider such as `sonnet`.",
        )
        .flag("--model"),
        Setting::new(
            "weak_model",
            Kind::LiteLlmModel,
            "The model for commit messages.",
        )
        .flag("--weak-model"),
        Setting::new(
            "edit_format",
            Kind::Text,
            "How the model writes its edits: `diff`, `whole`, `udiff` and others.",
        )
        .flag("--edit-format"),
        Setting::new(
            "auto_commits",
            Kind::Switch,
            "`false` leaves its edits uncommitted, and asks no model for a commit message.",
        )
        .passed(Flag::WhenFalse("--no-auto-commits")),
    ],
    instead: &[
        (
            "append_system_prompt",
            "put it in a file of the repo, and use `args: [--read, FILE]`",
        ),
        ("allowed_tools", "leave it out: aider has no tools"),
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
    start: Start {
        args: &[
            Arg::Always(&["--yes-always"]),
            // Without streaming, the tokens are the API's and not an estimate.
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
        // Each line of standard input would be a message of its own.
        prompt: Prompt::File,
        setup,
    },
    session: CliSession::<AiderReader>::start,
});

/// The gateway, and files that keep aider from sending analytics and from littering the repo.
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    litellm::lead_to_gateway(agent, context, launch)?;
    let analytics = br#"{"permanently_disable": true, "asked_opt_in": true, "uuid": "00000000-0000-4000-8000-000000000000"}"#;
    let file = context.home.join(".aider/analytics.json");
    launch.files.push((file, analytics.to_vec()));
    // Its cache lies in the repo, where it would be part of the change.
    for cache in [".aider.tags.cache.v3", ".aider.tags.cache.v4"] {
        let ignore = context.workspace.join(cache).join(".gitignore");
        launch.files.push((ignore, b"*\n".to_vec()));
    }
    Ok(())
}
