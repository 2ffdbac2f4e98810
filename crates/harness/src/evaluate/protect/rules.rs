//! The owner of each changed file, by the rules of an evaluator and the facts about the task.

use std::collections::BTreeSet;

use camino::Utf8Path;
use globset::GlobSet;
use proctor_document::{Fault, Node};

use super::{
    manifest,
    patterns::{
        LINTERS, MAKEFILES, PYTHON_LIBRARY, PYTHON_MODULES, RUNNERS, TESTS, cache_folders, caches,
        folders, known, of_base, runner_settings,
    },
    places::{join, modules_before, starts_from, vendored_below, vendored_package},
};
use crate::{
    config::globs,
    workspace::{ChangedFile, Origin},
};

/// The rules of one evaluator.
#[derive(Clone, Debug)]
pub(crate) struct Protect {
    /// Positions that this kind of evaluator protects.
    decisive: GlobSet,
    /// The folders of these positions.
    decisive_folders: GlobSet,
    /// Whether files of the base are protected and manifests merged.
    knows_manifests: bool,
    /// `protect` of the task.
    written: GlobSet,
    /// Exceptions: patterns of `protect` that begin with `!`.
    agents: GlobSet,
    /// `solution_paths` of the task: only these files come from the agent.
    solution: Option<GlobSet>,
    /// Whether new manifests come from the agent, because the task is a new project.
    is_new_project: bool,
}

/// Ends of files that runners load because their settings name them.
const MODULES: [&str; 10] = [
    "cjs", "cts", "js", "json", "jsx", "mjs", "mts", "py", "ts", "tsx",
];

/// The owner of the judged version of a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Owner {
    /// The agent's.
    Agent,
    /// The task's. A file that only the agent has is removed.
    Task,
    /// The agent's, with some keys of the task.
    Shared,
}

/// The position of a file, by its path and the rules of an evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Byte-code or a cache.
    Cache,
    /// Listed in `protect`, or not in `solution_paths`.
    Task,
    /// Listed in `solution_paths`, or in `protect` with a `!`.
    Agent,
    /// Determines how tests or linters run.
    Decisive,
    /// Any other.
    Other,
}

/// Facts about the task that determine the owner of a file.
#[derive(Clone, Debug, Default)]
pub(in crate::evaluate) struct Circumstances {
    /// Whether the files that the reference solution changes are known.
    pub(in crate::evaluate) has_reference: bool,
    /// Files that the reference solution changes.
    pub(in crate::evaluate) of_reference: BTreeSet<String>,
    /// Files that the command names, relative to the copy.
    pub(in crate::evaluate) named: BTreeSet<String>,
    /// Files that the command runs.
    pub(in crate::evaluate) scripts: BTreeSet<String>,
    /// The names of programs in the command.
    pub(in crate::evaluate) programs: BTreeSet<String>,
    /// The working directory of the command, without a trailing slash.
    pub(in crate::evaluate) working_dir: String,
    /// Relevant makefiles and vendored packages of the base.
    pub(in crate::evaluate) on_base: BTreeSet<String>,
    /// Files that the base's makefiles include, or that settings of the base name.
    pub(in crate::evaluate) included: GlobSet,
    /// Folders of the base whose Go module has requirements and no vendored copies.
    pub(in crate::evaluate) unvendored: BTreeSet<String>,
}

impl Default for Protect {
    fn default() -> Protect {
        Protect {
            decisive: GlobSet::empty(),
            decisive_folders: GlobSet::empty(),
            knows_manifests: false,
            written: GlobSet::empty(),
            agents: GlobSet::empty(),
            solution: None,
            is_new_project: false,
        }
    }
}

impl Protect {
    /// The rules for commands that run tests.
    pub(crate) fn tests() -> Protect {
        Protect::by(&[TESTS, RUNNERS])
    }

    /// The rules for commands that run the work's own tests.
    pub(in crate::evaluate) fn runners() -> Protect {
        Protect::by(&[RUNNERS])
    }

    /// The rules for linters, builds and type checkers.
    pub(in crate::evaluate) fn linters() -> Protect {
        Protect::by(&[LINTERS])
    }

    fn by(lists: &[&[&str]]) -> Protect {
        Protect {
            decisive: known(lists),
            decisive_folders: folders(lists),
            knows_manifests: true,
            ..Protect::default()
        }
    }

    /// The same rules for a new project, whose manifests come from the agent.
    pub(crate) fn of_new_project(self) -> Protect {
        Protect {
            is_new_project: true,
            ..self
        }
    }

    /// The same rules with a file that comes from the task although a command names it.
    pub(crate) fn keeping(self, file: &'static str) -> Protect {
        Protect {
            written: known(&[&[file]]),
            ..self
        }
    }

    /// Adds `protect` of `config` to the default rules. An empty list turns them off.
    pub(crate) fn read(
        config: &Node,
        written: Option<&[String]>,
        usual: Protect,
    ) -> Result<Protect, Fault> {
        let Some(patterns) = written else {
            return Ok(usual);
        };
        if patterns.is_empty() {
            return Ok(Protect::default());
        }
        let (agents, tasks): (Vec<String>, Vec<String>) =
            patterns.iter().cloned().partition(|it| it.starts_with('!'));
        let agents: Vec<String> = agents.iter().map(|it| it[1..].to_owned()).collect();
        Ok(Protect {
            written: globs(config, "protect", &tasks)?,
            agents: globs(config, "protect", &agents)?,
            ..usual
        })
    }

    /// The same rules with `solution_paths`.
    pub(crate) fn confined_to(mut self, solution: Option<&GlobSet>) -> Protect {
        if let Some(solution) = solution {
            self.solution = Some(solution.clone());
        }
        self
    }

    /// The owner of the judged version of a changed file.
    pub(in crate::evaluate) fn owner(&self, file: &ChangedFile, facts: &Circumstances) -> Owner {
        let path = file.path.as_str();
        let is_new = file.origin == Origin::Agent;
        let is_product =
            facts.of_reference.contains(path) || (is_new && facts.named.contains(path));
        let mut position = self.position(path);
        if file.is_link() && matches!(position, Position::Other) {
            position = self.position_of_link(path);
        }
        match position {
            Position::Agent => Owner::Agent,
            Position::Decisive | Position::Other if is_product => Owner::Agent,
            Position::Cache | Position::Task | Position::Decisive => Owner::Task,
            Position::Other => self.owner_of_other(file, facts),
        }
    }

    /// The position of a file, the basis of all decisions about owners.
    fn position(&self, path: &str) -> Position {
        if caches().is_match(path) {
            return Position::Cache;
        }
        let of_solution = self.solution.as_ref().map(|it| it.is_match(path));
        match of_solution {
            _ if self.written.is_match(path) => Position::Task,
            Some(false) => Position::Task,
            Some(true) => Position::Agent,
            None if self.agents.is_match(path) => Position::Agent,
            None if self.decisive.is_match(path) => Position::Decisive,
            None => Position::Other,
        }
    }

    /// The position of a link that may lead to a folder: it stands for all files below it.
    fn position_of_link(&self, path: &str) -> Position {
        if cache_folders().is_match(path) || self.decisive_folders.is_match(path) {
            Position::Decisive
        } else {
            Position::Other
        }
    }

    /// The owner of a file without a special position: it may shadow a file of the task, or be a
    /// manifest.
    fn owner_of_other(&self, file: &ChangedFile, facts: &Circumstances) -> Owner {
        let path = file.path.as_str();
        let is_new = file.origin == Origin::Agent;
        if is_new && self.shadows(file, facts) {
            return Owner::Task;
        }
        let is_tasks =
            |module: &String| self.may_be_tasks(module) && facts.on_base.contains(module);
        if is_new && modules_before(path).iter().any(is_tasks) {
            return Owner::Task;
        }
        let package = vendored_package(path).filter(|_| self.knows_manifests);
        if package.is_some_and(|package| facts.on_base.contains(package)) {
            return Owner::Task;
        }
        let is_vendored = || vendored_below(path).is_some_and(|it| facts.unvendored.contains(it));
        if self.knows_manifests && (facts.included.is_match(path) || (is_new && is_vendored())) {
            return Owner::Task;
        }
        self.owner_of_manifest(path, is_new, facts)
    }

    /// Whether a file is the task's if settings of the base name it.
    pub(in crate::evaluate) fn may_be_named(&self, file: &ChangedFile) -> bool {
        let end = Utf8Path::new(&file.path).extension();
        let is_module = end.is_some_and(|end| MODULES.contains(&end));
        let is_of_base = file.origin == Origin::Base && self.knows_manifests;
        is_module && is_of_base && self.position(&file.path) == Position::Other
    }

    /// The files of the base that the owner of `path` depends on.
    pub(in crate::evaluate) fn relatives(&self, path: &str) -> Vec<String> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if MAKEFILES.contains(&name) {
            return MAKEFILES.iter().map(|name| join(folder, name)).collect();
        }
        let package = vendored_package(path).map(str::to_owned);
        let modules = modules_before(path).into_iter();
        let modules = modules.filter(|module| self.may_be_tasks(module));
        package.into_iter().chain(modules).collect()
    }

    /// Whether a module is the task's if the base has it.
    fn may_be_tasks(&self, module: &str) -> bool {
        let is_python = Utf8Path::new(module).extension() == Some("py");
        let is_test = is_python && of_base().is_match(module);
        is_test || self.decisive.is_match(module) || self.written.is_match(module)
    }

    fn owner_of_manifest(&self, path: &str, is_new: bool, facts: &Circumstances) -> Owner {
        if !self.knows_manifests {
            return Owner::Agent;
        }
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if MAKEFILES.contains(&name) {
            let mut others = MAKEFILES.iter().map(|name| join(folder, name));
            let has_one = others.any(|other| facts.on_base.contains(&other));
            return if !is_new || has_one {
                Owner::Task
            } else {
                Owner::Agent
            };
        }
        if manifest::is_manifest(path) {
            let is_product = is_new && (self.is_new_project || starts_from(path, folder, facts));
            return if is_product {
                Owner::Agent
            } else {
                Owner::Shared
            };
        }
        if !is_new && of_base().is_match(path) {
            Owner::Task
        } else {
            Owner::Agent
        }
    }

    /// Whether a new module would be loaded instead of one that pytest needs.
    fn shadows(&self, file: &ChangedFile, facts: &Circumstances) -> bool {
        let path = file.path.as_str();
        let below = match facts.working_dir.as_str() {
            "" => Some(path),
            folder => path
                .strip_prefix(folder)
                .and_then(|rest| rest.strip_prefix('/')),
        };
        // A link may point to a package.
        let is_module =
            file.is_link() || [".py", ".so", ".pyd"].iter().any(|end| path.ends_with(end));
        let first = below.and_then(|path| path.split(['/', '.']).next());
        let first = first.filter(|_| is_module && !self.decisive.is_empty());
        first.is_some_and(|first| {
            let is_library = facts.has_reference && PYTHON_LIBRARY.contains(&first);
            is_library || PYTHON_MODULES.contains(&first)
        })
    }

    /// Whether `protect` of the task or the rules of the evaluator name this file. Files that only `solution_paths` leaves
    /// out are not named.
    pub(in crate::evaluate) fn claims(&self, path: &str) -> bool {
        let is_decisive = self.decisive.is_match(path) && !self.agents.is_match(path);
        self.written.is_match(path) || is_decisive
    }

    /// Whether a file that the agent did not change must not change while the command runs.
    pub(in crate::evaluate) fn is_sealed(&self, path: &str) -> bool {
        let is_installed = || path.split('/').any(|part| part == "node_modules");
        match self.position(path) {
            Position::Task => self.written.is_match(path) || !is_installed(),
            Position::Decisive => !is_installed(),
            Position::Cache | Position::Agent | Position::Other => false,
        }
    }

    /// Whether a file that appears while the command runs would affect the rest of the run.
    pub(in crate::evaluate) fn is_decisive_when_new(&self, path: &str) -> bool {
        self.knows_manifests
            && runner_settings().is_match(path)
            && !path
                .split('/')
                .any(|part| part == "node_modules" || part == "target")
            && !caches().is_match(path)
    }

    /// Whether the task or the default rules define the owner of a file.
    pub(in crate::evaluate) fn answers(&self, path: &str) -> bool {
        let is_off = !self.knows_manifests && self.written.is_empty();
        let name = path.rsplit('/').next().unwrap_or(path);
        is_off || MAKEFILES.contains(&name) || self.position(path) != Position::Other
    }
}

#[cfg(test)]
mod tests;
