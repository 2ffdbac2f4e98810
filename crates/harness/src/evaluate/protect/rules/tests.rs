//! Tables of owners.

use super::*;
use crate::evaluate::protect::lenient_globs;

fn new(path: &str) -> ChangedFile {
    ChangedFile::example(path, Origin::Agent)
}

fn changed(path: &str) -> ChangedFile {
    ChangedFile::example(path, Origin::Base)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn test_files_come_from_the_task_and_code_from_the_agent() {
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
        "src/setupTests.ts",
        "config/jest-environment-x.js",
        "pnpm-workspace.yaml",
        ".java-version",
        "mise.local.toml",
        ".config/mise/config.toml",
        ".mvn/maven.config",
        "gradlew",
        "gradle/wrapper/gradle-wrapper.properties",
        "ci.runsettings",
        "Directory.Build.targets",
        "phpunit.dist.xml",
        "features/steps/add.py",
        "features/add.feature",
        "t/add.t",
        "checks/add.bats",
        "build/CTestTestfile.cmake",
        "build/CMakeCache.txt",
        ".venv/bin/pytest",
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
        "src/features/steps/Steps.tsx",
        "src/setup.js",
        "jest.md",
        "src/version.py",
        "venv.py",
        "src/t.rs",
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
fn links_stand_for_the_files_below_them() {
    let protect = Protect::tests();
    let facts = Circumstances::default();
    let link = |path: &str| new(path).into_link();
    for path in [
        "node_modules",
        "node_modules/.bin",
        "node_modules/jest",
        ".cargo",
        ".config",
        "__mocks__",
        "__pycache__",
        "src/__pycache__",
        "target",
        "target/debug",
        "sitecustomize",
        "x.dist-info",
        "tests",
    ] {
        assert_eq!(protect.owner(&link(path), &facts), Owner::Task, "{path}");
    }
    for path in ["data", "src/lib", "node_modules/lodash", "docs/latest"] {
        assert_eq!(protect.owner(&link(path), &facts), Owner::Agent, "{path}");
    }
    assert_eq!(protect.owner(&new("target"), &facts), Owner::Agent);
    let facts = Circumstances {
        of_reference: BTreeSet::from(["node_modules".to_owned()]),
        unvendored: BTreeSet::from([String::new()]),
        ..Circumstances::default()
    };
    assert_eq!(protect.owner(&link("node_modules"), &facts), Owner::Agent);
    assert_eq!(protect.owner(&link("vendor"), &facts), Owner::Task);
}

#[test]
fn files_that_are_loaded_in_the_place_of_protected_ones_are_the_tasks() {
    let config = Node::empty_map(proctor_document::Span::default());
    let patterns = ["helper.py".to_owned(), "lib/check.ts".to_owned()];
    let protect = Protect::read(&config, Some(&patterns), Protect::tests()).unwrap();
    let facts = Circumstances {
        on_base: ["helper.py", "lib/check.ts"].map(str::to_owned).into(),
        ..Circumstances::default()
    };
    for path in [
        "helper/__init__.py",
        "helper.cpython-311-x86_64-linux-gnu.so",
        "lib/check.js",
        "lib/check",
        "lib/check.mjs",
    ] {
        assert!(
            protect
                .relatives(path)
                .iter()
                .any(|it| facts.on_base.contains(it))
        );
        assert_eq!(protect.owner(&new(path), &facts), Owner::Task, "{path}");
    }
    for path in ["lib/checks.js", "helper/data.json", "other/check.js"] {
        assert_eq!(protect.owner(&new(path), &facts), Owner::Agent, "{path}");
    }
}

#[test]
fn modules_of_the_standard_library_are_not_replaced_where_a_reference_says_what_is_asked_for() {
    let protect = Protect::tests();
    let mut facts = Circumstances::default();
    assert_eq!(protect.owner(&new("queue.py"), &facts), Owner::Agent);
    facts.has_reference = true;
    assert_eq!(protect.owner(&new("queue.py"), &facts), Owner::Task);
    assert_eq!(
        protect.owner(&new("fractions/__init__.py"), &facts),
        Owner::Task
    );
    assert_eq!(protect.owner(&new("src/queue.py"), &facts), Owner::Agent);
    assert_eq!(protect.owner(&new("mine.py"), &facts), Owner::Agent);
    facts.of_reference.insert("queue.py".to_owned());
    assert_eq!(protect.owner(&new("queue.py"), &facts), Owner::Agent);
}

#[test]
fn new_makefile_comes_from_the_agent() {
    let protect = Protect::tests();
    let mut facts = Circumstances::default();
    assert_eq!(protect.owner(&new("GNUmakefile"), &facts), Owner::Agent);
    facts.on_base.insert("Makefile".to_owned());
    assert_eq!(protect.owner(&new("GNUmakefile"), &facts), Owner::Task);
    assert_eq!(protect.owner(&new("sub/Makefile"), &facts), Owner::Agent);
    assert_eq!(protect.owner(&changed("Makefile"), &facts), Owner::Task);
}

#[test]
fn files_that_shadow_the_tasks_files_are_removed() {
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
fn included_makefiles_and_vendored_modules_come_from_the_task() {
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
fn files_that_settings_of_the_base_name_come_from_the_task() {
    let protect = Protect::tests();
    let mut facts = Circumstances {
        included: lenient_globs(&BTreeSet::from(["config/start.js".to_owned()])),
        ..Circumstances::default()
    };
    let named = changed("config/start.js");
    assert!(protect.may_be_named(&named) && !protect.may_be_named(&new("config/start.js")));
    assert_eq!(protect.owner(&named, &facts), Owner::Task);
    facts.of_reference.insert("config/start.js".to_owned());
    assert_eq!(protect.owner(&named, &facts), Owner::Agent);
}

#[test]
fn sealed_files_are_protected_files() {
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
fn expected_files_of_the_task_come_from_the_agent() {
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
fn only_solution_paths_come_from_the_agent() {
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
fn protect_adds_files_and_exceptions() {
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

/// Linters skip the files of such lists, also those of search tools.
#[test]
fn lists_of_ignored_files_come_from_the_task() {
    let protect = Protect::linters();
    let facts = Circumstances::default();
    for path in [
        ".ignore",
        "src/.ignore",
        ".eslintignore",
        ".prettierignore",
        ".stylelintignore",
        ".semgrepignore",
        ".isort.cfg",
        ".clang-tidy",
        "ty.toml",
    ] {
        assert_eq!(protect.owner(&new(path), &facts), Owner::Task, "{path}");
    }
    for path in [".gitignore", ".dockerignore", "ignore", "src/ignore.rs"] {
        assert_eq!(protect.owner(&new(path), &facts), Owner::Agent, "{path}");
    }
}
