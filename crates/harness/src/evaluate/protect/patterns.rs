//! Patterns of files that affect judging: tests, settings of runners and linters, manifests, and
//! caches of tools.

use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Tests, and data that only tests read.
pub(super) const TESTS: &[&str] = &[
    "**/test/**",
    "**/{tests,Tests}/**",
    "**/__tests__/**",
    "**/__mocks__/**",
    "**/__snapshots__/**",
    "**/__fixtures__/**",
    "**/tap-snapshots/**",
    "**/spec/**",
    "**/testdata/**",
    "**/*.test.*",
    "**/*.spec.*",
    "**/*.{snap,bats,feature}",
    "**/*.cy.{js,jsx,ts,tsx}",
    "**/t/*.t",
    "**/{test,spec}.{js,cjs,mjs,jsx,ts,cts,mts,tsx}",
    "**/test-*.{js,cjs,mjs,jsx,ts,cts,mts,tsx}",
    "**/*[-_]{test,spec}.{js,cjs,mjs,jsx,ts,cts,mts,tsx}",
    "**/{test,tests}.{py,rs,rb,go,c,cc,cpp}",
    "**/test_*.{py,rb,rs,c,cc,cpp}",
    "**/*_test.{py,go,rb,rs,exs,sh,c,cc,cpp,dart}",
    "**/*_tests.{py,rs,rb,c,cc,cpp}",
    "**/*_spec.rb",
    "**/*{Test,Tests,Spec}.{java,kt,cs,php,swift,scala,groovy}",
];

/// Settings of test runners, and files that are loaded into a runner because of their name.
pub(super) const RUNNERS: &[&str] = &[
    "**/conftest.py",
    "**/{sitecustomize,usercustomize}.*",
    "**/{sitecustomize,usercustomize}/**",
    "**/*.pth",
    "**/*.{dist-info,egg-info}/entry_points.txt",
    "**/{.,}pytest.{ini,toml}",
    "**/tox.{ini,toml}",
    "**/noxfile.py",
    "**/.coveragerc*",
    "**/jest.{config,setup,preset,resolver,transform}*",
    "**/{jest,vitest}-*.{js,cjs,mjs,json,ts,cts,mts}",
    "**/setup{Tests,Jest,Vitest,-tests,-jest,-vitest}.{js,cjs,mjs,jsx,ts,cts,mts,tsx}",
    "**/{vite,vitest}.{config,workspace,setup,projects}.*",
    "**/*vitest.config.*",
    "**/{postcss.config.,.postcssrc}*",
    "**/.mocharc*",
    "**/{ava,cypress,playwright,web-test-runner,jasmine,nyc,c8}.config.*",
    "**/{karma,wdio,nightwatch}.conf.*",
    "**/{jasmine,testem,cucumber}.{json,js,cjs,mjs,yml,yaml}",
    "**/{.taprc,.nycrc,.c8rc,.swcrc,.babelrc,.labrc,.testcaferc}*",
    "**/babel.config.*",
    "**/bunfig.toml",
    "**/.npmrc",
    "**/.yarnrc*",
    "**/.yarn/{releases,plugins,sdks}/**",
    "**/{.pnpmfile.*,pnpm-workspace.yaml}",
    "**/.pnp.*",
    "**/node_modules/.bin/**",
    "**/node_modules/{jest,jest-*,babel-jest,ts-jest,expect,vitest,vite,vite-node,mocha,chai,ava,tap,jasmine,jasmine-core,karma,tsx,ts-node,c8,nyc,supertest}/**",
    "**/node_modules/{@jest,@vitest,@swc,@tapjs,@playwright,@testing-library}/**",
    "**/.config/nextest.toml",
    "**/.cargo/config*",
    "**/rust-toolchain*",
    "**/go.work{,.sum}",
    "**/{.tool-versions,.nvmrc,.sdkmanrc,.*-version}",
    "**/{.,}mise{,.*}.toml",
    "**/.mise/**",
    "**/.config/mise/**",
    "**/phpunit*.xml*",
    "**/{.rspec,.proverc,.busted,.behaverc,behave.ini,dart_test.yaml}",
    "**/features/environment.py",
    "**/features/steps/*.py",
    "**/features/step_definitions/**",
    "**/.mvn/**",
    "**/gradle/wrapper/**",
    "**/{mvnw,gradlew}{,.cmd,.bat}",
    "**/{*.runsettings,xunit.runner.json,testconfig.json,Directory.Build.*,[Nn]u[Gg]et.[Cc]onfig}",
    "**/CTest*.cmake",
];

/// Python modules that pytest loads before it looks for tests. A module of the same name in
/// pytest's working directory would be loaded instead.
pub(super) const PYTHON_MODULES: &[&str] = &[
    "_pytest",
    "attr",
    "attrs",
    "coverage",
    "exceptiongroup",
    "iniconfig",
    "packaging",
    "pluggy",
    "py",
    "pygments",
    "pytest",
    "pytest_asyncio",
    "pytest_cov",
    "pytest_mock",
    "tomli",
    "xdist",
    "__future__",
    "_bisect",
    "_blake2",
    "_bz2",
    "_collections_abc",
    "_compression",
    "_csv",
    "_datetime",
    "_decimal",
    "_distutils_hack",
    "_elementtree",
    "_hashlib",
    "_heapq",
    "_json",
    "_lzma",
    "_opcode",
    "_posixsubprocess",
    "_random",
    "_sha512",
    "_sitebuiltins",
    "_socket",
    "_struct",
    "_typing",
    "_uuid",
    "_weakrefset",
    "abc",
    "argparse",
    "array",
    "ast",
    "atexit",
    "base64",
    "bdb",
    "binascii",
    "bisect",
    "bz2",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "contextlib",
    "copy",
    "copyreg",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "doctest",
    "email",
    "encodings",
    "enum",
    "errno",
    "fcntl",
    "fnmatch",
    "functools",
    "genericpath",
    "getpass",
    "gettext",
    "glob",
    "hashlib",
    "heapq",
    "html",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "marshal",
    "math",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "os",
    "pathlib",
    "pdb",
    "platform",
    "posixpath",
    "pprint",
    "pyexpat",
    "quopri",
    "random",
    "re",
    "readline",
    "reprlib",
    "select",
    "selectors",
    "shlex",
    "shutil",
    "signal",
    "site",
    "socket",
    "stat",
    "string",
    "struct",
    "subprocess",
    "sys",
    "sysconfig",
    "tempfile",
    "termios",
    "textwrap",
    "threading",
    "time",
    "token",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uuid",
    "warnings",
    "weakref",
    "xml",
    "zipfile",
    "zipimport",
    "zlib",
];

/// Other modules of the standard library, and packages that help tests. Some are names that a task may ask for, so that
/// they are the task's only where a reference solution says what it asks for.
pub(super) const PYTHON_LIBRARY: &[&str] = &[
    "aifc",
    "approvaltests",
    "asynchat",
    "asyncio",
    "asyncore",
    "audioop",
    "builtins",
    "cProfile",
    "calendar",
    "cgi",
    "cgitb",
    "chunk",
    "cmath",
    "colorsys",
    "compileall",
    "concurrent",
    "configparser",
    "contextvars",
    "crypt",
    "ctypes",
    "curses",
    "dbm",
    "distutils",
    "factory",
    "faker",
    "faulthandler",
    "filecmp",
    "fileinput",
    "fractions",
    "freezegun",
    "ftplib",
    "gc",
    "getopt",
    "graphlib",
    "grp",
    "gzip",
    "hmac",
    "http",
    "hypothesis",
    "imaplib",
    "imghdr",
    "imp",
    "mailbox",
    "mailcap",
    "mimetypes",
    "mmap",
    "mock",
    "modulefinder",
    "msilib",
    "msvcrt",
    "multiprocessing",
    "netrc",
    "nis",
    "nntplib",
    "nose",
    "nt",
    "nturl2path",
    "numpy",
    "optparse",
    "ossaudiodev",
    "pandas",
    "parameterized",
    "pickle",
    "pickletools",
    "pipes",
    "pkgutil",
    "plistlib",
    "poplib",
    "posix",
    "profile",
    "pstats",
    "pty",
    "pwd",
    "py_compile",
    "pyclbr",
    "pydoc",
    "pytest_httpserver",
    "queue",
    "requests_mock",
    "resource",
    "responses",
    "respx",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "shelve",
    "smtpd",
    "smtplib",
    "snapshottest",
    "sndhdr",
    "socketserver",
    "spwd",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "statistics",
    "stringprep",
    "sunau",
    "symtable",
    "syrupy",
    "syslog",
    "tabnanny",
    "tarfile",
    "telnetlib",
    "testfixtures",
    "timeit",
    "tkinter",
    "tomllib",
    "trace",
    "tracemalloc",
    "tty",
    "turtle",
    "uu",
    "venv",
    "wave",
    "webbrowser",
    "winreg",
    "winsound",
    "wsgiref",
    "xdrlib",
    "xmlrpc",
    "zipapp",
    "zoneinfo",
];

/// Settings of linters and compilers.
pub(super) const LINTERS: &[&str] = &[
    "**/.eslintrc*",
    "**/.{eslint,prettier,stylelint,semgrep,ruff,}ignore",
    "**/eslint.config.*",
    "**/biome.json*",
    "**/{.oxlintrc,.jshintrc,.jscsrc}*",
    "**/.prettierrc*",
    "**/prettier.config.*",
    "**/tslint.json",
    "**/{.,}clippy.toml",
    "**/{.,}rustfmt.toml",
    "**/{.,}ruff.toml",
    "**/.flake8",
    "**/{.,}pylintrc*",
    "**/{.,}mypy.ini",
    "**/pyrightconfig.json",
    "**/.bandit*",
    "**/.golangci*",
    "**/.rubocop*",
    "**/.{stylelintrc,shellcheckrc,isort.cfg,pydocstyle,clang-tidy,yamllint,hadolint,luacheckrc,swiftlint}*",
    "**/{ty.toml,phpstan.neon,phpstan.neon.dist,psalm.xml,dprint.json,knip.json,staticcheck.conf,revive.toml}",
    "**/{.editorconfig,.clang-format,.credo.exs,.sqlfluff,.codespellrc,.vale.ini,.scalafix.conf,.scalafmt.conf}",
    "**/{.markdownlint*,.cspell*,cspell.*,.php-cs-fixer*,phpcs.xml*,detekt.yml,checkstyle.xml}",
    "**/.pre-commit-config.yaml",
    "**/.cargo/config*",
    "**/rust-toolchain*",
    "**/.npmrc",
    "**/.yarnrc*",
    "**/.yarn/{releases,plugins,sdks}/**",
    "**/.pnpmfile.*",
    "**/node_modules/.bin/**",
    "**/node_modules/{eslint,eslint-*,typescript,prettier,stylelint}/**",
    "**/node_modules/{@eslint,@typescript-eslint,@biomejs}/**",
];

/// Files that a project may have to create itself: only those of the base are restored.
pub(super) const OF_BASE: &[&str] = &[
    // Test files of unittest. `testing.py` is often a module of a library.
    "**/test[!_i]*.py",
    "**/tsconfig*.json",
    "**/{j,J,.j}ustfile",
    "**/{Taskfile,taskfile}.y{a,}ml",
    "**/Rakefile",
    "**/{deno,nx,turbo,lerna}.json*",
    "**/.env.test*",
    "**/node_modules/**",
    "**/vendor/**/*.{go,php,rb,rs,s,c,h}",
];

/// The file names that make looks for.
pub(super) const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// Byte-code and caches, which would be used instead of the sources next to them.
pub(super) const CACHES: &[&str] = &[
    "**/__pycache__/**",
    "**/*.py[co]",
    "**/{.pytest_cache,.mypy_cache,.ruff_cache,.hypothesis,.tox,.nox,.eggs}/**",
    "**/site-packages/**",
    "**/{.venv,venv}/**",
    "**/{CMakeCache.txt,DartConfiguration.tcl}",
    "**/CMakeFiles/**",
    "**/node_modules/{.cache,.vite,.vite-temp,.vitest}/**",
    "**/{.jest-cache,.nyc_output,.parcel-cache,.turbo}/**",
    "**/.eslintcache",
    "**/*.tsbuildinfo",
    "**/.coverage",
    "**/target/{debug,release,nextest,tmp}/**",
    "**/target/*/{debug,release}/**",
];

/// Settings in a home folder that decide about programs which start later.
const HOME: &[&str] = &[
    "{.npmrc,.yarnrc,.yarnrc.yml,.bunfig.toml,.mocharc*,.rspec,.proverc,.pydistutils.cfg,.gitconfig}",
    "{.profile,.bashrc,.bash_profile,.bash_login,.zshenv,.zshrc,.shrc,.envrc}",
    ".cargo/config*",
    ".cargo/bin/**",
    ".config/{go,git,pip,npm,nextest,direnv,fish}/**",
    "{.node_modules,.node_libraries}/**",
    ".local/bin/**",
    ".local/**/{sitecustomize,usercustomize}{.py,/__init__.py}",
    ".local/**/*.pth",
];

pub(super) fn known(lists: &[&[&str]]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in lists.iter().copied().flatten() {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .empty_alternates(true)
            .build();
        set.add(glob.expect("built-in patterns are valid"));
    }
    set.build().expect("built-in patterns are valid")
}

/// The folders that the files of these patterns are in. A link in the place of one stands for all of them.
pub(super) fn folders(lists: &[&[&str]]) -> GlobSet {
    let folders_of = |pattern: &str| -> Vec<String> {
        let slashes = pattern.match_indices('/').map(|(at, _)| &pattern[..at]);
        let named = slashes.filter(|folder| !folder.ends_with("**"));
        named.map(str::to_owned).collect()
    };
    let patterns = lists.iter().copied().flatten();
    let folders: Vec<String> = patterns.flat_map(|it| folders_of(it)).collect();
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    known(&[folders.as_slice()])
}

pub(super) fn cache_folders() -> &'static GlobSet {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| folders(&[CACHES]));
    &SET
}

pub(super) fn caches() -> &'static GlobSet {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| known(&[CACHES]));
    &SET
}

pub(super) fn of_base() -> &'static GlobSet {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| known(&[OF_BASE]));
    &SET
}

pub(super) fn runner_settings() -> &'static GlobSet {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| known(&[RUNNERS]));
    &SET
}

/// Settings of runners and linters.
pub(in crate::evaluate) fn settings() -> &'static GlobSet {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| known(&[RUNNERS, LINTERS]));
    &SET
}

/// Whether a file has settings of runners or linters, which may name further files.
pub(in crate::evaluate) fn has_settings(path: &str) -> bool {
    let manifests = ["package.json", "pyproject.toml", "setup.cfg"];
    let name = path.rsplit('/').next().unwrap_or(path);
    settings().is_match(path) || manifests.contains(&name)
}

/// Whether a path is that of a test, of data that only tests read, or of a runner's settings.
pub fn is_test_file(path: &str) -> bool {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| known(&[TESTS, RUNNERS]));
    SET.is_match(path)
}

/// The patterns of tests, settings of runners and caches, which never come from an agent.
pub fn test_patterns() -> impl Iterator<Item = &'static str> {
    [TESTS, RUNNERS, CACHES].into_iter().flatten().copied()
}

/// Whether a file below a home folder decides about programs which start later.
pub(in crate::evaluate) fn is_home_setting(path: &str) -> bool {
    static SET: LazyLock<GlobSet> = LazyLock::new(|| known(&[HOME]));
    SET.is_match(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_home_folder_are_known_and_caches_are_not() {
        for path in [
            ".npmrc",
            ".cargo/config.toml",
            ".config/go/env",
            ".local/lib/python3.11/site-packages/usercustomize.py",
            ".local/lib/python3.11/site-packages/x.pth",
            ".node_modules/x/index.js",
            ".bashrc",
        ] {
            assert!(is_home_setting(path), "{path}");
        }
        for path in [
            ".npm/_logs/x.log",
            ".cargo/.package-cache",
            ".cache/pip/x",
            ".local/lib/python3.11/site-packages/x/__init__.py",
            "tmp/.npmrc",
        ] {
            assert!(!is_home_setting(path), "{path}");
        }
    }
}
