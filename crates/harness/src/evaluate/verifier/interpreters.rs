//! Programs of an image that run before the first line of the tests. An agent that is root can
//! replace them in its container; the engine lists changed files.

use std::collections::BTreeSet;

use proctor_sandbox::docker::{ContainerFileChange, Image};

/// Shells that `sh` can be a link to.
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "busybox"];
/// Programs that every image has and that tests use. A new one in a folder of programs hides the image's own.
const TOOLS: [&str; 30] = [
    "[", "awk", "basename", "cat", "cmp", "cp", "cut", "date", "diff", "dirname", "egrep", "expr",
    "fgrep", "find", "grep", "head", "ls", "mkdir", "mv", "rm", "sed", "sort", "stat", "tail",
    "tee", "test", "tr", "uniq", "wc", "xargs",
];
/// The databases of package managers. With one of them, programs of the image change by installation, too.
const PACKAGES: [&str; 3] = [
    "/var/lib/dpkg/status",
    "/lib/apk/db/installed",
    "/var/lib/rpm/rpmdb.sqlite",
];
/// Libraries that are loaded into every program.
const PRELOADED: &str = "/etc/ld.so.preload";

/// The changed files that affect the execution of `script`.
pub(super) fn changed(
    changes: &[ContainerFileChange],
    image: &Image,
    script: &[u8],
) -> Vec<String> {
    let path = image.env.get("PATH").map_or("", String::as_str);
    let folders: BTreeSet<&str> = path.split(':').chain(["/bin", "/usr/bin"]).collect();
    let mut needed = interpreters(script);
    needed.insert("sh".to_owned());
    let is_of_package = |change: &ContainerFileChange| PACKAGES.contains(&&*change.path);
    let has_installed = changes.iter().any(is_of_package);
    let decides = |change: &ContainerFileChange| {
        let (folder, name) = change.path.rsplit_once('/').unwrap_or_default();
        let is_needed = needed.contains(name) || (!change.is_new && SHELLS.contains(&name));
        let is_tool = TOOLS.contains(&name) && !has_installed;
        change.path == PRELOADED
            || image.entrypoint.contains(&change.path)
            || (folders.contains(folder) && (is_needed || is_tool))
    };
    let found = changes.iter().filter(|change| decides(change));
    found.map(|change| change.path.clone()).collect()
}

/// The programs in the first line of a script: `#!/usr/bin/env -S bash -e`.
fn interpreters(script: &[u8]) -> BTreeSet<String> {
    let line = script.split(|byte| *byte == b'\n').next().unwrap_or(script);
    let Some(words) = line.strip_prefix(b"#!") else {
        return BTreeSet::new();
    };
    let words = String::from_utf8_lossy(words).into_owned();
    let words = words
        .split_whitespace()
        .filter(|word| !word.starts_with('-'));
    let names = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_interpreters_are_found() {
        let image = Image {
            env: [("PATH".to_owned(), "/opt/bin:/usr/bin".to_owned())].into(),
            entrypoint: vec!["/entry.sh".to_owned()],
            ..Image::default()
        };
        let python = "#!/usr/bin/env -S python3 -u\nimport x\n";
        for (path, is_new, script, expect) in [
            ("/usr/bin/bash", false, "", true),
            ("/bin/busybox", false, "", true),
            ("/opt/bin/sh", true, "", true),
            ("/usr/bin/bash", true, "", false),
            ("/opt/bin/bash", true, "#!/bin/bash\n", true),
            ("/opt/bin/python3", true, python, true),
            ("/usr/bin/env", false, python, true),
            ("/usr/bin/python3", false, "#!/bin/sh\n", false),
            ("/etc/ld.so.preload", true, "", true),
            ("/entry.sh", false, "", true),
            ("/root/bin/sh", true, "", false),
            ("/usr/bin", false, "", false),
            ("/usr/bin/grep", false, "", true),
            ("/opt/bin/test", true, "", true),
            ("/usr/bin/jq", true, "", false),
            ("/etc/profile", false, "", false),
        ] {
            let change = ContainerFileChange {
                path: path.to_owned(),
                is_new,
            };
            let found = changed(&[change], &image, script.as_bytes());
            assert_eq!(!found.is_empty(), expect, "{path} {script}");
        }
        let upgraded = ["/var/lib/dpkg/status", "/usr/bin/grep"].map(|path| ContainerFileChange {
            path: path.to_owned(),
            is_new: false,
        });
        assert_eq!(changed(&upgraded, &image, b""), [] as [&str; 0]);
    }
}
