#!/usr/bin/env python3
"""Packs a built `proctor` into an archive of a release, or writes the list of checksums.

    scripts/pack.py archive --target TARGET --program FILE [--runs FILE] [--out DIR]
    scripts/pack.py sums [--out DIR]

The same files make the same bytes: entries are sorted, and times and owners are fixed (SOURCE_DATE_EPOCH, else the time
of the last commit). Only Python's own library is used, because GNU tar, zip and sha256sum are not on every system.
"""

import argparse
import gzip
import hashlib
import io
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


def write_tar(path, content, links, when):
    folder = path.name.removesuffix(".tar.gz")
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


def write_zip(path, content, when):
    folder = path.name.removesuffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, (data, mode) in sorted(content.items()):
            entry = zipfile.ZipInfo(f"{folder}/{name}", time.gmtime(when)[:6])
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
    packed = [*args.out.glob("proctor-*.tar.gz"), *args.out.glob("proctor-*.zip")]
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
    check = commands.add_parser("sums", help="write the checksums")
    check.set_defaults(run=sums)
    for command in [pack, check]:
        command.add_argument("--out", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    args.run(args)


main()
