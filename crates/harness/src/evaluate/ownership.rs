//! File ownership for an evaluator: its rules, undefined owners, and the verdict on work that
//! changes protected files.

use globset::GlobSet;
use proctor_record::record::VerdictStatus;

use super::{Evaluator, Finding, Judging, Kind, clean_copy, protect};

impl Evaluator {
    /// The setup of its clean copies, if it uses any.
    pub(super) fn setup(&self) -> Option<&clean_copy::Setup> {
        match &self.kind {
            Kind::Command(settings) => Some(&settings.setup),
            Kind::StaticCheck(settings) => Some(&settings.setup),
            Kind::Tests(settings) => Some(&settings.setup),
            Kind::Coverage(settings) => Some(&settings.setup),
            _ => None,
        }
    }

    /// Why a file must be the task's: it is protected, or a hidden test.
    pub(crate) fn claims(&self, path: &str) -> Option<&'static str> {
        let setup = self.setup()?;
        let is_hidden = match &setup.hidden {
            clean_copy::Hidden::Folder(folder) => folder.join(path).exists(),
            clean_copy::Hidden::Patch(text) => clean_copy::patched_files(text).any(|it| it == path),
            clean_copy::Hidden::None | clean_copy::Hidden::Revision(_) => false,
        };
        if is_hidden {
            return Some("a hidden test");
        }
        setup.protect.claims(path).then_some("a protected path")
    }

    /// The revision with hidden tests.
    pub(crate) fn hidden_revision(&self) -> Option<&str> {
        match &self.setup()?.hidden {
            clean_copy::Hidden::Revision(revision) => Some(revision),
            _ => None,
        }
    }

    /// Whether it compares the work with the reference solution.
    pub(crate) fn needs_reference(&self) -> bool {
        matches!(self.kind, Kind::ExpectedDiff(_)) || self.asks_for_sentinels()
    }

    /// Applies the task's `solution_paths`.
    pub(crate) fn confined_to(mut self, solution: Option<&GlobSet>) -> Evaluator {
        let setup = match &mut self.kind {
            Kind::Command(settings) => &mut settings.setup,
            Kind::StaticCheck(settings) => &mut settings.setup,
            Kind::Tests(settings) if settings.judges_own_tests() => return self,
            Kind::Tests(settings) => &mut settings.setup,
            Kind::Coverage(settings) => &mut settings.setup,
            _ => return self,
        };
        setup.protect = std::mem::take(&mut setup.protect).confined_to(solution);
        self
    }

    /// Whether its settings enable sentinels, which require a reference solution.
    pub(crate) fn asks_for_sentinels(&self) -> bool {
        matches!(&self.kind, Kind::Tests(settings) if settings.asks_for_sentinels())
    }

    /// Questions to the task's author about the owners of files that a command runs. `read` yields files of the base.
    pub(crate) fn questions(&self, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let Some(setup) = self.setup() else {
            return Vec::new();
        };
        let recipes = protect::recipe_files(&setup.facts).into_iter();
        let recipes = recipes.filter_map(|path| read(&path).map(|text| (path, text)));
        let files = setup.unanswered(&recipes.collect::<Vec<_>>());
        let question = |file: String| {
            format!(
                "`{}` runs {file}, which the agent can change: add `protect: [{file}]` if it is the task's, or `protect: [\"!{file}\"]` if it is the agent's work",
                self.name
            )
        };
        files.into_iter().map(question).collect()
    }

    /// Files with an undefined owner that the agent changed.
    pub(super) async fn unprotected(&self, judging: &Judging<'_>) -> Vec<String> {
        let Some(setup) = self.setup() else {
            return Vec::new();
        };
        let workspace = judging.workspace;
        let mut recipes = Vec::new();
        for path in protect::recipe_files(&setup.facts) {
            let text = workspace.file_at(&workspace.base_tree, &path).await;
            let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
            recipes.extend(text.map(|text| (path, text)));
        }
        let files = setup.unanswered(&recipes).into_iter();
        let changed = &judging.change.files;
        files
            .filter(|file| changed.iter().any(|it| it.path == *file))
            .collect()
    }
}

impl Finding {
    /// Fails work that changed protected files, regardless of other findings.
    pub(super) fn held_against_tampering(mut self) -> Finding {
        if self.tampered.is_empty() {
            return self;
        }
        self.status = VerdictStatus::Failed;
        self.score = Some(0.0);
        let files = self.tampered.join(", ");
        self.message = format!("tampered: {files}; {}", self.message);
        self.metrics
            .insert("tampered".to_owned(), self.tampered.clone().into());
        self
    }
}
