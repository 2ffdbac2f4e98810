//! The definition of an evaluator: its settings, and the files that it brings along by their content.

use proctor_record::fs::dir;
use proctor_sandbox::docker::BuildOptions;
use serde_json::{Value, json};

use super::{
    Evaluator, HiddenTests, JudgesBy, Kind, RepoCommand, Verifier,
    case_files::CaseFiles,
    clean_copy::{Hidden, Setup},
};
use crate::workspace::Image;

impl Evaluator {
    /// The settings, with the content of files instead of their places.
    pub(crate) fn definition(&self) -> Value {
        let mut definition = json!({
            "name": self.name,
            "weight": self.weight,
            "config": self.config,
        });
        if let Some(setup) = self.setup() {
            definition["files"] = files(setup);
        }
        match &self.kind {
            Kind::Judge(settings) => definition["request"] = settings.definition(),
            Kind::Verifier(verifier) => definition["config"] = of_verifier(verifier),
            _ => {}
        }
        definition
    }
}

/// The digests of the files of the test case that a command sees.
fn files(setup: &Setup) -> Value {
    let case_files = setup.case_files.iter().flat_map(CaseFiles::all);
    let mut found: Value = case_files
        .map(|(name, path)| (name.to_string(), dir::digest(&path).into()))
        .collect::<serde_json::Map<String, Value>>()
        .into();
    if let Hidden::Folder(folder) = &setup.hidden {
        found["hidden tests"] = dir::digest(folder).into();
    }
    found
}

fn of_verifier(verifier: &Verifier) -> Value {
    let environment = verifier.environment.as_ref();
    let tests: Vec<String> = verifier.tests.iter().map(|it| dir::digest(it)).collect();
    let tests = match tests.as_slice() {
        [only] => json!(only),
        all => json!(all),
    };
    let collect = verifier.collect.iter();
    let collect = collect.map(|it| json!([it.command, it.timeout.as_secs(), it.user]));
    let mut definition = json!({
        "mode": verifier.mode,
        "artifacts": verifier.artifacts,
        "reward_key": verifier.reward_key,
        "tests": tests,
        "env": verifier.env,
        "user": verifier.user,
        "timeout_s": verifier.timeout.as_secs(),
        "network": verifier.network.as_ref().map(|it| format!("{it:?}")),
        "image": environment.map(|it| of_image(&it.image)),
        "collect": collect.collect::<Vec<_>>(),
    });
    // An absent key keeps the digests of definitions without it.
    if let Some(script) = &verifier.run_tests {
        definition["run_tests"] = json!(dir::digest(script));
    }
    definition
}

/// An image by its name, or by the content that it is built from.
pub(crate) fn of_image(image: &Image) -> Value {
    match image {
        Image::Named(name) => json!(name),
        Image::Build {
            context, options, ..
        } if *options == BuildOptions::default() => json!({"build": dir::digest(context)}),
        Image::Build {
            context,
            dockerfile,
            options,
        } => json!({
            "build": dir::digest(context),
            "dockerfile": dockerfile.strip_prefix(context).unwrap_or(dockerfile),
            "args": options.args,
            "target": options.target,
        }),
    }
}

/// The settings of a command of a repo's task.
pub(super) fn of_repo_command(command: &RepoCommand<'_>) -> Value {
    let judges_by = match &command.judges_by {
        JudgesBy::ExitCode => "exit code",
        JudgesBy::NewFindings => "new findings",
        JudgesBy::Tests(_) => "tests",
        JudgesBy::AllTests(_) => "all tests",
        JudgesBy::OwnTests => "own tests",
    };
    let mut definition = json!({
        "command": command.line,
        "timeout_s": command.timeout.as_secs(),
        "install": command.install.map(|it| &it.command),
        "build": command.build,
        "hidden_tests": match command.hidden_tests {
            HiddenTests::None => None,
            HiddenTests::Revision(revision) => Some(revision),
            HiddenTests::Patch(patch) => Some(&**patch),
        },
        "image": command.image,
        "judges_by": judges_by,
    });
    // Absent keys keep the digests of definitions without them.
    for (key, list) in [
        ("inline_tests", command.inline_tests),
        ("counted_tests", command.counted_tests),
    ] {
        if !list.is_empty() {
            definition[key] = json!(list);
        }
    }
    definition
}
