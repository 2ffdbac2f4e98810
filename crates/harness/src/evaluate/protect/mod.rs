//! Decides whose files are judged: the agent's, or those of the task. Everything that decides how tests are found,
//! configured and run is the task's.

mod go_mod;
mod makefile;
mod manifest;
mod patterns;
mod question;
mod toml_text;

use std::collections::BTreeSet;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use self::patterns::{CACHES, LINTERS, MAKEFILES, OF_BASE, PYTHON_MODULES, RUNNERS, TESTS};
pub(super) use self::{
    manifest::{Merged, is_manifest},
    question::{named_files, scripts},
};
use crate::{
    config::globs,
    workspace::{ChangedFile, Origin},
};
use proctor_document::{Fault, Node};

/// The rules of one evaluator.
#[derive(Clone, Debug)]
pub(crate) struct Protect {
    /// Positions that decide by themselves, for this kind of evaluator.
    decisive: GlobSet,
    /// Files that are the task's where the base has them; manifests are merged.
    knows_manifests: bool,
    /// `protect` of the task.
    written: GlobSet,
    /// Exceptions: patterns of `protect` that begin with `!`.
    agents: GlobSet,
    /// `solution_paths` of the task: nothing else is the agent's.
    solution: Option<GlobSet>,
    /// Whether manifests that the base does not have are the agent's: the task is a new project.
    is_new_project: bool,
}

/// The owner of the version of a changed file that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The agent's.
    Agent,
    /// The task's; a file that only the agent has is removed.
    Task,
    /// The agent's, with some keys of the task's.
    Shared,
}

/// The position of a file, by its path and the rules of an evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Byte-code or a cache.
    Cache,
    /// `protect` names it, or `solution_paths` does not.
    Task,
    /// `solution_paths` names it, or `protect` does with a `!`.
    Agent,
    /// It decides how tests or linters run.
    Decisive,
    /// Any other.
    Other,
}

/// The facts about the task that the owner of a file depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct Circumstances {
    /// Files that the reference solution changes.
    pub(super) of_reference: BTreeSet<String>,
    /// Files that the command names, below the copy.
    pub(super) named: BTreeSet<String>,
    /// Files that the command runs.
    pub(super) scripts: BTreeSet<String>,
    /// The names of programs in the command.
    pub(super) programs: BTreeSet<String>,
    /// The folder that the command runs in, without a slash at its end.
    pub(super) working_dir: String,
    /// Makefiles and vendored packages of the base, as far as they matter.
    pub(super) on_base: BTreeSet<String>,
    /// Files that the base's makefiles include.
    pub(super) included: GlobSet,
    /// Folders of the base whose Go module needs others and has no copies of them.
    pub(super) unvendored: BTreeSet<String>,
}

impl Default for Protect {
    fn default() -> Protect {
        Protect {
            decisive: GlobSet::empty(),
            knows_manifests: false,
            written: GlobSet::empty(),
            agents: GlobSet::empty(),
            solution: None,
            is_new_project: false,
        }
    }
}

impl Protect {
    /// For commands that run tests.
    pub(crate) fn tests() -> Protect {
        Protect {
            decisive: known(&[TESTS, RUNNERS]),
            knows_manifests: true,
            ..Protect::default()
        }
    }

    /// For commands that run the tests of the work itself.
    pub(super) fn runners() -> Protect {
        Protect {
            decisive: known(&[RUNNERS]),
            knows_manifests: true,
            ..Protect::default()
        }
    }

    /// For linters, builds and type checkers.
    pub(super) fn linters() -> Protect {
        Protect {
            decisive: known(&[LINTERS]),
            knows_manifests: true,
            ..Protect::default()
        }
    }

    /// The same for a new project, whose manifests are the agent's.
    pub(crate) fn of_new_project(self) -> Protect {
        Protect {
            is_new_project: true,
            ..self
        }
    }

    /// The same with a file that is the task's although a command names it.
    pub(crate) fn keeping(self, file: &'static str) -> Protect {
        Protect {
            written: known(&[&[file]]),
            ..self
        }
    }

    /// As `protect` in `config` says, besides the usual rules. An empty list turns them off.
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

    /// The same with `solution_paths`.
    pub(crate) fn confined_to(mut self, solution: Option<&GlobSet>) -> Protect {
        if let Some(solution) = solution {
            self.solution = Some(solution.clone());
        }
        self
    }

    /// The owner of the version of a changed file that is judged.
    pub(super) fn owner(&self, file: &ChangedFile, facts: &Circumstances) -> Owner {
        let path = file.path.as_str();
        let is_new = file.origin == Origin::Agent;
        let is_product =
            facts.of_reference.contains(path) || (is_new && facts.named.contains(path));
        match self.position(path) {
            Position::Agent => Owner::Agent,
            Position::Decisive | Position::Other if is_product => Owner::Agent,
            Position::Cache | Position::Task | Position::Decisive => Owner::Task,
            Position::Other => self.owner_of_other(file, facts),
        }
    }

    /// The position of a file. All questions about owners start from it.
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

    /// The owner of a file that is in no position of its own: it may stand in the way of one of the task's, or be a
    /// manifest.
    fn owner_of_other(&self, file: &ChangedFile, facts: &Circumstances) -> Owner {
        let path = file.path.as_str();
        let is_new = file.origin == Origin::Agent;
        if is_new && self.shadows(file, facts) {
            return Owner::Task;
        }
        let is_test = |module: &String| {
            let is_known = self.decisive.is_match(module) || of_base().is_match(module);
            is_known && facts.on_base.contains(module)
        };
        if is_new && modules_before(path).iter().any(is_test) {
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

    /// Whether a new module would be loaded in the place of one that pytest needs.
    fn shadows(&self, file: &ChangedFile, facts: &Circumstances) -> bool {
        let path = file.path.as_str();
        let below = match facts.working_dir.as_str() {
            "" => Some(path),
            folder => path
                .strip_prefix(folder)
                .and_then(|rest| rest.strip_prefix('/')),
        };
        // A link may lead to a package.
        let is_link = file.work.as_ref().is_some_and(|entry| !entry.is_file());
        let is_module = is_link || [".py", ".so", ".pyd"].iter().any(|end| path.ends_with(end));
        let first = below.and_then(|path| path.split(['/', '.']).next());
        let first = first.filter(|_| is_module && !self.decisive.is_empty());
        first.is_some_and(|first| PYTHON_MODULES.contains(&first))
    }

    /// Whether a file that the agent did not change must be the same after the command has run.
    pub(super) fn is_sealed(&self, path: &str) -> bool {
        let is_installed = || path.split('/').any(|part| part == "node_modules");
        match self.position(path) {
            Position::Task => self.written.is_match(path) || !is_installed(),
            Position::Decisive => !is_installed(),
            Position::Cache | Position::Agent | Position::Other => false,
        }
    }

    /// Whether a file that appears while the command runs would decide about the rest of the run.
    pub(super) fn is_decisive_when_new(&self, path: &str) -> bool {
        self.knows_manifests
            && runner_settings().is_match(path)
            && !path
                .split('/')
                .any(|part| part == "node_modules" || part == "target")
            && !caches().is_match(path)
    }

    /// Whether the task says whose a file is, or the usual rules do.
    pub(super) fn answers(&self, path: &str) -> bool {
        let is_off = !self.knows_manifests && self.written.is_empty();
        let name = path.rsplit('/').next().unwrap_or(path);
        is_off || MAKEFILES.contains(&name) || self.position(path) != Position::Other
    }
}

/// Merge a manifest of the work with the task's.
pub(super) fn merge(path: &str, task: Option<&[u8]>, work: &[u8]) -> Merged {
    manifest::merge(path, task, work)
}

/// The files of the base that the owner of `path` depends on.
pub(super) fn relatives(path: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if MAKEFILES.contains(&name) {
        return MAKEFILES.iter().map(|name| join(folder, name)).collect();
    }
    let package = vendored_package(path).map(str::to_owned);
    package.into_iter().chain(modules_before(path)).collect()
}

/// The modules of Python in whose place a file would be loaded: Python looks for the package `tests/__init__.py` and
/// for `tests.so` before it looks for `tests.py`.
fn modules_before(path: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let first = name.split('.').next().unwrap_or(name);
    let is_extension = [".so", ".pyd"].iter().any(|end| name.ends_with(end));
    match name {
        "__init__.py" if !folder.is_empty() => vec![format!("{folder}.py")],
        _ if is_extension && first == "__init__" => vec![format!("{folder}.py")],
        _ if is_extension => vec![join(folder, &format!("{first}.py"))],
        _ => Vec::new(),
    }
}

/// The folder of the package of Node that a file belongs to, or that it would be loaded in the place of: Node looks
/// for `checker.js` before it looks into `checker`.
fn vendored_package(path: &str) -> Option<&str> {
    const MODULES: &str = "node_modules/";
    let at = path.rfind(MODULES)? + MODULES.len();
    let scope = match path[at..].strip_prefix('@') {
        Some(rest) => rest.find('/')? + 2,
        None => 0,
    };
    let name = &path[at + scope..];
    if let Some((package, _)) = name.split_once('/') {
        return Some(&path[..at + scope + package.len()]);
    }
    let ends = [".js", ".json", ".node", ".cjs", ".mjs", ".ts"];
    ends.iter().find_map(|end| path.strip_suffix(end))
}

/// Whether a command runs make, and the makefiles that it may read in its folder.
pub(super) fn makefiles(facts: &Circumstances) -> Vec<String> {
    let runs_make = ["make", "gmake"]
        .iter()
        .any(|it| facts.programs.contains(*it));
    let usual = MAKEFILES.iter().map(|name| join(&facts.working_dir, name));
    let named = facts.scripts.iter().cloned();
    let all: Vec<String> = usual.chain(named).collect();
    if runs_make { all } else { Vec::new() }
}

/// The paths, or patterns of paths, that a makefile includes. Make looks for them in the folder that it runs in.
pub(super) fn includes(makefile: &[u8], facts: &Circumstances) -> Vec<String> {
    let names = makefile::includes(&String::from_utf8_lossy(makefile));
    let names = names.iter().map(|name| join(&facts.working_dir, name));
    names.collect()
}

/// Patterns of paths that others wrote; a name that is not a pattern stands for itself.
pub(super) fn lenient_globs(patterns: &BTreeSet<String>) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
        if let Ok(glob) = glob {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}

/// The folder of the Go module whose copies of other modules a file would be among.
pub(super) fn vendored_below(path: &str) -> Option<&str> {
    match path.split_once("/vendor/") {
        Some((folder, _)) => Some(folder),
        None => path.starts_with("vendor/").then_some(""),
    }
}

/// Whether copies in `vendor` would stand in the place of modules that the base's `go.mod` names.
pub(super) fn needs_modules(go_mod: &[u8]) -> bool {
    go_mod::has_requirements(&String::from_utf8_lossy(go_mod))
}

/// Whether the command starts from this manifest, so that a task without one asks for it.
fn starts_from(path: &str, folder: &str, facts: &Circumstances) -> bool {
    let programs: &[&str] = match path.rsplit('/').next() {
        Some("package.json") => &["npm", "yarn", "pnpm", "bun"],
        Some("composer.json") => &["composer"],
        Some("Cargo.toml") => &["cargo"],
        Some("go.mod") => &["go"],
        _ => &[],
    };
    folder == facts.working_dir && programs.iter().any(|it| facts.programs.contains(*it))
}

pub(super) fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

fn known(lists: &[&[&str]]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in lists.iter().copied().flatten() {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .empty_alternates(true)
            .build();
        set.add(glob.expect("our own patterns are sound"));
    }
    set.build().expect("our own patterns are sound")
}

fn caches() -> &'static GlobSet {
    static SET: std::sync::LazyLock<GlobSet> = std::sync::LazyLock::new(|| known(&[CACHES]));
    &SET
}

fn of_base() -> &'static GlobSet {
    static SET: std::sync::LazyLock<GlobSet> = std::sync::LazyLock::new(|| known(&[OF_BASE]));
    &SET
}

fn runner_settings() -> &'static GlobSet {
    static SET: std::sync::LazyLock<GlobSet> = std::sync::LazyLock::new(|| known(&[RUNNERS]));
    &SET
}

/// Settings of runners and linters.
pub(super) fn settings() -> &'static GlobSet {
    static SET: std::sync::LazyLock<GlobSet> =
        std::sync::LazyLock::new(|| known(&[RUNNERS, LINTERS]));
    &SET
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(path: &str) -> ChangedFile {
        ChangedFile::example(path, Origin::Agent)
    }

    fn changed(path: &str) -> ChangedFile {
        ChangedFile::example(path, Origin::Base)
    }

    #[test]
    fn positions_that_decide_about_tests_are_the_tasks_and_code_is_the_agents() {
        let protect = Protect::tests();
        let facts = Circumstances::default();
        for path in [
            "tests/test_a.py",
            "pkg/tests/data/x.json",
            "conftest.py",
            "src/conftest.py",
            "src/a.test.ts",
            "jest.config.js",
            "a_test.go",
            "pytest.py",
            "pytest.pyc",
            "pluggy.py",
            "pluggy/__init__.py",
            "sitecustomize/__init__.py",
            "src/sitecustomize.py",
            "a/__pycache__/b.cpython-311.pyc",
            "test.js",
            "lib/add-test.js",
            "test-add.mjs",
            ".npmrc",
            "sub/.npmrc",
            "node_modules/.bin/jest",
            "src/node_modules/vitest/index.js",
            "rust-toolchain.toml",
            "__mocks__/fs.js",
            "json.py",
            "target/debug/deps/x",
            "node_modules/.cache/x",
            "testdata/golden",
            "app/tests.py",
            "src/tests.rs",
            "Tests/AppTests/A.swift",
            "src/app_tests.py",
        ] {
            assert_eq!(protect.owner(&new(path), &facts), Owner::Task, "{path}");
            if path != "json.py" && !path.starts_with("pytest.py") && !path.starts_with("pluggy") {
                assert_eq!(protect.owner(&changed(path), &facts), Owner::Task, "{path}");
            }
        }
        for path in [
            "src/main.rs",
            "contest.py",
            "src/latest.js",
            "README.md",
            "build.rs",
            "src/packaging.py",
            "types/index.d.ts",
            "html/index.html",
            "src/json.py",
            "node_modules/lodash/index.js",
            "Makefile",
            "src/test-utils/x.js",
            "target/doc.md",
            "src/spec.rs",
        ] {
            assert_eq!(protect.owner(&new(path), &facts), Owner::Agent, "{path}");
        }
        for path in [
            "package.json",
            "a/package.json",
            "pyproject.toml",
            "setup.cfg",
            "Cargo.toml",
        ] {
            assert_eq!(protect.owner(&new(path), &facts), Owner::Shared, "{path}");
            assert_eq!(
                protect.owner(&changed(path), &facts),
                Owner::Shared,
                "{path}"
            );
        }
    }

    #[test]
    fn a_makefile_is_the_agents_where_the_task_has_none() {
        let protect = Protect::tests();
        let mut facts = Circumstances::default();
        assert_eq!(protect.owner(&new("GNUmakefile"), &facts), Owner::Agent);
        facts.on_base.insert("Makefile".to_owned());
        assert_eq!(protect.owner(&new("GNUmakefile"), &facts), Owner::Task);
        assert_eq!(protect.owner(&new("sub/Makefile"), &facts), Owner::Agent);
        assert_eq!(protect.owner(&changed("Makefile"), &facts), Owner::Task);
    }

    #[test]
    fn files_that_are_loaded_in_the_place_of_the_tasks_are_the_tasks() {
        let protect = Protect::tests();
        let base = ["node_modules/checker", "node_modules/@s/x", "testcalc.py"];
        let facts = Circumstances {
            on_base: base.map(str::to_owned).into(),
            ..Circumstances::default()
        };
        for file in [
            new("node_modules/checker.js"),
            new("node_modules/checker/package.json"),
            changed("node_modules/@s/x/package.json"),
            new("node_modules/@s/x.json"),
            new("testcalc/__init__.py"),
            new("testcalc.cpython-311-x86_64-linux-gnu.so"),
            changed("testcalc.py"),
        ] {
            assert_eq!(protect.owner(&file, &facts), Owner::Task, "{file:?}");
        }
        for file in [
            new("node_modules/sum/index.js"),
            new("node_modules/@s/y/index.js"),
            new("calc/__init__.py"),
            new("testcalc/data.txt"),
            changed("pkg/testing.py"),
        ] {
            assert_eq!(protect.owner(&file, &facts), Owner::Agent, "{file:?}");
        }
        let without_tests = Protect::linters();
        let vendored = new("node_modules/checker.js");
        assert_eq!(without_tests.owner(&vendored, &facts), Owner::Task);
    }

    #[test]
    fn files_that_makefiles_include_and_new_copies_of_modules_are_the_tasks() {
        let protect = Protect::tests();
        let facts = Circumstances {
            included: lenient_globs(&BTreeSet::from(["a.mk".to_owned(), "[".to_owned()])),
            unvendored: BTreeSet::from([String::new()]),
            ..Circumstances::default()
        };
        for file in [
            new("a.mk"),
            changed("a.mk"),
            new("["),
            new("vendor/modules.txt"),
            changed("vendor/x.org/y/y.go"),
        ] {
            assert_eq!(protect.owner(&file, &facts), Owner::Task, "{file:?}");
        }
        for file in [
            new("b.mk"),
            new("sub/vendor/modules.txt"),
            new("go.mod.txt"),
            changed("vendor/modules.txt"),
        ] {
            assert_eq!(protect.owner(&file, &facts), Owner::Agent, "{file:?}");
        }
    }

    #[test]
    fn sealed_files_are_in_positions_of_the_task() {
        let tests = Protect::tests();
        let confined = Protect::tests().confined_to(Some(&known(&[&["src/**"]])));
        for (path, by_tests, by_solution) in [
            ("tests/a.py", true, true),
            ("src/tests.rs", true, false),
            ("src/main.rs", false, false),
            ("README.md", false, true),
            ("a/__pycache__/b.pyc", false, false),
            ("node_modules/jest/index.js", false, false),
        ] {
            assert_eq!(tests.is_sealed(path), by_tests, "{path}");
            assert_eq!(confined.is_sealed(path), by_solution, "{path}");
        }
    }

    #[test]
    fn products_of_the_task_are_the_agents() {
        let protect = Protect::tests();
        let facts = Circumstances {
            of_reference: BTreeSet::from(["tests/test_a.py".to_owned(), "package.json".to_owned()]),
            named: BTreeSet::from(["tests/new.sh".to_owned()]),
            programs: BTreeSet::from(["cargo".to_owned()]),
            ..Circumstances::default()
        };
        for file in [
            changed("tests/test_a.py"),
            changed("package.json"),
            new("tests/new.sh"),
            new("Cargo.toml"),
        ] {
            assert_eq!(protect.owner(&file, &facts), Owner::Agent, "{file:?}");
        }
        assert_eq!(protect.owner(&changed("tests/new.sh"), &facts), Owner::Task);
        assert_eq!(protect.owner(&new("sub/Cargo.toml"), &facts), Owner::Shared);
        assert_eq!(protect.owner(&new("a.pyc"), &facts), Owner::Task);
    }

    #[test]
    fn solution_paths_leave_nothing_else_to_the_agent() {
        let solution = known(&[&["src/**"]]);
        let protect = Protect::tests().confined_to(Some(&solution));
        let facts = Circumstances::default();
        assert_eq!(protect.owner(&new("src/a.py"), &facts), Owner::Agent);
        assert_eq!(protect.owner(&new("helper.py"), &facts), Owner::Task);
        assert_eq!(protect.owner(&changed("check.sh"), &facts), Owner::Task);
        assert_eq!(protect.owner(&new("src/a.pyc"), &facts), Owner::Task);
        assert!(protect.is_sealed("check.sh") && !protect.is_sealed("src/a.py"));
    }

    #[test]
    fn exceptions_and_additions_of_a_task_hold() {
        let config = Node::empty_map(proctor_document::Span::default());
        let patterns = ["test.sh".to_owned(), "!jest.config.js".to_owned()];
        let protect = Protect::read(&config, Some(&patterns), Protect::tests()).unwrap();
        let facts = Circumstances::default();
        assert_eq!(protect.owner(&changed("test.sh"), &facts), Owner::Task);
        assert_eq!(protect.owner(&new("jest.config.js"), &facts), Owner::Agent);
        assert_eq!(protect.owner(&new("conftest.py"), &facts), Owner::Task);
        let off = Protect::read(&config, Some(&[]), Protect::tests()).unwrap();
        assert_eq!(off.owner(&new("conftest.py"), &facts), Owner::Agent);
        assert_eq!(off.owner(&new("x.pyc"), &facts), Owner::Task);
        assert!(off.answers("check.sh") && !Protect::tests().answers("check.sh"));
    }
}
