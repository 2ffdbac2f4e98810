#!/usr/bin/env python3
"""tt: a time tracker for the command line."""

import argparse
import contextlib
import csv
import datetime
import fcntl
import io
import json
import os
import re
import sys
import tempfile

STAMP = "%Y-%m-%dT%H:%M"
DAY = datetime.timedelta(days=1)
MINUTE = datetime.timedelta(minutes=1)
NAME = re.compile(r"[\w./-]+\Z")
STAMP_SHAPE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d\Z")
CLOCK_SHAPE = re.compile(r"\d\d:\d\d\Z")
DAY_SHAPE = re.compile(r"\d{4}-\d\d-\d\d\Z")


class Refused(Exception):
    """A command that cannot be carried out."""


class Misused(Exception):
    """A command line that makes no sense."""


# Times.


def parse_stamp(text):
    if not STAMP_SHAPE.match(text):
        raise ValueError(text)
    return datetime.datetime.strptime(text, STAMP)


def current_time():
    text = os.environ.get("TT_NOW")
    if not text:
        return datetime.datetime.now().replace(second=0, microsecond=0)
    try:
        return parse_stamp(text)
    except ValueError:
        raise Misused(f"TT_NOW: '{text}' is not a time") from None


def parse_time(text, now):
    try:
        if CLOCK_SHAPE.match(text):
            return parse_stamp(f"{now:%Y-%m-%d}T{text}")
        return parse_stamp(text)
    except ValueError:
        raise Misused(f"'{text}' is not a time") from None


def parse_day(text, now):
    today = now.replace(hour=0, minute=0)
    if text in ("today", "yesterday"):
        return today if text == "today" else today - DAY
    try:
        if not DAY_SHAPE.match(text):
            raise ValueError(text)
        return datetime.datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise Misused(f"'{text}' is not a day") from None


def show_duration(minutes):
    return f"{minutes // 60}:{minutes % 60:02}"


# Entries and the file they are in.


class Entry:
    """Something that was, or is being, worked on."""

    def __init__(self, id_, project, start, end, note, tags):
        self.id = id_
        self.project = project
        self.start = start
        self.end = end
        self.note = note
        self.tags = sorted(set(tags))

    def until(self, now):
        """The end, so far."""
        return max(self.start, now) if self.end is None else self.end

    def minutes(self, now):
        return (self.until(now) - self.start) // MINUTE

    def part(self, first, last, now):
        """The part of its time that lies between two moments, as a start and an end."""
        start, end = self.start, self.until(now)
        return max(start, first or start), min(end, last or end)

    def to_json(self):
        return {
            "id": self.id,
            "project": self.project,
            "start": self.start.strftime(STAMP),
            "end": None if self.end is None else self.end.strftime(STAMP),
            "note": self.note,
            "tags": self.tags,
        }

    @classmethod
    def from_json(cls, value):
        texts = [value["project"], value["note"], *value["tags"]]
        if type(value["id"]) is not int or not all(isinstance(text, str) for text in texts):
            raise ValueError("wrong types")
        end = value["end"]
        return cls(value["id"], value["project"], parse_stamp(value["start"]),
                   None if end is None else parse_stamp(end), value["note"], value["tags"])


class Log:
    """All entries, and the next id."""

    def __init__(self, entries=(), next_id=1):
        self.entries = list(entries)
        self.next_id = next_id

    @property
    def running(self):
        return next((entry for entry in self.entries if entry.end is None), None)

    def find(self, id_):
        for entry in self.entries:
            if entry.id == id_:
                return entry
        raise Refused(f"there is no entry {id_}")

    def new(self, project, start, end, note, tags):
        entry = Entry(self.next_id, project, start, end, note, tags)
        self.next_id += 1
        self.entries.append(entry)
        return entry

    def check(self, entry, now):
        """Refuse an entry that is impossible by itself or beside the others."""
        if entry.end is not None and entry.end < entry.start:
            raise Refused(f"the end {entry.end.strftime(STAMP)} is before the start {entry.start.strftime(STAMP)}")
        if max(entry.start, entry.end or entry.start) > now:
            raise Refused("that is in the future")
        for other in self.entries:
            if other is not entry and overlap(entry, other):
                raise Refused(f"entry {other.id} ({other.project}) is at that time")


def overlap(one, other):
    """Whether two entries have time in common."""
    if one.start == one.end or other.start == other.end:
        return False
    one_goes_on = one.end is None or one.end > other.start
    other_goes_on = other.end is None or other.end > one.start
    return one_goes_on and other_goes_on


def data_path():
    return os.environ.get("TT_FILE") or "tt.json"


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return Log()
    except (OSError, ValueError) as error:
        raise Refused(f"cannot read {path}: {error}") from None
    try:
        entries = [Entry.from_json(entry) for entry in value["entries"]]
        if type(value["next_id"]) is not int:
            raise ValueError("wrong types")
        return Log(entries, value["next_id"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Refused(f"{path} is not a log of tt") from None


def save(log, path):
    """Write the file beside the old one and put it in its place at once."""
    path = os.path.realpath(path)
    value = {"next_id": log.next_id, "entries": [entry.to_json() for entry in log.entries]}
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".tt-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def changing(path):
    """The log, for a change that nobody else may come between. Saved if nothing goes wrong."""
    try:
        lock = open(path + ".lock", "w", encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write beside {path}: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        log = load(path)
        yield log
        try:
            save(log, path)
        except OSError as error:
            raise Refused(f"cannot write {path}: {error.strerror}") from None


# Commands that change something. Each gives the lines to print.


def start_entry(log, project, at, now, note, tags):
    lines = []
    running = log.running
    if running is not None:
        lines.append(stop_entry(log, at, now))
    entry = log.new(project, at, None, note, tags)
    log.check(entry, now)
    return [*lines, f"started {entry.id} {entry.project} at {entry.start.strftime(STAMP)}"]


def stop_entry(log, at, now):
    entry = log.running
    if entry is None:
        raise Refused("nothing is running")
    entry.end = at
    log.check(entry, now)
    return f"stopped {entry.id} {entry.project} after {show_duration(entry.minutes(now))}"


def do_start(log, options, now):
    return start_entry(log, options.project, at_time(options, now), now, options.note or "", options.tag or [])


def do_stop(log, options, now):
    return [stop_entry(log, at_time(options, now), now)]


def at_time(options, now):
    return now if options.at is None else parse_time(options.at, now)


def do_cancel(log, options, now):
    entry = log.running
    if entry is None:
        raise Refused("nothing is running")
    log.entries.remove(entry)
    return [f"cancelled {entry.id} {entry.project}"]


def do_add(log, options, now):
    start, end = parse_time(options.start, now), parse_time(options.end, now)
    entry = log.new(options.project, start, end, options.note or "", options.tag or [])
    log.check(entry, now)
    return [f"added {entry.id} {entry.project} {show_duration(entry.minutes(now))}"]


def do_edit(log, options, now):
    start = None if options.start is None else parse_time(options.start, now)
    end = None if options.end is None else parse_time(options.end, now)
    entry = log.find(options.id)
    entry.project = entry.project if options.project is None else options.project
    entry.start = entry.start if start is None else start
    entry.end = entry.end if end is None else end
    entry.note = entry.note if options.note is None else options.note
    entry.tags = entry.tags if options.tag is None else sorted(set(options.tag))
    log.check(entry, now)
    return [f"edited {entry.id}"]


def do_remove(log, options, now):
    entry = log.find(options.id)
    log.entries.remove(entry)
    return [f"removed {entry.id}"]


def do_resume(log, options, now):
    at = at_time(options, now)
    if log.running is not None:
        raise Refused(f"entry {log.running.id} is running")
    if not log.entries:
        raise Refused("there is nothing to resume")
    last = max(log.entries, key=lambda entry: (entry.end, entry.id))
    return start_entry(log, last.project, at, now, last.note, last.tags)


# Commands that look.


def do_status(log, options, now):
    entry = log.running
    if entry is None:
        return ["nothing running"]
    since = entry.start.strftime(STAMP)
    return [f"{entry.id} {entry.project} since {since} ({show_duration(entry.minutes(now))})"]


def day_range(options, now):
    first = None if options.from_ is None else parse_day(options.from_, now)
    last = None if options.to is None else parse_day(options.to, now) + DAY
    return first, last


def chosen(log, options, now):
    """The entries that a filter lets through, in order."""
    first, last = day_range(options, now)
    found = [entry for entry in log.entries if passes(entry, options, first, last, now)]
    return sorted(found, key=lambda entry: (entry.start, entry.id))


def passes(entry, options, first, last, now):
    if options.project is not None and not (entry.project + "/").startswith(options.project + "/"):
        return False
    if not set(options.tag or []) <= set(entry.tags):
        return False
    if entry.until(now) == entry.start:
        return (first is None or entry.start >= first) and (last is None or entry.start < last)
    start, end = entry.part(first, last, now)
    return start < end


def do_list(log, options, now):
    lines = []
    for entry in chosen(log, options, now):
        end = "-" if entry.end is None else entry.end.strftime(STAMP)
        line = f"{entry.id} {entry.start.strftime(STAMP)} {end} {show_duration(entry.minutes(now))} {entry.project}"
        line += "".join(f" #{tag}" for tag in entry.tags)
        lines.append(line + (f" - {entry.note}" if entry.note else ""))
    return lines


def do_report(log, options, now):
    first, last = day_range(options, now)
    sums, total = {}, 0
    for entry in chosen(log, options, now):
        start, end = entry.part(first, last, now)
        total += (end - start) // MINUTE
        for key, minutes in shares(entry, start, end, options.by):
            sums[key] = sums.get(key, 0) + minutes
    keys = sorted((key for key in sums if sums[key]), key=lambda key: (key != "(none)", key))
    return [f"{key} {show_duration(sums[key])}" for key in keys] + [f"total {show_duration(total)}"]


def shares(entry, start, end, by):
    """What a stretch of an entry adds to which keys."""
    minutes = (end - start) // MINUTE
    if by == "project":
        yield entry.project, minutes
    elif by == "tag":
        for tag in entry.tags or ["(none)"]:
            yield tag, minutes
    else:
        while start < end:
            midnight = start.replace(hour=0, minute=0) + DAY
            yield f"{start:%Y-%m-%d}", (min(end, midnight) - start) // MINUTE
            start = midnight


def do_export(log, options, now):
    records = []
    for entry in chosen(log, options, now):
        record = entry.to_json()
        keys = ("id", "project", "start", "end")
        records.append({**{key: record[key] for key in keys}, "minutes": entry.minutes(now),
                        "note": entry.note, "tags": entry.tags})
    if options.format == "json":
        return [json.dumps(records, indent=1, ensure_ascii=False)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "project", "start", "end", "minutes", "note", "tags"])
    for record in records:
        writer.writerow([*list(record.values())[:-1], " ".join(record["tags"])])
    return [out.getvalue().removesuffix("\n")]


# The command line.


class Parser(argparse.ArgumentParser):
    """Raises instead of printing its usage."""

    def __init__(self, **settings):
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message):
        raise Misused(message)


def name(text):
    if not NAME.match(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a name")
    return text


def entry_id(text):
    if not re.match(r"[1-9][0-9]*\Z", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not an id")
    return int(text)


def build_parser():
    parser = Parser(prog="tt", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)

    def command(word, body, changes):
        sub = commands.add_parser(word)
        sub.set_defaults(body=body, changes=changes)
        return sub

    def details(sub):
        sub.add_argument("--note")
        sub.add_argument("--tag", action="append", type=name)

    def filters(sub):
        sub.add_argument("--from", dest="from_")
        sub.add_argument("--to")
        sub.add_argument("--project", type=name)
        sub.add_argument("--tag", action="append", type=name)

    start = command("start", do_start, True)
    start.add_argument("project", type=name)
    details(start)
    start.add_argument("--at")
    command("stop", do_stop, True).add_argument("--at")
    command("status", do_status, False)
    command("cancel", do_cancel, True)
    add = command("add", do_add, True)
    add.add_argument("project", type=name)
    add.add_argument("start")
    add.add_argument("end")
    details(add)
    edit = command("edit", do_edit, True)
    edit.add_argument("id", type=entry_id)
    edit.add_argument("--project", type=name)
    edit.add_argument("--start")
    edit.add_argument("--end")
    details(edit)
    command("remove", do_remove, True).add_argument("id", type=entry_id)
    command("resume", do_resume, True).add_argument("--at")
    filters(command("list", do_list, False))
    report = command("report", do_report, False)
    filters(report)
    report.add_argument("--by", choices=["project", "day", "tag"], default="project")
    export = command("export", do_export, False)
    filters(export)
    export.add_argument("--format", choices=["csv", "json"], required=True)
    return parser


def run(arguments):
    options = build_parser().parse_args(arguments)
    now = current_time()
    if not options.changes:
        return options.body(load(data_path()), options, now)
    with changing(data_path()) as log:
        return options.body(log, options, now)


def main(arguments):
    try:
        lines = run(arguments)
    except (Refused, Misused) as problem:
        print("tt: " + " ".join(str(problem).split()), file=sys.stderr)
        return 2 if isinstance(problem, Misused) else 1
    for line in lines:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
