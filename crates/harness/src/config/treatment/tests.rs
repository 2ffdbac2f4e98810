//! Tests of treatments as written in suites.

use std::collections::BTreeMap;

use camino::Utf8Path;

use super::*;
use crate::config::{Settings, SuiteFile};

/// The agents of a suite in `folder`, or its faults.
fn agents(folder: &Utf8Path, text: &str) -> Result<Vec<crate::config::SuiteAgent>, String> {
    let task = "{repo: ., tag: v1, test_cmd: 'true', time_limit_minutes: 1}";
    let text = format!("agents:\n{text}\ntasks: [{task}]\n");
    let file = SuiteFile::parse(&folder.join("suite.yaml"), text).unwrap();
    let config = file
        .read_config(&BTreeMap::new(), &Settings::default())
        .unwrap();
    if config.faults.is_empty() {
        return Ok(config.agents);
    }
    let messages = config.faults.iter().map(|fault| fault.message.clone());
    Err(messages.collect::<Vec<_>>().join("\n"))
}

fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
    fs::create_dir_all(path.join("notes/deep")).unwrap();
    fs::write(path.join("notes/deep/a.md"), "A").unwrap();
    fs::write(path.join("rules.md"), "R").unwrap();
    fs::create_dir_all(path.join("skills/deploy")).unwrap();
    let skill =
        "---\nname: deploy\ndescription: >\n  Ships a release\n  to staging.\n---\nRun it.\n";
    fs::write(path.join("skills/deploy/SKILL.md"), skill).unwrap();
    (dir, path)
}

#[test]
fn variants_inherit_and_override_single_keys() {
    let (_dir, folder) = folder();
    let text = "
- type: claude-code
  name: base
  model: m
  config: {max_turns: 3}
  files: {CLAUDE.md: rules.md, docs: notes, ~/.claude/x.md: {text: home}}
  variants:
    - name: one
    - name: two
      model: other
      config: {max_turns: 4}
      files: {CLAUDE.md: 'git:main:CLAUDE.md', docs/deep/a.md: null}
      skills: [skills/deploy]
      prompt_template: 'Think. {prompt}'";
    let [one, two] = <[_; 2]>::try_from(agents(&folder, text).unwrap()).unwrap();
    assert_eq!((one.name.as_str(), two.name.as_str()), ("one", "two"));
    assert_eq!(one.variant_of.as_deref(), Some("base"));
    assert_eq!(one.spec.model.as_deref(), Some("m"));
    assert_eq!(two.spec.model.as_deref(), Some("other"));
    let paths = |agent: &crate::config::SuiteAgent| -> Vec<String> {
        agent
            .treatment
            .files
            .keys()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        paths(&one),
        ["CLAUDE.md", "docs/deep/a.md", "~/.claude/x.md"]
    );
    assert_eq!(paths(&two), paths(&one));
    let of = |agent: &crate::config::SuiteAgent, path: &str| {
        agent.treatment.files[&TreatmentPath::parse(path).unwrap()].clone()
    };
    assert_eq!(
        of(&one, "CLAUDE.md"),
        FileSource::Content(FileContent::text("R"))
    );
    let git = FileSource::Git {
        revision: "main".to_owned(),
        path: "CLAUDE.md".into(),
    };
    assert_eq!(of(&two, "CLAUDE.md"), git);
    assert_eq!(of(&two, "docs/deep/a.md"), FileSource::Removed);
    assert_eq!(two.treatment.prompt.apply("Fix it."), "Think. Fix it.");
    let (name, description, body) = two.treatment.skills[0].about();
    assert_eq!(
        (name.as_str(), description.as_str()),
        ("deploy", "Ships a release\nto staging.")
    );
    assert_eq!(body.trim(), "Run it.");
}

#[test]
fn unsafe_and_wrong_treatments_are_refused() {
    let (_dir, folder) = folder();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc", folder.join("out")).unwrap();
    for (keys, expected) in [
        ("files: {../x: rules.md}", "must not contain `..`"),
        ("files: {/x: rules.md}", "must be a relative path"),
        ("files: {'~/../x': rules.md}", "must not contain `..`"),
        ("files: {.git/config: rules.md}", "git directory"),
        ("files: {x: ../rules.md}", "must not contain `..`"),
        ("files: {x: missing.md}", "does not exist"),
        #[cfg(unix)]
        ("files: {x: out/passwd}", "outside of"),
        ("files: {x: 'git:main'}", "git:REVISION:PATH"),
        ("files: {x: 3}", "expected a path"),
        ("files: [x]", "expected a map"),
        ("skills: [notes]", "no SKILL.md"),
        ("skills: [skills/deploy, skills/deploy]", "duplicate skill"),
        ("prompt_template: Do it.", "must contain `{prompt}`"),
        ("ref: -x", "must not start with"),
        ("variants: []", "`variants` is empty"),
        ("variants: [{model: x}]", "requires a `name`"),
        (
            "variants: [{name: a, variants: []}]",
            "cannot have `variants`",
        ),
        ("variants: [{name: a, nonsense: 1}]", "nonsense"),
    ] {
        let text = format!("- {{type: claude-code, {keys}}}");
        let message = agents(&folder, &text).unwrap_err();
        assert!(message.contains(expected), "{keys}: {message}");
    }
}
