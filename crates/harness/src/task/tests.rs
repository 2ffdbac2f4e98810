//! Tests of task folders: values, refused features with their positions, and Dockerfiles without
//! Docker.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::PromptSource;
use proctor_document::ConfigError;
use proctor_record::record::TaskKind;
use proctor_sandbox::Network;

use super::*;
use crate::{
    config::Settings,
    evaluate::VerifierMode,
    workspace::{Image, Recipe},
};

/// A task folder with these files in addition to the required ones.
pub(super) struct Folder {
    _dir: tempfile::TempDir,
    pub(super) path: Utf8PathBuf,
}

pub(super) fn folder(files: &[(&str, &str)]) -> Folder {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().join("greet")).unwrap();
    let always = [
        ("task.toml", ""),
        ("instruction.md", "<!-- canary -->\n\n# Greet\nSay hello.\n"),
        ("environment/Dockerfile", "FROM a\nWORKDIR /app\n"),
        ("tests/test.sh", "exit 0\n"),
    ];
    for (name, text) in always.iter().chain(files) {
        let file = path.join(name);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, text).unwrap();
    }
    Folder { _dir: dir, path }
}

pub(super) fn load(folder: &Folder) -> Result<Task, ConfigError> {
    let env = [("PATH", "/bin"), ("TOKEN", "s3cret-value")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    harbor::load(&folder.path, &env.into(), &Settings::default())
}

fn load_toml(text: &str) -> Result<Task, ConfigError> {
    load(&folder(&[("task.toml", text)]))
}

#[test]
fn task_has_the_defaults_of_harbor() {
    let task = load_toml("").unwrap();
    assert_eq!(task.name, "greet");
    assert_eq!(task.description, "Greet");
    assert_eq!(task.kind, TaskKind::Folder);
    assert_eq!(task.limits.timeout, None);
    assert_eq!(task.reference, None);
    assert_eq!(
        task.prompt().unwrap(),
        PromptSource::Text("# Greet\nSay hello.\n".to_owned())
    );
    let environment = task.environment().unwrap();
    assert_eq!(environment.network, None, "unset means public");
    assert_eq!(environment.build_timeout, Duration::from_mins(10));
    let verifier = task.verifier().unwrap();
    assert_eq!(verifier.mode, VerifierMode::Shared);
    assert_eq!(verifier.timeout, Duration::from_mins(10));
    assert!(task.needs_container().is_none());
}

#[test]
fn every_key_of_the_format_is_read() {
    let task = load_toml(
        r#"
version = "1.0"
source = "somewhere"
multi_step_reward_strategy = "mean"
artifacts = []
[metadata]
category = "bug-fix/small"
anything = { goes = ["here", 1] }
[task]
name = "org/greet"
version = "2"
description = "Says hello"
authors = [{ name = "A", email = "a@localhost" }]
keywords = ["x"]
[agent]
timeout_sec = 90
user = 1000
network_mode = "no-network"
[verifier]
timeout_sec = 30.5
user = "root"
environment_mode = "separate"
network_mode = "allowlist"
allowed_hosts = ["*.example.org", "10.0.0.0/8"]
[verifier.env]
KEY = "${TOKEN}"
[environment]
build_timeout_sec = 5
os = "linux"
cpus = 0.5
memory = "2G"
storage = "10G"
allow_internet = true
gpus = 0
gpu_types = []
mcp_servers = []
workdir = "/app"
env = { A = "${NOT_SET:-b}", B = "$C" }
[solution.env]
S = "1"
"#,
    )
    .unwrap();
    assert_eq!(task.name, "org/greet");
    assert!(task.is_called("greet") && task.is_called("org/greet"));
    assert_eq!(task.category.as_deref(), Some("bug-fix/small"));
    assert_eq!(task.limits.timeout, Some(Duration::from_secs(90)));
    let environment = task.environment().unwrap();
    assert_eq!(environment.cpus, Some(0.5));
    assert_eq!(environment.memory_mb, Some(2048));
    assert_eq!(environment.storage_mb, Some(10_240));
    assert_eq!(environment.user.as_deref(), Some("1000"));
    assert_eq!(environment.network, Some(Network::None), "the agent's own");
    assert_eq!(environment.env["A"], "b");
    assert_eq!(environment.env["B"], "$C");
    let verifier = task.verifier().unwrap();
    assert_eq!(verifier.mode, VerifierMode::Separate);
    assert_eq!(verifier.env["KEY"], "s3cret-value");
    let hosts = vec!["*.example.org".to_owned(), "10.0.0.0/8".to_owned()];
    assert_eq!(verifier.network, Some(Network::Allowlist(hosts)));
    let lost = task.lost_isolation().join("; ");
    for part in ["cpus, memory, storage", "network", "users"] {
        assert!(lost.contains(part), "{part}: {lost}");
    }
}

/// The error message, and the text that it points at.
pub(super) fn complaint(result: Result<Task, ConfigError>) -> (String, String) {
    let error = result.unwrap_err();
    let fault = &error.faults[0];
    let text = error.text.clone().unwrap_or_default();
    let at = text.get(fault.span.start..fault.span.end).unwrap_or("");
    (fault.message.clone(), at.to_owned())
}

/// Invalid task files, with a part of the error message and the start of the text that it points at.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "artifacts = [{source = \"/x\", service = \"db\"}]\n",
        "compose `service`",
        "[{source",
    ),
    ("artifacts = [{}]\n", "source", ""),
    ("[environment]\ngpus = 1\n", "`gpus`", "1"),
    ("[environment]\ntpu = {type = \"v4\"}\n", "`tpu`", "{type"),
    (
        "[environment]\nos = \"windows\"\n",
        "Windows",
        "\"windows\"",
    ),
    (
        "[[environment.mcp_servers]]\nname = \"x\"\n",
        "needs a `url`",
        "\"x\"",
    ),
    (
        "[[environment.mcp_servers]]\nname = \"x\"\ntransport = \"stdio\"\n",
        "needs a `command`",
        "\"x\"",
    ),
    (
        "[environment]\nmemory = \"much\"\n",
        "`memory` must be a size",
        "\"much\"",
    ),
    (
        "[environment]\nmemory = \"1G\"\nmemory_mb = 1\n",
        "`memory_mb` and the old `memory` differ",
        "\"1G\"",
    ),
    (
        "[environment]\nmemory_mb = 0\n",
        "`memory_mb` must be at least 1",
        "0",
    ),
    ("[environment]\ncpus = -1\n", "`cpus`", "-1"),
    ("[environment]\nworkdir = \"app\"\n", "`workdir`", "\"app\""),
    (
        "[environment]\nallowed_hosts = [\"a\"]\n",
        "has no effect without",
        "[\"a\"]",
    ),
    (
        "[environment]\nnetwork_mode = \"open\"\n",
        "open",
        "\"open\"",
    ),
    ("[agent]\ntimeout_sec = 0\n", "`timeout_sec`", "0"),
    ("[agent]\ntimeout_sec = \"soon\"\n", "a number", "\"soon\""),
    ("[verifier]\ntimeout_sec = nan\n", "`timeout_sec`", "nan"),
    ("[task]\nversion = \"1\"\n", "missing key `name`", ""),
    ("a = 1\na = 2\n", "duplicate", ""),
    (
        "[[verifier.collect]]\ncommand = \"x\"\nservice = \"db\"\n",
        "compose `service`",
        "\"db\"",
    ),
];

#[test]
fn unsupported_and_invalid_values_are_refused_with_positions() {
    for &(toml, message, at) in REFUSED {
        let (reported, place) = complaint(load_toml(toml));
        assert!(reported.contains(message), "{toml}: {reported}");
        assert!(place.starts_with(at), "{toml}: points at {place:?}");
    }
}

#[test]
fn any_format_version_and_unknown_keys_are_accepted_with_notes() {
    let task = load_toml(
        r#"
schema_version = "7.1"
benchmark = "x"
[task]
name = "org/greet"
authors = [{name = "a", orcid = "1"}, {name = "b", orcid = "2"}]
[metadata]
anything = [1, {a = 2}]
tell_deadline = "soon"
[environment]
memori_mb = 1
healthcheck = {command = "x", every = 1}
[verifier]
grader = {model = "m"}
[[verifier.collect]]
command = "x"
when = "late"
"#,
    )
    .unwrap();
    let unknown = [
        "benchmark",
        "task.authors.orcid",
        "verifier.grader",
        "verifier.collect.when",
        "environment.memori_mb",
        "environment.healthcheck.every",
    ];
    let expect = unknown.map(|key| format!("unknown key `{key}` in task.toml has no effect"));
    assert_eq!(task.notes, expect);
    assert!(!task.limits.tells_deadline);
}

#[test]
fn values_are_converted_like_in_harbor() {
    let task = load_toml(
        r#"
[agent]
timeout_sec = "9"
[environment]
os = "Linux"
cpus = "2"
memory = "2G"
memory_mb = 2048.0
storage = 3
docker_image = ""
gpus = 0
gpu_types = ["T4"]
network_mode = "allowlist"
"#,
    )
    .unwrap();
    assert_eq!(task.limits.timeout, Some(Duration::from_secs(9)));
    let environment = task.environment().unwrap();
    assert_eq!(environment.cpus, Some(2.0));
    assert_eq!(environment.memory_mb, Some(2048));
    assert_eq!(environment.storage_mb, None);
    assert_eq!(environment.network, Some(Network::Gateway));
    assert!(matches!(environment.image, Image::Build { .. }));
}

#[test]
fn unset_variable_prevents_a_run_but_not_reading() {
    let text = "[verifier.env]\nA = \"${NOT_SET}\"\n[environment.env]\nB = \"${TOKEN}\"\n";
    let task = load_toml(text).unwrap();
    let names: Vec<&str> = task.unset.iter().map(|unset| unset.name.as_str()).collect();
    assert_eq!(names, ["NOT_SET"]);
    let error = task.check_variables().unwrap_err();
    let at = error.faults[0].span;
    assert_eq!(&text[at.start..at.end], "${NOT_SET}");
}

#[test]
fn invalid_toml_of_a_template_is_reported_with_its_line() {
    let error = load_toml("[task]\nname = {{ name }}\n").unwrap_err();
    assert_eq!(error.position(&error.faults[0]).unwrap().0, 2, "{error}");
    assert!(
        error.to_string().contains("looks like a template"),
        "{error}"
    );
}

#[test]
fn tools_of_a_task_are_read() {
    let task = load_toml(
        "[environment]\nskills_dir = \"/skills\"\n[[environment.mcp_servers]]\nname = \"a\"\ntransport = \"stdio\"\ncommand = \"run\"\nargs = [\"x\"]\n[[environment.mcp_servers]]\nname = \"b\"\ntransport = \"http\"\nurl = \"http://localhost:1/mcp\"\nmore = 1\n[[environment.mcp_servers]]\nname = \"c\"\nurl = \"http://c\"\n",
    )
    .unwrap();
    assert_eq!(task.tools.skills_dir.as_deref().unwrap(), "/skills");
    let servers = &task.tools.mcp_servers;
    assert_eq!(servers["a"]["command"], "run");
    assert_eq!(servers["a"]["args"][0], "x");
    assert_eq!(servers["b"]["type"], "http");
    assert_eq!(servers["b"]["url"], "http://localhost:1/mcp");
    assert_eq!(servers["c"]["type"], "sse");
    assert_eq!(task.notes.len(), 1, "{:?}", task.notes);
    assert!(task.needs_container().is_some());
}

/// A folder that lacks something has one reason, which names what is missing.
#[test]
fn other_layouts_are_refused_with_one_reason() {
    for (files, missing, reason) in [
        (
            &[("steps/one/instruction.md", "x")][..],
            &["tests/test.sh"][..],
            "has a folder `steps`, but task.toml has no `[[steps]]`",
        ),
        (
            &[("task.toml", "[environment]\nos = \"windows\"\n")],
            &["tests/test.sh"],
            "Windows",
        ),
    ] {
        let folder = folder(files);
        for name in missing {
            fs_err::remove_file(folder.path.join(name)).unwrap();
        }
        let error = load(&folder).unwrap_err();
        assert_eq!(error.faults.len(), 1, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn unsupported_files_are_refused() {
    for (file, message) in [
        ("tests/docker-compose.yml", "tests/docker-compose.yml"),
        ("trajectory.json", "trajectory.json"),
    ] {
        let (reported, _) = complaint(load(&folder(&[(file, "x")])));
        assert!(reported.contains(message), "{file}: {reported}");
    }
    for missing in ["tests/test.sh", "environment/Dockerfile", "instruction.md"] {
        let folder = folder(&[]);
        fs_err::remove_file(folder.path.join(missing)).unwrap();
        let error = load(&folder).unwrap_err().to_string();
        let error = proctor_record::platform::slashed(&error);
        assert!(error.contains(missing), "{missing}: {error}");
    }
    let empty = folder(&[("instruction.md", "# canary\n\n")]);
    assert!(
        load(&empty)
            .unwrap_err()
            .to_string()
            .contains("instruction is empty")
    );
}

#[test]
fn task_that_requires_a_container_reports_the_reason() {
    for (files, message, at) in [
        (
            ("task.toml", "[environment]\ndocker_image = \"a:1\"\n"),
            "`docker_image`",
            "\"a:1\"",
        ),
        (
            ("task.toml", "[environment.healthcheck]\ncommand = \"x\"\n"),
            "`healthcheck`",
            "[environment.healthcheck]",
        ),
        (
            ("task.toml", "[[verifier.collect]]\ncommand = \"x\"\n"),
            "`verifier.collect`",
            "[[verifier.collect]]",
        ),
        (
            ("task.toml", "artifacts = [\"/x\"]\n"),
            "`artifacts`",
            "[\"/x\"]",
        ),
        (
            ("environment/Dockerfile", "FROM a\nWORKDIR /app\nRUN make\n"),
            "`RUN`",
            "RUN make",
        ),
    ] {
        let task = load(&folder(&[files])).unwrap();
        let error = task
            .needs_container()
            .expect("the task requires a container");
        let fault = &error.faults[0];
        assert!(fault.message.contains(message), "{}", fault.message);
        assert_eq!(fault.hint.as_deref(), Some("use `--sandbox docker`"));
        let text = error.text.clone().unwrap_or_default();
        let place = text.get(fault.span.start..fault.span.end).unwrap_or("");
        assert!(place.starts_with(at), "{place}");
    }
}

/// As in Harbor, a Dockerfile of the tests is used only by a separate verifier.
#[test]
fn verifier_is_separate_only_if_the_task_says_so() {
    let dockerfile = ("tests/Dockerfile", "FROM a\n");
    for (toml, mode, has_own) in [
        ("", VerifierMode::Shared, false),
        (
            "[verifier]\nenvironment_mode = \"separate\"\n",
            VerifierMode::Separate,
            true,
        ),
        (
            "[verifier.environment]\ndocker_image = \"b\"\n",
            VerifierMode::Separate,
            true,
        ),
    ] {
        let task = load(&folder(&[dockerfile, ("task.toml", toml)])).unwrap();
        let verifier = task.verifier().unwrap();
        assert_eq!(verifier.mode, mode, "{toml}");
        assert_eq!(verifier.environment.is_some(), has_own, "{toml}");
    }
}

#[test]
fn artifacts_and_the_key_of_the_reward_are_read() {
    let task = load_toml(
        r#"
artifacts = ["/a", {source = "out", destination = "b/c", exclude = ["*.o"], service = "main"}]
[metadata]
reward_key = "accuracy"
"#,
    );
    let task = task.unwrap();
    let verifier = task.verifier().unwrap();
    assert_eq!(verifier.reward_key.as_deref(), Some("accuracy"));
    let [first, second] = verifier.artifacts.as_slice() else {
        panic!("{:?}", verifier.artifacts);
    };
    assert_eq!((first.source.as_str(), &first.destination), ("/a", &None));
    assert_eq!(second.source, "out");
    assert_eq!(second.destination.as_deref(), Some("b/c".into()));
    assert_eq!(second.exclude, ["*.o"]);
}

// Other platforms have no file modes.
#[cfg(unix)]
#[test]
fn hash_depends_on_all_files_and_executable_bits() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(&[]);
    let first = load(&folder).unwrap().config_hash;
    assert_eq!(load(&folder).unwrap().config_hash, first);
    let script = folder.path.join("tests/test.sh");
    fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let second = load(&folder).unwrap().config_hash;
    assert_ne!(first, second);
    fs_err::write(folder.path.join("tests/more"), "").unwrap();
    assert_ne!(load(&folder).unwrap().config_hash, second);
}

/// The files that a Dockerfile creates, as `path=content`, or its errors.
fn made(dockerfile: &str, files: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
    let files: Vec<(String, &str)> = files
        .iter()
        .map(|(name, text)| (format!("environment/{name}"), *text))
        .collect();
    let mut all: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), *t)).collect();
    all.push(("environment/Dockerfile", dockerfile));
    let folder = folder(&all);
    let task = load(&folder).unwrap();
    let recipe = match &task.environment().unwrap().local {
        Ok(recipe) => recipe,
        Err(error) => return Err(error.faults.iter().map(|f| f.message.clone()).collect()),
    };
    let into = folder.path.join("out");
    recipe.lay_out(&into).map_err(|e| vec![e.to_string()])?;
    let mut found = Vec::new();
    collect(&into, &into, &mut found);
    found.sort();
    Ok(found)
}

fn collect(root: &Utf8Path, folder: &Utf8Path, found: &mut Vec<String>) {
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, path, found);
        } else {
            let text = fs_err::read_to_string(path).unwrap_or_default();
            let below = path.strip_prefix(root).unwrap();
            let below = proctor_record::platform::slashed(below.as_str());
            found.push(format!("{below}={text}"));
        }
    }
}

const HEAD: &str = "FROM a\nWORKDIR /app\n";

#[test]
fn copy_behaves_like_docker() {
    let files = [
        ("a.txt", "A"),
        ("b.txt", "B"),
        (".env", "E"),
        ("src/x", "X"),
        ("src/deep/y", "Y"),
    ];
    for (lines, expect) in [
        ("COPY a.txt .\n", vec!["a.txt=A"]),
        ("COPY a.txt c.txt\n", vec!["c.txt=A"]),
        ("COPY a.txt /app/sub/\n", vec!["sub/a.txt=A"]),
        ("COPY a.txt b.txt ./\n", vec!["a.txt=A", "b.txt=B"]),
        ("COPY *.txt ./t/\n", vec!["t/a.txt=A", "t/b.txt=B"]),
        ("COPY .e* ./\n", vec![".env=E"]),
        ("COPY src .\n", vec!["deep/y=Y", "x=X"]),
        ("COPY src/ ./src\n", vec!["src/deep/y=Y", "src/x=X"]),
        ("COPY [\"a.txt\", \"with space\"]\n", vec!["with space=A"]),
        ("COPY --chown=1:1 --link a.txt ./\n", vec!["a.txt=A"]),
        ("ENV to=d\nCOPY a.txt ${to}/\n", vec!["d/a.txt=A"]),
        ("COPY a.txt x\nCOPY b.txt x\n", vec!["x=B"]),
        (
            "COPY src d\nCOPY a.txt d\n",
            vec!["d/a.txt=A", "d/deep/y=Y", "d/x=X"],
        ),
        ("copy \\\n  # why\n  a.txt \\\n  ./\n", vec!["a.txt=A"]),
        ("COPY /a.txt ./\n", vec!["a.txt=A"]),
        ("WORKDIR sub\nCOPY a.txt ./\n", vec!["a.txt=A"]),
    ] {
        assert_eq!(
            made(&format!("{HEAD}{lines}"), &files),
            Ok(expect.iter().map(|s| (*s).to_owned()).collect()),
            "{lines}"
        );
    }
}

#[test]
fn instructions_that_require_docker_are_refused() {
    let files = [("a.txt", "A"), ("b.txt", "B")];
    for (lines, message) in [
        ("RUN make", "`RUN`"),
        ("ADD a.txt .", "`ADD`"),
        ("USER x", "`USER`"),
        ("CMD [\"x\"]", "`CMD`"),
        ("ARG X=1", "`ARG`"),
        ("FROM b", "second `FROM`"),
        ("COPY --from=x /a .", "`COPY --from`"),
        ("COPY --chmod=u+x a.txt .", "`--chmod=u+x`"),
        ("COPY --parents a.txt .", "`COPY --parents`"),
        ("COPY <<EOF /app/x\ntext\nEOF", "here-document"),
        ("COPY a.txt /etc/a.txt", "not below the working directory"),
        ("COPY a.txt ../a.txt", "not below the working directory"),
        ("COPY ../secret .", "outside of the build context"),
        ("COPY missing .", "`missing` not found"),
        ("COPY *.rs ./", "`*.rs` not found"),
        ("COPY a.txt b.txt x", "must end with a `/`"),
        ("COPY a.txt", "a source and a destination"),
        ("COPY \"a .", "unterminated"),
        ("ENV x", "has no value"),
        ("WORKDIR", "has no directory"),
    ] {
        let reported = made(&format!("{HEAD}{lines}\n"), &files).unwrap_err();
        assert!(reported[0].contains(message), "{lines}: {reported:?}");
    }
    let reported = made("FROM a\nCOPY a.txt /a\n", &files).unwrap_err();
    assert!(reported[0].contains("`WORKDIR` is missing"), "{reported:?}");
    let reported = made("", &files).unwrap_err();
    assert!(reported[0].contains("`FROM` is missing"), "{reported:?}");
    let reported = made("FROM a\nRUN x\nRUN y\nUSER z\n", &files).unwrap_err();
    assert_eq!(reported.len(), 3, "one fault each: {reported:?}");
}

#[test]
fn ignored_files_and_repositories_are_not_copied() {
    let files = [
        (".dockerignore", "*.log\n!keep.log\nbuild\n"),
        ("a.log", ""),
        ("keep.log", "K"),
        ("build/x", ""),
        ("src/a", "A"),
        ("src/.git/HEAD", ""),
    ];
    let found = made(&format!("{HEAD}COPY . .\n"), &files).unwrap();
    let names: Vec<&str> = found.iter().map(|f| f.split('=').next().unwrap()).collect();
    assert_eq!(names, [".dockerignore", "Dockerfile", "keep.log", "src/a"]);
    let reported = made(&format!("{HEAD}COPY a.log .\n"), &files).unwrap_err();
    assert!(reported[0].contains("`a.log` not found"), "{reported:?}");
}

// Other platforms require privileges for links.
#[cfg(unix)]
#[test]
fn links_out_of_the_context_are_refused() {
    let folder = folder(&[("environment/d/f", "x"), ("environment/evil", "x")]);
    let context = folder.path.join("environment");
    let outside = folder.path.join("outside");
    fs_err::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, context.join("d/out")).unwrap();
    std::os::unix::fs::symlink("/etc/hosts", context.join("link")).unwrap();
    let read = |text: &str| Recipe::read(text, &context, None, "");
    let faults = read(&format!("{HEAD}COPY link .\n")).unwrap_err();
    assert!(faults[0].message.contains("out of the build context"));
    let recipe = read(&format!("{HEAD}COPY d .\nCOPY evil out/evil\n")).unwrap();
    let made = recipe.lay_out(&folder.path.join("made"));
    assert!(made.unwrap_err().to_string().contains("symbolic link"));
    assert!(!outside.join("evil").exists());
}

// Other systems have no modes, and PATH has no colons.
#[cfg(unix)]
#[test]
fn modes_and_variables_are_applied() {
    use std::os::unix::fs::PermissionsExt;
    let dockerfile = format!(
        "{HEAD}ENV A=1 PATH=/opt/x:$PATH\nENV B $A-2\nCOPY --chmod=0755 d/ ./\nCOPY --chmod=600 d/f g\n"
    );
    let folder = folder(&[
        ("environment/Dockerfile", &dockerfile),
        ("environment/d/f", "x"),
        ("task.toml", "[environment.env]\nB = \"own\"\n"),
    ]);
    let task = load(&folder).unwrap();
    let environment = task.environment().unwrap();
    let env = environment.local_env();
    let expect = [("A", "1"), ("B", "own"), ("PATH", "/opt/x:/bin")];
    let expect: std::collections::BTreeMap<String, String> = expect
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(env, expect);
    assert_eq!(environment.env.len(), 1, "as written, for containers");
    let into = folder.path.join("out");
    environment.local.as_ref().unwrap().lay_out(&into).unwrap();
    let mode = |name: &str| into.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("f"), mode("g")), (0o755, 0o600));
}
