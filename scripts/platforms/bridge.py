#!/usr/bin/env python3
"""Runs git and sh outside Wine for tests under Wine: the server of bridge.c.

    bridge.py FOLDER    writes FOLDER/bridge.address and serves until its stdin ends

Paths of Windows in arguments, in the environment and in what git says about places are translated
both ways. Git is set up as on Windows: no modes, no symbolic links, and a system configuration that
wants CRLF, because that is what users have.
"""

import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

# A path that starts a word, a value after `=`, or the path of a file URL.
PATH = re.compile(r"(?P<before>^|=|file:///)(?:\\\\\?\\)?(?P<drive>[A-Za-z]):(?P<rest>[\\/].*|$)", re.S)
# Variables of git that hold several paths.
LISTS = ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES")
# These programs only write git's output about paths.
SAY_PLACES = ("rev-parse", "worktree")
AS_ON_WINDOWS = ["-c", "core.fileMode=false", "-c", "core.symlinks=false"]
SYSTEM_CONFIG = "[core]\n\tautocrlf = true\n"


class Drives:
    """The drives of one Wine prefix."""

    def __init__(self, c_drive):
        self.devices = os.path.dirname(c_drive.rstrip("/"))
        self.c = os.path.realpath(c_drive)

    def outside(self, text):
        """Text in which a path of Windows is one of this machine."""
        found = PATH.search(text)
        if not found:
            return "/dev/null" if text.upper() == "NUL" else text
        root = os.path.realpath(f"{self.devices}/{found['drive'].lower()}:")
        path = (root.rstrip("/") + found["rest"].replace("\\", "/")) or "/"
        before = text[: found.start()] + found["before"]
        return before.removesuffix("/") + path if found["before"].startswith("file") else before + path

    def inside(self, path):
        """The path of Windows for one of this machine."""
        if path == self.c or path.startswith(self.c + "/"):
            return "C:" + path[len(self.c):]
        return "Z:" + path


class Request:
    """The request of a program under Wine."""

    def __init__(self, incoming, word):
        self.args, self.env, values = [], {}, {}
        for kind, data in incoming:
            if kind == b"g":
                break
            text = data.decode("utf-8", "surrogateescape")
            if kind == b"a":
                self.args.append(text)
            elif kind == b"e":
                name, _, value = text.partition("=")
                # Windows keeps the folder of each drive under names that start with `=`.
                if name:
                    self.env[name] = value
            else:
                values[kind] = text
            if kind == b"w" and text != word:
                raise PermissionError("a stranger called")
        self.drives = Drives(values[b"c"])
        self.program = values[b"p"].lower().removesuffix(".exe")
        self.cwd = self.drives.outside(values[b"d"])

    def command(self):
        args = [self.drives.outside(arg) for arg in self.args]
        if self.program == "git":
            return ["git", *AS_ON_WINDOWS, *args]
        if self.program == "sh":
            return ["sh", *args]
        raise ValueError(f"no bridge for {self.program}")

    def environment(self, system_config):
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_SYSTEM": system_config}
        for name, value in self.env.items():
            is_wanted = self.program == "sh" or name.startswith(("GIT_", "LC_", "XDG_")) or name in ("HOME", "LANG", "TZ")
            if name.upper() == "PATH" or not is_wanted:
                continue
            parts = value.split(";") if name in LISTS else [value]
            env[name] = ":".join(self.drives.outside(part) for part in parts)
        if "HOME" not in env and "USERPROFILE" in self.env:
            env["HOME"] = self.drives.outside(self.env["USERPROFILE"])
        return env

    def translate_alternates(self, env):
        """Repositories that share objects name the others by their path: git here needs its own kind."""
        words = [self.drives.outside(word.partition("=")[2] or word) for word in self.args]
        folders = [self.cwd, *words, *env.values()]
        repos = [os.path.join(self.cwd, folder) for folder in folders if len(folder) < 4096]
        seen = set()
        while repos:
            repo = repos.pop()
            for objects in (repo, f"{repo}/objects", f"{repo}/.git/objects"):
                file = f"{objects}/info/alternates"
                if file in seen or not os.path.isfile(file):
                    continue
                seen.add(file)
                with open(file, encoding="utf-8") as old:
                    lines = old.read().splitlines()
                paths = [self.drives.outside(line) for line in lines]
                if paths != lines:
                    with open(f"{file}.{threading.get_ident()}", "w", encoding="utf-8") as new:
                        new.writelines(f"{path}\n" for path in paths)
                    os.replace(new.name, file)
                repos.extend(paths)

    def says_places(self):
        return self.program == "git" and any(arg in SAY_PLACES for arg in self.args)


def frames(link):
    """The frames that come, until the other side hangs up."""
    stream = link.makefile("rb")
    try:
        while head := stream.read(5):
            kind, length = head[:1], struct.unpack("<I", head[1:])[0]
            yield kind, stream.read(length)
    except (ConnectionError, struct.error):
        pass  # One that was killed in the middle has hung up as well.


def feed(incoming, child):
    """Input to the child; one whose caller is gone is ended, with all that it started."""
    for kind, data in incoming:
        if kind == b"i":
            try:
                child.stdin.write(data)
                child.stdin.flush()
            except OSError:
                pass
        elif kind == b"I":
            try:
                child.stdin.close()
            except OSError:
                pass
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def pass_output(stream, kind, send, translate):
    if translate:
        whole = stream.read()
        pieces = [b"".join(translate(line) for line in whole.splitlines(keepends=True))]
    else:
        pieces = iter(lambda: stream.read1(60000), b"")
    for piece in pieces:
        for start in range(0, len(piece), 60000):
            send(kind, piece[start:start + 60000])


def serve(link, word, system_config):
    lock = threading.Lock()
    incoming = frames(link)

    def send(kind, data):
        with lock:
            try:
                link.sendall(kind + struct.pack("<I", len(data)) + data)
            except OSError:
                pass

    try:
        request = Request(incoming, word)
        env = request.environment(system_config)
        if request.program == "git":
            request.translate_alternates(env)
        child = subprocess.Popen(
            request.command(), cwd=request.cwd, env=env, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
    except (OSError, KeyError, ValueError) as error:
        send(b"e", f"bridge: {error}\n".encode())
        send(b"x", b"\x7f")
        link.close()
        return

    def place(line):
        text = os.fsdecode(line)
        found = re.match(r"(worktree )?(/.*)", text, re.S)
        return os.fsencode((found[1] or "") + request.drives.inside(found[2])) if found else line

    feeder = threading.Thread(target=feed, args=(incoming, child), daemon=True)
    feeder.start()
    translate = place if request.says_places() else None
    outputs = [
        threading.Thread(target=pass_output, args=(child.stdout, b"o", send, translate)),
        threading.Thread(target=pass_output, args=(child.stderr, b"e", send, None)),
    ]
    for output in outputs:
        output.start()
    for output in outputs:
        output.join()
    code = child.wait()
    send(b"x", bytes([code if code >= 0 else 128 - code]))
    # Unread input would reset the connection, and lose data that the caller has not read yet.
    link.shutdown(socket.SHUT_WR)
    feeder.join(10)
    link.close()


def main(folder):
    word = secrets.token_hex(16)
    with tempfile.NamedTemporaryFile("w", suffix=".gitconfig") as system_config, socket.create_server(("127.0.0.1", 0)) as server:
        system_config.write(SYSTEM_CONFIG)
        system_config.flush()
        address = os.path.join(folder, "bridge.address")
        with open(os.open(address, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"{server.getsockname()[1]} {word}\n")

        def accept():
            while True:
                link, _ = server.accept()
                threading.Thread(target=serve, args=(link, word, system_config.name), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        sys.stdin.buffer.read()
        os.unlink(address)


if __name__ == "__main__":
    main(sys.argv[1])
