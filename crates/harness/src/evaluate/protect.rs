//! What the agent has no say in: tests and the files that decide which of them run and how they
//! are judged. Before judging they are as the task has them.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::{config::Fault, config::Node, workspace::Origin};

/// Tests, and what runners read besides them: one that the agent made is taken out.
const TESTS: [&str; 34] = [
    "**/test/**",
    "**/tests/**",
    "**/__tests__/**",
    "**/spec/**",
    "**/*.test.*",
    "**/*.spec.*",
    "**/test_*.py",
    "**/*_test.py",
    "**/*_test.go",
    "**/*_spec.rb",
    "**/conftest.py",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "pytest.py",
    "pytest/**",
    "_pytest/**",
    "**/pytest.ini",
    "**/.pytest.ini",
    "**/pytest.toml",
    "**/tox.ini",
    "**/noxfile.py",
    "**/jest.config.*",
    "**/jest.setup.*",
    "**/*vitest.config.*",
    "**/vitest.workspace.*",
    "**/vitest.setup.*",
    "**/.mocharc*",
    "**/karma.conf.*",
    "**/.babelrc*",
    "**/babel.config.*",
    "**/.config/nextest.toml",
    "**/.cargo/config*",
    "**/phpunit.xml*",
    "**/.rspec",
];

/// What a project may have to make for itself: only one that the task has is restored.
const MANIFESTS: [&str; 8] = [
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "Makefile",
    "**/vite.config.*",
    ".npmrc",
    "**/tsconfig*.json",
    "justfile",
];

/// Settings of linters and compilers.
const LINTERS: [&str; 24] = [
    "**/.eslintrc*",
    "**/.eslintignore",
    "**/eslint.config.*",
    "**/biome.json*",
    "**/.prettierrc*",
    "**/.prettierignore",
    "**/tslint.json",
    "**/clippy.toml",
    "**/.clippy.toml",
    "**/rustfmt.toml",
    "**/.rustfmt.toml",
    "**/ruff.toml",
    "**/.ruff.toml",
    "**/.flake8",
    "**/.pylintrc",
    "**/pylintrc",
    "**/mypy.ini",
    "**/.mypy.ini",
    "**/pyrightconfig.json",
    "**/.golangci*",
    "**/.rubocop.yml",
    "**/.stylelintrc*",
    "**/.jshintrc",
    "**/.cargo/config*",
];

/// Which files.
#[derive(Clone, Debug)]
pub(crate) struct Protect {
    /// Also when the agent made them.
    always: GlobSet,
    /// When the task has them.
    of_task: GlobSet,
}

impl Default for Protect {
    fn default() -> Protect {
        Protect {
            always: GlobSet::empty(),
            of_task: GlobSet::empty(),
        }
    }
}

impl Protect {
    /// Tests and the files that decide about them.
    pub(crate) fn tests() -> Protect {
        Protect {
            always: known(&TESTS),
            of_task: known(&MANIFESTS),
        }
    }

    /// Settings of linters.
    pub(super) fn linters() -> Protect {
        Protect {
            always: known(&LINTERS),
            of_task: known(&MANIFESTS),
        }
    }

    /// As `protect` in `config` says; what is usual when it says nothing.
    pub(crate) fn read(
        config: &Node,
        written: Option<&[String]>,
        usual: Protect,
    ) -> Result<Protect, Fault> {
        let Some(patterns) = written else {
            return Ok(usual);
        };
        Ok(Protect {
            always: globs(config, "protect", patterns)?,
            of_task: GlobSet::empty(),
        })
    }

    /// Whether a file that differs from the task's is to be as the task has it.
    pub(super) fn has(&self, path: &str, origin: Origin) -> bool {
        self.always.is_match(path) || (origin == Origin::Base && self.of_task.is_match(path))
    }
}

/// Patterns of a setting.
pub(super) fn globs(config: &Node, key: &str, patterns: &[String]) -> Result<GlobSet, Fault> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).map_err(|error| {
            let message = format!("`{pattern}` is not a pattern: {}", error.kind());
            config.fault(key, message)
        })?;
        set.add(glob);
    }
    set.build()
        .map_err(|error| config.fault(key, error.to_string()))
}

fn known(patterns: &[&str]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).expect("our own patterns are sound"));
    }
    set.build().expect("our own patterns are sound")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_about_tests_is_protected_and_code_is_not() {
        let protect = Protect::tests();
        for path in [
            "tests/test_a.py",
            "pkg/tests/data/x.json",
            "conftest.py",
            "src/conftest.py",
            "src/a.test.ts",
            "jest.config.js",
            "a_test.go",
            "pytest.py",
        ] {
            assert!(protect.has(path, Origin::Agent), "{path}");
            assert!(protect.has(path, Origin::Base), "{path}");
        }
        for path in ["src/main.rs", "contest.py", "src/latest.js", "README.md"] {
            assert!(!protect.has(path, Origin::Base), "{path}");
        }
    }

    #[test]
    fn a_manifest_is_the_tasks_when_it_has_one() {
        let protect = Protect::tests();
        assert!(protect.has("package.json", Origin::Base));
        assert!(!protect.has("package.json", Origin::Agent));
    }
}
