//! Mining with runners that CI does not install: `scripts/test matrix` does. Commands are detected, except
//! for mocha, which is not on the path.

use proctor_testkit::{TestContext, program, test_runner};

use super::{ledger, mine, only_task, results};
use crate::support::context;

type Files<'a> = &'a [(&'a str, &'a str)];

/// Commits a project, a function with its test, and a function whose test fails. The second becomes
/// a task with one new test, and the third is rejected.
fn assert_mined(context: &TestContext, [start, multiply, divide]: [Files<'_>; 3], args: &[&str]) {
    let repo = context.repo();
    repo.commit("Start", start);
    repo.commit("Multiply numbers", multiply);
    repo.commit("Divide numbers", divide);
    let output = mine(context, &[&["--times", "1", "--limit", "2"], args].concat());
    output.assert_code(0);
    let ledger = ledger(context);
    let expected = [
        ("Divide numbers", "NOT_GREEN"),
        ("Multiply numbers", "accepted"),
    ];
    let expected = expected.map(|(subject, result)| (subject.to_owned(), result.to_owned()));
    assert_eq!(results(&ledger), expected, "{output}\n{ledger:#}");
    let task = only_task(&ledger);
    assert_eq!(
        task["fail_to_pass"].as_array().unwrap().len(),
        1,
        "{task:#}"
    );
    assert_eq!(
        task["pass_to_pass"].as_array().unwrap().len(),
        1,
        "{task:#}"
    );
}

const RUBY: [&str; 3] = [
    "def add(a, b) = a + b\n",
    "def add(a, b) = a + b\ndef mul(a, b) = a * b\n",
    "def add(a, b) = a + b\ndef mul(a, b) = a * b\ndef div(a, b) = a - b\n",
];

#[test]
#[ignore = "needs RSpec: scripts/test matrix"]
fn rspec() {
    let Some(_) = program("rspec") else { return };
    let test = |sum: &str| {
        format!(
            "require './lib/calc'\ndescribe 'calc' do\n  it('{sum}') {{ expect({sum}).to eq 6 }}\nend\n"
        )
    };
    let [add, mul, div] = ["add(4, 2)", "mul(3, 2)", "div(12, 2)"].map(test);
    assert_mined(
        &context(),
        [
            &[("lib/calc.rb", RUBY[0]), ("spec/add_spec.rb", &add)],
            &[("lib/calc.rb", RUBY[1]), ("spec/mul_spec.rb", &mul)],
            &[("lib/calc.rb", RUBY[2]), ("spec/div_spec.rb", &div)],
        ],
        &[],
    );
}

#[test]
#[ignore = "needs minitest: scripts/test matrix"]
fn minitest() {
    let Some(_) = program("ruby") else { return };
    let test = |name: &str, sum: &str| {
        format!(
            "require 'minitest/autorun'\nrequire 'calc'\nclass {name}Test < Minitest::Test\n  def test_it\n    assert_equal 6, {sum}\n  end\nend\n"
        )
    };
    let add = test("Add", "add(4, 2)");
    let mul = test("Mul", "mul(3, 2)");
    let div = test("Div", "div(12, 2)");
    assert_mined(
        &context(),
        [
            &[("lib/calc.rb", RUBY[0]), ("test/add_test.rb", &add)],
            &[("lib/calc.rb", RUBY[1]), ("test/mul_test.rb", &mul)],
            &[("lib/calc.rb", RUBY[2]), ("test/div_test.rb", &div)],
        ],
        &[],
    );
}

#[test]
#[ignore = "needs PHPUnit: scripts/test matrix"]
fn phpunit() {
    let Some(_) = program("phpunit") else { return };
    let settings = "<?xml version=\"1.0\"?>\n<phpunit><testsuites><testsuite name=\"all\"><directory>tests</directory></testsuite></testsuites></phpunit>\n";
    let code = |name: &str, sum: &str| {
        format!("<?php\nfunction {name}(int $a, int $b): int {{ return {sum}; }}\n")
    };
    let test = |name: &str, sum: &str| {
        format!(
            "<?php\nrequire_once __DIR__ . '/../src/{name}.php';\nfinal class {name}Test extends PHPUnit\\Framework\\TestCase {{\n  public function testIt(): void {{ $this->assertSame(6, {sum}); }}\n}}\n"
        )
    };
    let (add, add_test) = (code("add", "$a + $b"), test("add", "add(4, 2)"));
    let (mul, mul_test) = (code("mul", "$a * $b"), test("mul", "mul(3, 2)"));
    let (div, div_test) = (code("div", "$a - $b"), test("div", "div(12, 2)"));
    assert_mined(
        &context(),
        [
            &[
                ("phpunit.xml", settings),
                ("src/add.php", &add),
                ("tests/addTest.php", &add_test),
            ],
            &[("src/mul.php", &mul), ("tests/mulTest.php", &mul_test)],
            &[("src/div.php", &div), ("tests/divTest.php", &div_test)],
        ],
        &[],
    );
}

#[test]
#[ignore = "needs CMake: scripts/test matrix"]
fn ctest() {
    let Some(_) = program("cmake") else { return };
    let cmake = "cmake_minimum_required(VERSION 3.21)\nproject(calc C)\nenable_testing()\nfile(GLOB tests tests/*.c)\nforeach(test ${tests})\n  get_filename_component(name ${test} NAME_WE)\n  add_executable(${name} ${test})\n  target_include_directories(${name} PRIVATE src)\n  add_test(NAME ${name} COMMAND ${name})\nendforeach()\n";
    let code =
        |name: &str, sum: &str| format!("static int {name}(int a, int b) {{ return {sum}; }}\n");
    let test = |name: &str, sum: &str| {
        format!(
            "#if __has_include(\"{name}.h\")\n#include \"{name}.h\"\nint main(void) {{ return {sum} != 6; }}\n#else\nint main(void) {{ return 1; }}\n#endif\n"
        )
    };
    let (add, add_test) = (code("add", "a + b"), test("add", "add(4, 2)"));
    let (mul, mul_test) = (code("mul", "a * b"), test("mul", "mul(3, 2)"));
    let (div, div_test) = (code("div", "a - b"), test("div", "div(12, 2)"));
    assert_mined(
        &context(),
        [
            &[
                ("CMakeLists.txt", cmake),
                ("src/add.h", &add),
                ("tests/add_test.c", &add_test),
            ],
            &[("src/mul.h", &mul), ("tests/mul_test.c", &mul_test)],
            &[("src/div.h", &div), ("tests/div_test.c", &div_test)],
        ],
        &[],
    );
}

/// The installed packages are linked.
#[test]
#[ignore = "needs mocha: scripts/test matrix"]
fn mocha() {
    let Some(folder) = test_runner("mocha") else {
        return;
    };
    let context = context();
    let test = |name: &str, sum: &str| {
        format!(
            "const assert = require('assert');\nconst calc = require('../calc.js');\ndescribe('calc', () => it('{name}', () => assert.equal(calc.{sum}, 6)));\n"
        )
    };
    let add = test("adds", "add(4, 2)");
    let mul = test("multiplies", "mul(3, 2)");
    let div = test("divides", "div(12, 2)");
    let code = "exports.add = (a, b) => a + b;\n";
    let more = format!("{code}exports.mul = (a, b) => a * b;\n");
    let most = format!("{more}exports.div = (a, b) => a - b;\n");
    let line = format!(
        "ln -s {folder}/node_modules node_modules && npx --no-install mocha --reporter xunit --reporter-option output=\"$PROCTOR_REPORT\""
    );
    let package = "{\"name\": \"calc\", \"scripts\": {\"test\": \"mocha\"}}\n";
    assert_mined(
        &context,
        [
            &[
                ("package.json", package),
                (".gitignore", "node_modules\n"),
                ("calc.js", code),
                ("test/add.js", &add),
            ],
            &[("calc.js", &more), ("test/mul.js", &mul)],
            &[("calc.js", &most), ("test/div.js", &div)],
        ],
        &["--test-cmd", &line],
    );
}
