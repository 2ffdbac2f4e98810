#!/usr/bin/env python3
"""Packs a built `proctor` into an archive of a release, or writes the list of checksums.

    scripts/pack.py archive --target TARGET --program FILE [--runs FILE] [--out DIR]
    scripts/pack.py wheel --target TARGET --program FILE [--out DIR]    a package for pip
    scripts/pack.py npm --target TARGET --program FILE [--out DIR]      a package for npm
    scripts/pack.py sums [--out DIR]

The same files make the same bytes: entries are sorted, and times and owners are fixed (SOURCE_DATE_EPOCH, else the time
of the last commit). Only Python's own library is used, because GNU tar, zip and sha256sum are not on every system.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Other names that the program answers to.
NAMES = ["thunderdome", "yb"]
TEXTS = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"]
COMPLETIONS = {
    "bash": "proctor.bash",
    "fish": "proctor.fish",
    "powershell": "_proctor.ps1",
    "zsh": "_proctor",
}
SUMS = "SHA256SUMS"
INSTALLERS = ["install.ps1", "install.sh"]
# The line of the installers that says where a release lies, if that was known when it was made.
NO_URL = 'default_url=""'


def fail(what, to_do):
    sys.exit(f"scripts/pack.py: {what}\n  fix: {to_do}")


def version():
    manifest = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version = "(.*)"$', manifest, re.MULTILINE).group(1)


def epoch():
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    last = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True
    )
    if last.returncode != 0:
        fail("no commit found to take the time from", "set SOURCE_DATE_EPOCH")
    return int(last.stdout)


def printed(program, *args):
    """The output of a program, in bytes with Unix line endings."""
    try:
        done = subprocess.run([str(program), *args], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"{program} {' '.join(args)}: {error}", "give --runs a proctor that runs here")
    return done.stdout.replace(b"\r\n", b"\n")


def is_linux(target):
    return "-linux-" in target


def linux_programs(out):
    """The Linux programs that are packed already, by the name that other systems look for.

    The first process of a container is our own, so a system that is not Linux needs them beside its own program.
    """
    found = {}
    for arch in ["aarch64", "x86_64"]:
        for archive in sorted(out.glob(f"proctor-{version()}-{arch}-unknown-linux-*.tar.gz")):
            with tarfile.open(archive) as tar:
                member = archive.name.removesuffix(".tar.gz") + "/proctor"
                found[f"proctor-linux-{arch}"] = (tar.extractfile(member).read(), 0o755)
    if "proctor-linux-x86_64" not in found:
        fail(f"{out} has no archive for Linux on x86_64", "pack that one first: containers need it")
    return found


def files(args):
    """Name in the archive -> bytes and mode."""
    runs = args.runs or args.program
    said = printed(runs, "--version").decode().split()
    if said != ["proctor", version()]:
        fail(f"{runs} is {' '.join(said)}, not proctor {version()}", "build it again")
    suffix = ".exe" if "-windows-" in args.target else ""
    content = {f"proctor{suffix}": (args.program.read_bytes(), 0o755)}
    for name in TEXTS:
        content[name] = ((ROOT / name).read_bytes(), 0o644)
    for shell, name in COMPLETIONS.items():
        content[f"completions/{name}"] = (printed(runs, "completions", shell), 0o644)
    if not is_linux(args.target):
        content |= linux_programs(args.out)
    return content


def write_tar(path, content, links, when, folder=None):
    folder = folder or path.name.removesuffix(".tar.gz")
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=when) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name in sorted([*content, *links]):
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.mtime = when
                if name in links:
                    entry.type, entry.linkname = tarfile.SYMTYPE, links[name]
                    tar.addfile(entry)
                else:
                    data, entry.mode = content[name]
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def write_zip(path, content, when, folder=None):
    below = f"{path.name.removesuffix('.zip')}/" if folder is None else folder
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, (data, mode) in sorted(content.items()):
            entry = zipfile.ZipInfo(f"{below}{name}", time.gmtime(when)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)


def archive(args):
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"proctor-{version()}-{args.target}"
    content = files(args)
    if "-windows-" in args.target:
        # No links in zip files: the installer makes them.
        path = Path(f"{stem}.zip")
        write_zip(path, content, epoch())
    else:
        path = Path(f"{stem}.tar.gz")
        write_tar(path, content, dict.fromkeys(NAMES, "proctor"), epoch())
    print(path)


# Target -> the platform's name in a wheel, and the system and processor of npm. The Linux program is static: it runs
# with any C library, so that the oldest tag applies.
PLATFORMS = {
    "x86_64-unknown-linux-gnu": ("manylinux_2_5_x86_64.musllinux_1_1_x86_64", "linux", "x64"),
    "aarch64-unknown-linux-gnu": ("manylinux_2_17_aarch64.musllinux_1_1_aarch64", "linux", "arm64"),
    "x86_64-apple-darwin": ("macosx_10_12_x86_64", "darwin", "x64"),
    "aarch64-apple-darwin": ("macosx_11_0_arm64", "darwin", "arm64"),
    "x86_64-pc-windows-msvc": ("win_amd64", "win32", "x64"),
    "x86_64-pc-windows-gnu": ("win_amd64", "win32", "x64"),
}
PACKAGE = "proctor-agents"
SUMMARY = "Runs coding agents on tasks, observes them and judges their work."
LICENCE = "MIT OR Apache-2.0"


def platform_of(target):
    if target not in PLATFORMS:
        fail(f"no package for {target}", f"use one of: {', '.join(PLATFORMS)}")
    return PLATFORMS[target]


def programs(args):
    """Name -> bytes of the program, and of those that containers need."""
    suffix = ".exe" if "-windows-" in args.target else ""
    found = {f"proctor{suffix}": args.program.read_bytes()}
    if not is_linux(args.target):
        found |= {name: data for name, (data, _) in linux_programs(args.out).items()}
    return found


def wheel(args):
    """A wheel without Python code: pip puts the program into the directory of scripts."""
    tag, _, _ = platform_of(args.target)
    stem = f"{PACKAGE.replace('-', '_')}-{version()}"
    content = {f"{stem}.data/scripts/{name}": (data, 0o755) for name, data in programs(args).items()}
    meta = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version()}\nSummary: {SUMMARY}\nLicense: {LICENCE}\n"
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))
    info = f"{stem}.dist-info"
    content[f"{info}/METADATA"] = (meta.encode(), 0o644)
    content[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: pack.py\nRoot-Is-Purelib: false\n{tags}".encode(),
        0o644,
    )
    for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
        content[f"{info}/licenses/{name}"] = ((ROOT / name).read_bytes(), 0o644)
    lines = []
    for name, (data, _) in sorted(content.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    record = f"{info}/RECORD"
    content[record] = ("".join([*lines, f"{record},,\n"]).encode(), 0o644)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{stem}-py3-none-{tag}.whl"
    write_zip(path, content, epoch(), folder="")
    print(path)


def npm(args):
    """A package whose `bin` is the program itself: no script runs at the installation."""
    _, system, cpu = platform_of(args.target)
    manifest = {
        "name": PACKAGE,
        "version": version(),
        "description": SUMMARY,
        "license": LICENCE,
        "os": [system],
        "cpu": [cpu],
        "bin": {"proctor": f"bin/proctor{'.exe' if system == 'win32' else ''}"},
    }
    content = {f"bin/{name}": (data, 0o755) for name, data in programs(args).items()}
    content["package.json"] = (json.dumps(manifest, indent=2).encode() + b"\n", 0o644)
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"]:
        content[name] = ((ROOT / name).read_bytes(), 0o644)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{PACKAGE}-{version()}-{system}-{cpu}.tgz"
    write_tar(path, content, {}, epoch(), folder="package")
    print(path)


def sums(args):
    """Puts the installers beside the archives, and writes the checksums of all."""
    url = os.environ.get("PROCTOR_DIST_URL", "")
    if re.search(r"[\s\"'`$\\]", url):
        fail(f"PROCTOR_DIST_URL is not a valid URL: {url}", "give it as https://…")
    for name in INSTALLERS:
        text = (ROOT / "scripts" / name).read_text(encoding="utf-8")
        assert text.count(NO_URL) == 1, f"{name} has no line {NO_URL}"
        text = text.replace(NO_URL, f'default_url="{url}"')
        (args.out / name).write_text(text, encoding="utf-8", newline="\n")
        (args.out / name).chmod(0o755)
    kinds = ["proctor-*.tar.gz", "proctor-*.zip", "proctor*.whl", "proctor-*.tgz"]
    packed = [path for kind in kinds for path in args.out.glob(kind)]
    listed = sorted([*packed, *(args.out / name for name in INSTALLERS)])
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in listed]
    (args.out / SUMS).write_text("".join(lines), encoding="utf-8", newline="\n")
    print(args.out / SUMS)


def main():
    parser = argparse.ArgumentParser(description="Packs a release.")
    commands = parser.add_subparsers(required=True)
    pack = commands.add_parser("archive", help="make the archive of one target")
    pack.add_argument("--target", required=True, help="the target's triple")
    pack.add_argument("--program", required=True, type=Path, help="the program that was built")
    pack.add_argument("--runs", type=Path, help="a proctor that runs here, if that one does not")
    pack.set_defaults(run=archive)
    pip = commands.add_parser("wheel", help="make the wheel of one target")
    pip.set_defaults(run=wheel)
    node = commands.add_parser("npm", help="make the npm package of one target")
    node.set_defaults(run=npm)
    for command in [pip, node]:
        command.add_argument("--target", required=True, help="the target's triple")
        command.add_argument("--program", required=True, type=Path, help="the program that was built")
    check = commands.add_parser("sums", help="write the checksums")
    check.set_defaults(run=sums)
    for command in [pack, pip, node, check]:
        command.add_argument("--out", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    args.run(args)


main()
