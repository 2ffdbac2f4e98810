//! Releases: `scripts/release` packs, `install.sh` installs, and the packed program runs.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{Output, Program, TestContext, wait_until};

use crate::support::context;

const TARGET: &str = concat!(env!("CARGO_PKG_VERSION"), "-x86_64-unknown-linux-gnu");

fn script(name: &str) -> Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scripts")
        .join(name)
}

fn dist(context: &TestContext) -> Utf8PathBuf {
    context.root().join("dist")
}

fn archive(context: &TestContext) -> Utf8PathBuf {
    dist(context).join(format!("proctor-{TARGET}.tar.gz"))
}

/// Packs this program for a target.
fn pack(context: &TestContext, target: &str, program: &Utf8Path) -> Program {
    context
        .program(&script("release"), ["pack", target, program.as_str()])
        .env("PROCTOR_DIST", dist(context))
        .env("PROCTOR_PACKAGES", "")
        .env("SOURCE_DATE_EPOCH", "1700000000")
}

/// A small program that answers like `proctor`: compressing the real one takes seconds.
fn stand_in(context: &TestContext) -> Utf8PathBuf {
    let program = context.root().join("stand-in");
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        "#!/bin/sh\ncase $1 in --version) echo proctor {version};; *) echo \"$*\";; esac\n"
    );
    fs_err::write(&program, text).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&program, open).unwrap();
    program
}

/// A context with a packed stand-in for Linux.
fn packed() -> TestContext {
    let context = context();
    let program = stand_in(&context);
    pack(&context, "x86_64-unknown-linux-gnu", &program)
        .run()
        .assert_code(0);
    context
}

/// `install.sh`, which lies beside the archives.
fn install(context: &TestContext, args: &[&str]) -> Program {
    let installer = dist(context).join("install.sh");
    let all = [&[installer.as_str()], args].concat();
    context.program(Utf8Path::new("/bin/sh"), all)
}

#[track_caller]
fn assert_refused(output: &Output, why: &str, prefix: &Utf8Path) {
    output.assert_code(1);
    assert!(output.stderr.contains(why), "{output}");
    assert!(!prefix.exists(), "something was installed all the same");
}

/// Everything in an archive of the real program works where it is installed.
#[test]
fn the_packed_program_is_installed_and_runs() {
    let context = context();
    let real = Utf8Path::new(env!("CARGO_BIN_EXE_proctor"));
    pack(&context, "x86_64-unknown-linux-gnu", real)
        .run()
        .assert_code(0);
    let prefix = context.root().join("a prefix");
    let done = install(&context, &["--prefix", prefix.as_str()]).run();
    done.assert_code(0);
    assert!(done.stdout.contains("add it to PATH"), "{done}");
    let version = env!("CARGO_PKG_VERSION");
    for (name, prefix_of_version) in [
        ("proctor", "proctor "),
        ("yb", ""),
        ("thunderdome", "proctor "),
    ] {
        let said = context
            .program(&prefix.join("bin").join(name), ["--version"])
            .run();
        let expected = format!("{prefix_of_version}{version}\n");
        assert_eq!(said.assert_code(0).stdout, expected);
    }
    let share = prefix.join("share");
    for text in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(share.join("doc/proctor").join(text).is_file(), "{text}");
    }
    let bash = share.join("bash-completion/completions/proctor");
    let line = format!(
        "set -eu; . '{bash}'; complete -p proctor; COMP_WORDS=(proctor va) COMP_CWORD=1; _proctor proctor va proctor; echo \"${{COMPREPLY[*]}}\""
    );
    let offered = context
        .program(Utf8Path::new("/bin/bash"), ["-c", &line])
        .run();
    assert!(
        offered.assert_code(0).stdout.ends_with("\nvalidate\n"),
        "{offered}"
    );
    for file in [
        "zsh/site-functions/_proctor",
        "fish/vendor_completions.d/proctor.fish",
    ] {
        let text = fs_err::read_to_string(share.join(file)).unwrap();
        assert!(text.contains("validate"), "{file}: {text}");
    }
}

#[test]
fn an_archive_with_another_checksum_is_refused() {
    let context = packed();
    let mut bytes = fs_err::read(archive(&context)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs_err::write(archive(&context), bytes).unwrap();
    let prefix = context.root().join("prefix");
    let refused = install(&context, &["--prefix", prefix.as_str()]).run();
    assert_refused(&refused, "the checksum of", &prefix);
}

#[test]
fn an_archive_that_is_not_listed_is_not_installed() {
    let context = packed();
    fs_err::write(dist(&context).join("SHA256SUMS"), "").unwrap();
    let prefix = context.root().join("prefix");
    let refused = install(&context, &["--prefix", prefix.as_str()]).run();
    assert_refused(&refused, "has no archive for", &prefix);
}

/// From a server, into folders that the environment names, without completions; again, over what is there.
#[test]
fn a_release_is_installed_from_a_url_and_renewed() {
    let context = packed();
    let serve = "import functools, http.server as h\n\
        handler = functools.partial(h.SimpleHTTPRequestHandler, directory='dist')\n\
        server = h.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n\
        print(server.server_port, flush=True)\nserver.serve_forever()";
    let server = context
        .program(Utf8Path::new("python3"), ["-c", serve])
        .spawn();
    wait_until(Duration::from_secs(30), "the server listens", || {
        server.stdout_so_far().ends_with('\n')
    });
    let url = format!("http://127.0.0.1:{}/", server.stdout_so_far().trim());
    // Alone, as if fetched by itself.
    let alone = context.root().join("install.sh");
    fs_err::copy(dist(&context).join("install.sh"), &alone).unwrap();
    let (prefix, bin) = (
        context.root().join("prefix"),
        context.root().join("programs"),
    );
    for _ in 0..2 {
        let done = context
            .program(
                Utf8Path::new("/bin/sh"),
                [alone.as_str(), "--no-completions"],
            )
            .env("PROCTOR_DIST_URL", &url)
            .env("PREFIX", &prefix)
            .env("BIN_DIR", &bin)
            .run();
        done.assert_code(0);
        assert!(bin.join("yb").is_symlink() && bin.join("proctor").is_file());
        assert!(!prefix.join("share/zsh").exists());
        fs_err::write(bin.join("proctor"), "an older one").unwrap();
    }
}

/// Programs of other owners are not replaced.
#[test]
fn another_program_of_the_same_name_is_left_alone() {
    let context = packed();
    let bin = context.root().join("prefix/bin");
    fs_err::create_dir_all(&bin).unwrap();
    fs_err::write(bin.join("yb"), "another").unwrap();
    let done = install(
        &context,
        &["--prefix", context.root().join("prefix").as_str()],
    )
    .run();
    assert!(done.assert_code(0).stdout.contains("left alone"), "{done}");
    assert_eq!(fs_err::read_to_string(bin.join("yb")).unwrap(), "another");
}

#[test]
fn the_same_files_make_the_same_archives() {
    let (first, second) = (packed(), packed());
    let bytes = |context: &TestContext| fs_err::read(archive(context)).unwrap();
    assert!(bytes(&first) == bytes(&second));
    let sums = |context: &TestContext| fs_err::read(dist(context).join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&first), sums(&second));
}

/// Other systems start containers with our Linux program, so their archives have it.
#[test]
fn archives_for_other_systems_have_the_linux_program_in_them() {
    let context = context();
    let program = stand_in(&context);
    let without = pack(&context, "x86_64-pc-windows-gnu", &program).run();
    without.assert_code(1);
    assert!(without.stderr.contains("pack that one first"), "{without}");
    for target in [
        "x86_64-unknown-linux-gnu",
        "x86_64-pc-windows-gnu",
        "aarch64-apple-darwin",
    ] {
        pack(&context, target, &program).run().assert_code(0);
    }
    let list = "import sys, zipfile\nprint('\\n'.join(zipfile.ZipFile(sys.argv[1]).namelist()))";
    let stem = format!(
        "proctor-{}-x86_64-pc-windows-gnu",
        env!("CARGO_PKG_VERSION")
    );
    let zip = dist(&context).join(format!("{stem}.zip"));
    let listed = context
        .program(Utf8Path::new("python3"), ["-c", list, zip.as_str()])
        .run();
    for name in [
        "proctor.exe",
        "proctor-linux-x86_64",
        "completions/_proctor.ps1",
        "LICENSE-MIT",
    ] {
        let entry = format!("{stem}/{name}");
        assert!(
            listed.stdout.lines().any(|line| line == entry),
            "{entry}: {listed}"
        );
    }
    let tar = dist(&context).join(format!(
        "proctor-{}-aarch64-apple-darwin.tar.gz",
        env!("CARGO_PKG_VERSION")
    ));
    let listed = context
        .program(Utf8Path::new("tar"), ["-tzf", tar.as_str()])
        .run();
    assert!(
        listed.stdout.contains("/proctor-linux-x86_64\n"),
        "{listed}"
    );
}

/// pip and npm install the program from local files, without a network.
#[test]
fn packages_for_pip_and_npm_carry_the_program() {
    let context = context();
    let program = stand_in(&context);
    pack(&context, "x86_64-unknown-linux-gnu", &program)
        .env("PROCTOR_PACKAGES", "wheel npm")
        .run()
        .assert_code(0);
    let version = env!("CARGO_PKG_VERSION");
    let wheel =
        format!("proctor_agents-{version}-py3-none-manylinux_2_5_x86_64.musllinux_1_1_x86_64.whl");
    let npm = format!("proctor-agents-{version}-linux-x64.tgz");
    let sums = fs_err::read_to_string(dist(&context).join("SHA256SUMS")).unwrap();
    assert!(sums.contains(&wheel) && sums.contains(&npm), "{sums}");
    let target = context.root().join("packages");
    let (wheel, npm) = (dist(&context).join(wheel), dist(&context).join(npm));
    let pip = ["-m", "pip", "install", "--no-index", "--target"];
    let pip = pip.into_iter().chain([target.as_str(), wheel.as_str()]);
    context
        .program(Utf8Path::new("python3"), pip)
        .run()
        .assert_code(0);
    let node = [
        "install",
        "--offline",
        "--no-audit",
        "--no-fund",
        "--prefix",
    ];
    let node = node.into_iter().chain([target.as_str(), npm.as_str()]);
    context
        .program(Utf8Path::new("npm"), node)
        .run()
        .assert_code(0);
    for installed in ["bin/proctor", "node_modules/.bin/proctor"] {
        let said = context
            .program(&target.join(installed), ["--version"])
            .run();
        assert_eq!(said.assert_code(0).stdout, format!("proctor {version}\n"));
    }
}

/// `cargo binstall` finds the program where the archive has it.
#[test]
fn metadata_of_binstall_names_the_archive_and_its_program() {
    let context = packed();
    let manifest = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs_err::read_to_string(manifest).unwrap();
    let value = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key));
        let line = line.unwrap().trim_matches([' ', '=', '"']);
        let line = line.replace("{ version }", env!("CARGO_PKG_VERSION"));
        let line = line.replace("{ target }", "x86_64-unknown-linux-gnu");
        let line = line.replace("{ bin }{ binary-ext }", "proctor");
        line.replace("{ archive-suffix }", ".tar.gz")
    };
    let url = value("pkg-url");
    let name = archive(&context).file_name().unwrap().to_owned();
    assert!(url.ends_with(&format!("/{name}")), "{url}");
    let packed = archive(&context);
    let listed = ["-tzf", packed.as_str()];
    let listed = context.program(Utf8Path::new("tar"), listed).run();
    let program = value("bin-dir");
    assert!(
        listed.stdout.lines().any(|line| line == program),
        "{listed}"
    );
}
