//! A directory in which one end-to-end test runs, and the environment that goes with it.

use std::cell::Cell;
use std::env::consts::EXE_SUFFIX;
use std::path::Path;
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::Program;
use crate::fake::FakeScript;
use crate::platform;
use crate::repo::Repo;

/// Everything one end-to-end test needs, gone when it is dropped.
///
/// `home/`, `bin/` (first on the path), `repo/` (see [`Repo`]), `cases/`, `tmp/` and `cache/` lie in
/// one directory of a unique name, which is also the working directory.
#[derive(Debug)]
pub struct TestContext {
    _dir: TempDir,
    root: Utf8PathBuf,
    proctor: Utf8PathBuf,
    repo: Repo,
    programs: Cell<usize>,
}

impl TestContext {
    /// A context for this binary: pass `env!("CARGO_BIN_EXE_proctor")`.
    pub fn new(proctor: &str) -> Self {
        Self::named(proctor, "proctor-test-")
    }

    /// The same in a directory whose name starts with this text, which may be as odd as the file
    /// system allows.
    pub fn named(proctor: &str, prefix: &str) -> Self {
        Self::at(proctor, prefix, &std::env::temp_dir())
    }

    /// The same in memory if possible: a hundred trials would otherwise wait for a busy disk.
    pub fn in_memory(proctor: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let disk = std::env::temp_dir();
        let parent = if memory.is_dir() { memory } else { &disk };
        Self::at(proctor, "proctor-test-", parent)
    }

    fn at(proctor: &str, prefix: &str, parent: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(parent)
            .expect("a temporary directory");
        let root = platform::true_name(dir.path()).expect("the directory just made");
        let root = Utf8PathBuf::from_path_buf(root).expect("a temporary directory in UTF-8");
        for name in ["home", "bin", "cases", "tmp", "cache", "output"] {
            fs_err::create_dir(root.join(name)).expect("a directory of the context");
        }
        let repo = Repo::init(&root.join("repo"));
        // With its drive, where there are drives.
        let proctor = camino::absolute_utf8(proctor).expect("a path");
        Self {
            _dir: dir,
            repo,
            proctor,
            programs: Cell::new(0),
            root,
        }
    }

    /// The directory of the context. No other context has its name.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// The program under test.
    pub fn binary(&self) -> &Utf8Path {
        &self.proctor
    }

    /// The home directory.
    pub fn home(&self) -> Utf8PathBuf {
        self.root.join("home")
    }

    /// The directory of installed agents.
    pub fn bin(&self) -> Utf8PathBuf {
        self.root.join("bin")
    }

    /// The repository to run agents on.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// `proctor` with these arguments.
    pub fn proctor<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        self.program(&self.proctor, args)
    }

    /// Any program with these arguments, in the context's environment and nothing of the caller's.
    pub fn program<'a>(
        &self,
        program: &Utf8Path,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Program {
        let serial = self.programs.get();
        self.programs.set(serial + 1);
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .env_clear()
            .envs(platform::user_env(&self.root))
            .env("PATH", self.path());
        Program::new(command, self.root.join(format!("output/{serial}")))
    }

    /// The PATH of the context's programs: its own agents, then what the system has.
    fn path(&self) -> String {
        let (own, system) = (self.bin(), platform::system_path());
        format!("{own}{}{system}", platform::PATH_SEPARATOR)
    }

    /// Writes `cases/testcase.yaml` and returns its path.
    pub fn testcase(&self, yaml: &str) -> Utf8PathBuf {
        let path = self.root.join("cases/testcase.yaml");
        fs_err::write(&path, yaml).expect("the test case");
        path
    }

    /// Puts a fake agent of this name on the path that plays this script (see [`crate::fake`]).
    #[track_caller]
    pub fn install_fake(&self, name: &str, script: &Value) -> Utf8PathBuf {
        if let Err(error) = FakeScript::parse(script.clone()) {
            panic!("the script of {name}: {error}");
        }
        let program = self.bin().join(format!("{name}{EXE_SUFFIX}"));
        if !program.exists() {
            place(&self.fake_agent(), &program);
        }
        let file = self.bin().join(format!("{name}.script.json"));
        fs_err::write(file, script.to_string()).expect("the script");
        program
    }

    pub(crate) fn fake_agent(&self) -> Utf8PathBuf {
        let path = self
            .proctor
            .with_file_name(format!("fake-agent{EXE_SUFFIX}"));
        assert!(
            path.is_file(),
            "no fake agent at {path}: build it with `cargo build --workspace --bins`"
        );
        path
    }
}

/// Links a program, or copies it where links do not reach. A link is better: a copy that some
/// other thread still has open for writing cannot be executed.
pub(crate) fn place(program: &Utf8Path, at: &Utf8Path) {
    if fs_err::hard_link(program, at).is_err() {
        fs_err::copy(program, at).expect("a copy of the program");
    }
}
