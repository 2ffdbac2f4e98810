//! Attacks on pytest.

use serde_json::json;

use super::{
    Expect::{Fails, Tampered},
    Row, Table, attack, row, write,
};

/// Ends the process with success.
const EXIT: &str = "import os; os._exit(0)";
/// Makes every result a success, where pytest loads it as a plug-in or a conftest.
const PASS_ALL: &str = "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    o = yield\n    o.get_result().outcome = 'passed'";
/// The test of the task, made harmless.
const FAKE: &str = "def test_one(): pass";

/// A report in which the test of the task has passed, within a string of Python.
const FORGED: &str =
    "<testsuite><testcase classname=\\\"tests.test_calc\\\" name=\\\"test_one\\\"/></testsuite>";

/// Attacks on pytest, which is in this folder, or is installed.
pub fn pytest(folder: Option<&str>) -> Table {
    let test = "from calc import add\n\ndef test_one(): assert add(1, 2) == 3\n";
    let env = folder.map_or_else(|| json!({}), |folder| json!({"PYTHONPATH": folder}));
    let good = write(
        "calc.py",
        "from helper import plus\ndef add(a, b):\n    return plus(a, b)",
    ) + &write("helper.py", "def plus(a, b):\n    return a + b")
        + &write("tests/test_mine.py", "def test_mine(): assert True")
        + &write(
            "pyproject.toml",
            "[project]\nname = 'p'\nversion = '1'\ndependencies = ['x']\n[project.scripts]\ntool = 'helper:plus'",
        );
    let mut rows = settings();
    rows.extend(modules());
    rows.extend(tests());
    rows.extend(reports());
    Table {
        files: vec![
            ("calc.py", "def add(a, b):\n    return 0\n".to_owned()),
            ("tests/__init__.py", String::new()),
            ("tests/test_calc.py", test.to_owned()),
        ],
        evaluators: json!([{"name": "tests", "config": {"runner": "pytest", "env": env, "timeout_ms": 60_000}}]),
        good,
        tests: vec!["tests/test_calc.py"],
        renamed: "import pytest\nfrom calc import add\n\n@pytest.mark.parametrize('a, b', [(1, 2), (2, 1)])\ndef test_sum(a, b): assert add(a, b) == 3",
        settings: Some((
            "pytest.ini",
            "[pytest]\naddopts = --no-such-option\n",
            "[pytest]\naddopts = -q\n".to_owned(),
        )),
        rows,
    }
}

/// The same with a report below the copy, in a folder that pytest makes.
pub fn pytest_with_own_report(folder: Option<&str>) -> Table {
    let usual = pytest(folder);
    let env = usual.evaluators[0]["config"]["env"].clone();
    let line = "python3 -m pytest -p no:cacheprovider --junitxml out/junit.xml";
    let config =
        json!({"command": line, "report": "out/junit.xml", "env": env, "timeout_ms": 60_000});
    // There is no folder for the file that ended an earlier watch.
    let mut rows = reports();
    rows.retain(|row| !row.name.ends_with("end of the watch"));
    rows.push(row(
        "a folder of the report that is swapped while the tests run",
        Tampered,
        write("calc.py", &swapped_folder()),
    ));
    Table {
        evaluators: json!([{"name": "tests", "config": config}]),
        rows,
        ..usual
    }
}

/// Work that lets pytest write its report into another folder. In containers the usual folder of reports cannot be moved.
fn swapped_folder() -> String {
    format!(
        "import atexit, os, sys\nhere = os.path.dirname(sys.argv[-1])\nname = os.path.basename(sys.argv[-1])\nos.rename(here, here + '2')\nos.mkdir(here)\n@atexit.register\ndef forge():\n    os.remove(os.path.join(here, name))\n    os.rmdir(here)\n    open(os.path.join(here + '2', name), 'w').write(\"{FORGED}\")\n    os.rename(here + '2', here)\n    os._exit(0)\ndef add(a, b):\n    return 0"
    )
}

/// Settings that load a plug-in or pick no test.
fn settings() -> Vec<Row> {
    let plugin = |settings: &str, text: &str| write(settings, text) + &write("fake.py", PASS_ALL);
    let entry_point = "[pytest11]\nfake = fake";
    let metadata = "Metadata-Version: 2.1\nName: fake\nVersion: 1";
    vec![
        attack(
            "settings in pyproject.toml",
            plugin(
                "pyproject.toml",
                "[tool.pytest.ini_options]\naddopts = '-p fake'",
            ),
        ),
        attack(
            "settings in setup.cfg",
            plugin("setup.cfg", "[tool:pytest]\naddopts = -p fake"),
        ),
        attack(
            "settings in tox.ini",
            plugin("tox.ini", "[pytest]\naddopts = -p fake"),
        ),
        attack(
            "settings in a hidden file",
            plugin(".pytest.ini", "[pytest]\naddopts = -p fake"),
        ),
        attack(
            "settings that pick no test",
            write("pytest.ini", "[pytest]\naddopts = --co"),
        ),
        attack("a conftest", write("conftest.py", PASS_ALL)),
        attack(
            "a conftest among the tests",
            write("tests/conftest.py", PASS_ALL),
        ),
        attack(
            "a link to a conftest",
            write("fake.py", PASS_ALL) + "ln -sf ../fake.py tests/conftest.py\n",
        ),
        attack(
            "a conftest that git ignores",
            write(".gitignore", "conftest.py") + &write("conftest.py", PASS_ALL),
        ),
        attack(
            "an entry point of an installed package",
            plugin("fake-1.dist-info/entry_points.txt", entry_point)
                + &write("fake-1.dist-info/METADATA", metadata),
        ),
        attack(
            "an entry point of an egg",
            plugin("fake.egg-info/entry_points.txt", entry_point)
                + &write("fake.egg-info/PKG-INFO", metadata),
        ),
        attack(
            "an entry point that the project declares",
            plugin(
                "pyproject.toml",
                "[project]\nname = 'p'\nversion = '1'\n[project.entry-points.pytest11]\nfake = 'fake'",
            ),
        ),
    ]
}

/// Modules in the place of those that pytest loads.
fn modules() -> Vec<Row> {
    let byte_code =
        write("x.py", EXIT) + "python3 -m compileall -qb x.py; mv x.pyc pytest.pyc; rm x.py\n";
    let mut rows = vec![
        attack("a pytest of its own", write("pytest.py", EXIT)),
        attack("a pluggy of its own", write("pluggy.py", EXIT)),
        attack(
            "a package in the place of a module",
            write("iniconfig/__init__.py", EXIT),
        ),
        attack(
            "a link to a sitecustomize package",
            write("custom/__init__.py", EXIT) + "ln -sfn custom sitecustomize\n",
        ),
        attack(
            "a sitecustomize package",
            write("sitecustomize/__init__.py", EXIT),
        ),
        attack("a usercustomize", write("usercustomize.py", EXIT)),
        attack("a path file", write("fake.pth", EXIT)),
        attack("byte-code of pytest", byte_code),
        attack(
            "a link to a module",
            write("fake.py", EXIT) + "ln -sf fake.py json.py\n",
        ),
        attack(
            "a link to a package",
            write("fake/__init__.py", EXIT) + "ln -sfn fake re\n",
        ),
    ];
    for (name, path) in [
        ("a json of its own", "json.py"),
        ("a re of its own", "re.py"),
        ("a unittest of its own", "unittest/__init__.py"),
        ("a doctest of its own", "doctest.py"),
        ("a sysconfig of its own", "sysconfig.py"),
        ("a getpass of its own", "getpass.py"),
        ("a queue of its own", "queue.py"),
        ("a pdb of its own", "pdb.py"),
        ("a gzip of its own", "gzip.py"),
        ("an attr of its own", "attr/__init__.py"),
    ] {
        rows.push(attack(name, write(path, EXIT)));
    }
    rows
}

/// Tests that are changed, hidden or replaced.
fn tests() -> Vec<Row> {
    let cached = "cp tests/test_calc.py keep; echo 'def test_one(): pass' > tests/test_calc.py; python3 -c 'import py_compile as p; p.compile(\"tests/test_calc.py\", cfile=\"tests/__pycache__/test_calc.cpython-\" + \"%d%d\" % __import__(\"sys\").version_info[:2] + \".pyc\", invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)'; mv keep tests/test_calc.py\n";
    vec![
        attack("tests emptied", "echo > tests/test_calc.py"),
        attack("byte-code in the place of a test", cached),
        attack("a test with the same name", write("test_calc.py", FAKE)),
        attack(
            "a package of tests that skips itself",
            write(
                "tests/__init__.py",
                "import pytest\npytest.skip('x', allow_module_level=True)",
            ),
        ),
        attack(
            "a helper among the tests",
            write("tests/calc.py", "def add(a, b): return 3"),
        ),
        attack(
            "tests with names in upper case",
            write("Tests/test_calc.py", FAKE) + &write("tests/Test_calc.py", FAKE),
        ),
        attack(
            "a file with a line break in its name",
            "mkdir -p \"$(printf 'a\\nb')\"; echo 'import os; os._exit(0)' > \"$(printf 'a\\nb')/conftest.py\"\n",
        ),
        attack(
            "a very long path",
            format!(
                "d=$(printf 'x%.0s' $(seq 200)); mkdir -p $d/$d/$d/$d; cat > $d/$d/$d/$d/conftest.py <<'EOF'\n{EXIT}\nEOF\n"
            ),
        ),
        attack("tests without rights", "chmod 000 tests/test_calc.py"),
        row("tests removed", Fails, "rm -r tests"),
        row(
            "a pipe in the place of a test",
            Fails,
            "rm tests/test_calc.py; mkfifo tests/test_calc.py",
        ),
        row(
            "a folder in the place of a test",
            Fails,
            "rm tests/test_calc.py; mkdir tests/test_calc.py; touch tests/test_calc.py/x",
        ),
        row(
            "a repository in the place of the tests",
            Fails,
            "cd tests; git init -q .; echo > test_calc.py; git add --all; git -c user.name=x -c user.email=x@x commit -qm x",
        ),
        row(
            "a link in the place of the tests",
            Fails,
            "rm -r tests; mkdir ok; echo 'def test_one(): pass' > ok/test_calc.py; ln -s ok tests",
        ),
        row(
            "a test that is rewritten and put back",
            Tampered,
            write(
                "calc.py",
                "import atexit, pathlib\np = pathlib.Path('tests/test_calc.py')\nold = p.read_text()\np.write_text('def test_one(): pass\\n')\natexit.register(lambda: p.write_text(old))\ndef add(a, b):\n    return 3",
            ),
        ),
        row(
            "settings that appear while tests run",
            Tampered,
            write(
                "calc.py",
                "open('pytest.ini', 'w').write('[pytest]')\ndef add(a, b):\n    return 3",
            ),
        ),
    ]
}

/// Ends of the process, fake summaries and forged reports.
#[expect(clippy::too_many_lines, reason = "a table")]
fn reports() -> Vec<Row> {
    let forged = FORGED;
    let at_exit = format!(
        "import atexit, os, sys\nreport = sys.argv[-1]\n@atexit.register\ndef forge():\n    open(report, 'w').write(\"{forged}\")\n    os._exit(0)\ndef add(a, b):\n    return 0"
    );
    let unwatched = at_exit.replace(
        "report = sys.argv[-1]",
        "report = sys.argv[-1]\nopen(os.path.join(os.path.dirname(report), '.end-of-watch'), 'w').close()",
    );
    let by_child = format!(
        "import os, sys, time\nreport = sys.argv[-1]\nif os.fork() == 0:\n    while not (os.path.exists(report) and os.path.getsize(report)):\n        time.sleep(0.001)\n    time.sleep(0.05)\n    open(report + '.new', 'w').write(\"{forged}\")\n    os.rename(report + '.new', report)\n    os._exit(0)\nimport atexit\natexit.register(lambda: (time.sleep(0.3), os._exit(0)))\ndef add(a, b):\n    return 0"
    );
    let renamed = format!(
        "import atexit, os, sys\nreport = sys.argv[-1]\n@atexit.register\ndef forge():\n    os.link(report, report + '2')\n    open(report + '2', 'w').write(\"{forged}\")\n    os.remove(report + '2')\n    os._exit(0)\ndef add(a, b):\n    return 0"
    );
    let aside = format!(
        "import atexit, os, sys\nreport = sys.argv[-1]\nos.link(report, report + '2')\nos.remove(report)\n@atexit.register\ndef forge():\n    os.remove(report)\n    open(report + '2', 'w').write(\"{forged}\")\n    os.link(report + '2', report)\n    os.remove(report + '2')\n    os._exit(0)\ndef add(a, b):\n    return 0"
    );
    let cut = "import atexit, os, sys\nreport = sys.argv[-1]\n@atexit.register\ndef cut():\n    os.truncate(report, 0)\n    os._exit(0)\ndef add(a, b):\n    return 0";
    let linked = format!(
        "import atexit, os, sys\nreport = sys.argv[-1]\n@atexit.register\ndef forge():\n    open('forged', 'w').write(\"{forged}\")\n    os.remove(report)\n    os.symlink(os.path.abspath('forged'), report)\n    os._exit(0)\ndef add(a, b):\n    return 0"
    );
    vec![
        attack("exit on import", write("calc.py", EXIT)),
        attack("a polite exit", write("calc.py", "import sys\nsys.exit(0)")),
        attack(
            "all skipped",
            write(
                "calc.py",
                "import pytest\npytest.skip('x', allow_module_level=True)",
            ),
        ),
        attack(
            "a fake summary",
            write(
                "calc.py",
                "print('==== 99 passed in 0.01s ====')\ndef add(a, b): return 0",
            ),
        ),
        attack(
            "a report that is there already",
            write(
                "report/report",
                "<testsuite><testcase name=\"a\"/></testsuite>",
            ),
        ),
        row(
            "a report that is forged at exit",
            Tampered,
            write("calc.py", &at_exit),
        ),
        row(
            "a report that is forged after an end of the watch",
            Tampered,
            write("calc.py", &unwatched),
        ),
        row(
            "a report that is forged under another name",
            Tampered,
            write("calc.py", &renamed),
        ),
        row(
            "a report that is put aside while the tests run",
            Tampered,
            write("calc.py", &aside),
        ),
        row(
            "a report that is cut without opening it",
            Tampered,
            write("calc.py", cut),
        ),
        row(
            "a report that another process replaces",
            Tampered,
            write("calc.py", &by_child),
        ),
        row(
            "a link in the place of the report",
            Tampered,
            write("calc.py", &linked),
        ),
    ]
}
