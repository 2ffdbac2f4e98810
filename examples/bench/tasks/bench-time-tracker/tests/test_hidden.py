"""What tt must do. Every command runs in a process of its own, with its clock set by TT_NOW."""

import concurrent.futures
import csv
import io
import json
import os
import tempfile
import unittest

import program

NOW = "2024-05-31T18:00"


class Tracker(unittest.TestCase):
    """Runs commands on a data file of its own."""

    maxDiff = None
    entries = None  # commands that make what all tests of a class begin with

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "log.json")
        self._bring_entries()

    def _bring_entries(self):
        """Run those commands for the first test, and copy what came of it for the others."""
        if self.entries is None:
            return
        if "made" not in type(self).__dict__:
            for arguments in self.entries:
                self.tt(*arguments)
            type(self).made = self.content()
        with open(self.path, "wb") as file:
            file.write(self.made)

    def run_tt(self, *arguments, now=NOW):
        variables = {"TT_FILE": self.path, "TT_NOW": now}
        return program.run([os.path.join(program.WORK, "tt.py"), *arguments], variables=variables)

    def tt(self, *arguments, now=NOW):
        """The lines that a command prints which must work."""
        code, out, err = self.run_tt(*arguments, now=now)
        self.assertEqual((code, err), (0, ""), arguments)
        return out.splitlines()

    def content(self):
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def refused(self, *arguments, code=1, now=NOW):
        """The command must fail in the way described, and change nothing."""
        before = self.content()
        found, out, err = self.run_tt(*arguments, now=now)
        self.assertEqual((found, out), (code, ""), (arguments, err))
        self.assertRegex(err, r"\Att: [^\n]+\n\Z")
        self.assertEqual(self.content(), before)

    def misused(self, *arguments, now=NOW):
        self.refused(*arguments, code=2, now=now)

    def add(self, project, start, end, *more):
        return self.tt("add", project, f"2024-05-{start}", f"2024-05-{end}", *more)


class StartAndStop(Tracker):
    def test_an_entry_from_start_to_stop(self):
        self.assertEqual(self.tt("start", "web", now="2024-05-31T09:00"), ["started 1 web at 2024-05-31T09:00"])
        self.assertEqual(self.tt("status", now="2024-05-31T09:20"), ["1 web since 2024-05-31T09:00 (0:20)"])
        self.assertEqual(self.tt("stop", now="2024-05-31T10:05"), ["stopped 1 web after 1:05"])
        self.assertEqual(self.tt("status", now="2024-05-31T10:06"), ["nothing running"])

    def test_start_stops_what_is_running_at_the_same_time(self):
        self.tt("start", "web", now="2024-05-31T09:00")
        self.assertEqual(self.tt("start", "api", "--at", "09:45", now="2024-05-31T10:00"),
                         ["stopped 1 web after 0:45", "started 2 api at 2024-05-31T09:45"])
        self.assertEqual(self.tt("list", now="2024-05-31T10:00"),
                         ["1 2024-05-31T09:00 2024-05-31T09:45 0:45 web", "2 2024-05-31T09:45 - 0:15 api"])

    def test_at_takes_full_times_and_times_of_today(self):
        self.tt("start", "web", "--at", "2024-05-30T23:00")
        self.assertEqual(self.tt("stop", "--at", "00:30"), ["stopped 1 web after 1:30"])

    def test_long_durations(self):
        self.tt("start", "web", "--at", "2024-05-27T12:00")
        self.assertEqual(self.tt("status"), ["1 web since 2024-05-27T12:00 (102:00)"])

    def test_cancel_removes_the_running_entry(self):
        self.tt("start", "web")
        self.assertEqual(self.tt("cancel"), ["cancelled 1 web"])
        self.assertEqual(self.tt("list"), [])
        self.assertEqual(self.tt("status"), ["nothing running"])

    def test_what_needs_a_running_entry(self):
        self.refused("stop")
        self.refused("cancel")
        self.tt("start", "web", "--at", "10:00")
        self.refused("stop", "--at", "09:59")
        self.refused("start", "api", "--at", "09:59")
        self.assertEqual(self.tt("status"), ["1 web since 2024-05-31T10:00 (8:00)"])

    def test_nothing_is_in_the_future(self):
        self.refused("start", "web", "--at", "18:01")
        self.tt("start", "web", "--at", "18:00")
        self.refused("stop", "--at", "18:01")
        self.refused("add", "api", "17:00", "18:01")

    def test_an_entry_of_no_length(self):
        self.tt("start", "web")
        self.assertEqual(self.tt("stop"), ["stopped 1 web after 0:00"])
        self.assertEqual(self.tt("list", "--from", "today"), ["1 2024-05-31T18:00 2024-05-31T18:00 0:00 web"])
        self.assertEqual(self.tt("list", "--to", "yesterday"), [])


class Resume(Tracker):
    def test_the_entry_that_ended_last_is_taken_up(self):
        self.add("late", "30T12:00", "30T14:00", "--note", "go on", "--tag", "b", "--tag", "a")
        self.add("early", "30T09:00", "30T10:00")
        self.assertEqual(self.tt("resume", "--at", "17:00"), ["started 3 late at 2024-05-31T17:00"])
        self.assertEqual(self.tt("list", "--from", "today"), ["3 2024-05-31T17:00 - 1:00 late #a #b - go on"])

    def test_the_highest_id_counts_when_several_ended_together(self):
        self.add("one", "30T12:00", "30T14:00")
        self.add("two", "30T14:00", "30T14:00")
        self.assertEqual(self.tt("resume"), ["started 3 two at 2024-05-31T18:00"])

    def test_not_while_something_runs_and_not_from_nothing(self):
        self.refused("resume")
        self.tt("start", "web")
        self.refused("resume")


class Changes(Tracker):
    def test_add(self):
        self.assertEqual(self.add("web", "30T22:00", "31T01:30"), ["added 1 web 3:30"])
        self.assertEqual(self.tt("add", "api", "08:00", "09:00", "--tag", "x", "--note", "two words"), ["added 2 api 1:00"])
        self.assertEqual(self.tt("list")[1], "2 2024-05-31T08:00 2024-05-31T09:00 1:00 api #x - two words")

    def test_edit_changes_what_is_given_and_nothing_else(self):
        self.add("web", "30T08:00", "30T09:00", "--note", "old", "--tag", "a", "--tag", "b")
        self.assertEqual(self.tt("edit", "1", "--end", "2024-05-30T09:30"), ["edited 1"])
        self.assertEqual(self.tt("list"), ["1 2024-05-30T08:00 2024-05-30T09:30 1:30 web #a #b - old"])
        self.tt("edit", "1", "--project", "api", "--tag", "c", "--note", "")
        self.assertEqual(self.tt("list"), ["1 2024-05-30T08:00 2024-05-30T09:30 1:30 api #c"])

    def test_edit_finishes_the_running_entry(self):
        self.tt("start", "web", "--at", "10:00")
        self.tt("edit", "1", "--start", "09:30")
        self.assertEqual(self.tt("status"), ["1 web since 2024-05-31T09:30 (8:30)"])
        self.tt("edit", "1", "--end", "10:30")
        self.assertEqual(self.tt("status"), ["nothing running"])

    def test_removed_ids_are_never_used_again(self):
        self.add("one", "30T08:00", "30T09:00")
        self.add("two", "30T09:00", "30T10:00")
        self.assertEqual(self.tt("remove", "2"), ["removed 2"])
        self.assertEqual(self.add("three", "30T09:00", "30T10:00"), ["added 3 three 1:00"])
        self.tt("start", "four")
        self.tt("cancel")
        self.assertEqual(self.tt("start", "five"), ["started 5 five at 2024-05-31T18:00"])
        self.assertEqual(self.tt("remove", "5"), ["removed 5"])

    def test_ids_that_do_not_exist(self):
        self.refused("remove", "1")
        self.refused("edit", "7", "--note", "x")


class Overlaps(Tracker):
    entries = [["add", "web", "2024-05-30T10:00", "2024-05-30T12:00"]]

    def test_entries_may_touch(self):
        self.add("before", "30T09:00", "30T10:00")
        self.add("after", "30T12:00", "30T13:00")

    def test_entries_may_not_overlap(self):
        for start, end in [("09:00", "10:01"), ("11:59", "13:00"), ("10:30", "11:00"), ("09:00", "13:00"), ("10:00", "12:00")]:
            self.refused("add", "api", f"2024-05-30T{start}", f"2024-05-30T{end}")

    def test_an_end_before_its_start(self):
        self.refused("add", "api", "2024-05-29T10:00", "2024-05-29T09:59")
        self.refused("edit", "1", "--end", "2024-05-30T09:59")

    def test_an_entry_of_no_length_overlaps_with_nothing(self):
        self.assertEqual(self.add("mark", "30T11:00", "30T11:00"), ["added 2 mark 0:00"])

    def test_an_entry_cannot_be_moved_onto_another(self):
        self.add("api", "30T13:00", "30T14:00")
        self.refused("edit", "2", "--start", "2024-05-30T11:30")
        self.tt("edit", "2", "--start", "2024-05-30T12:00")

    def test_a_running_entry_takes_up_all_time_from_its_start(self):
        self.refused("start", "api", "--at", "2024-05-30T09:00")
        self.tt("start", "api", "--at", "08:00")
        self.refused("add", "more", "09:00", "10:00")
        self.refused("edit", "2", "--start", "2024-05-30T11:00")
        self.tt("add", "more", "07:00", "08:00")


class Filters(Tracker):
    entries = [
        ["add", "shop/web", "2024-05-28T23:00", "2024-05-29T01:00", "--tag", "night", "--tag", "fix"],
        ["add", "shop/website", "2024-05-29T10:00", "2024-05-29T11:00", "--tag", "fix"],
        ["add", "shop", "2024-05-30T00:00", "2024-05-30T02:00", "--note", "plan"],
        ["add", "shop/web/css", "2024-05-29T12:00", "2024-05-29T12:30"],
        ["start", "home", "--at", "17:15"],
    ]

    def ids(self, *filters):
        return [int(line.split()[0]) for line in self.tt("list", *filters)]

    def test_entries_are_listed_by_start(self):
        self.assertEqual(self.ids(), [1, 2, 4, 3, 5])

    def test_days_let_through_what_has_time_in_them(self):
        self.assertEqual(self.ids("--from", "2024-05-29", "--to", "2024-05-29"), [1, 2, 4])
        self.assertEqual(self.ids("--to", "2024-05-28"), [1])
        self.assertEqual(self.ids("--from", "yesterday"), [3, 5])
        self.assertEqual(self.ids("--from", "today"), [5])

    def test_an_entry_that_ends_at_midnight_has_no_time_in_the_next_day(self):
        self.add("end", "27T20:00", "28T00:00")
        self.assertEqual(self.ids("--from", "2024-05-28", "--to", "2024-05-28"), [1])

    def test_a_project_and_those_below_it(self):
        self.assertEqual(self.ids("--project", "shop/web"), [1, 4])
        self.assertEqual(self.ids("--project", "shop"), [1, 2, 4, 3])
        self.assertEqual(self.ids("--project", "Shop"), [])

    def test_all_tags_must_be_there(self):
        self.assertEqual(self.ids("--tag", "fix"), [1, 2])
        self.assertEqual(self.ids("--tag", "fix", "--tag", "night"), [1])
        self.assertEqual(self.ids("--tag", "fix", "--from", "2024-05-29", "--project", "shop/website"), [2])

    def test_report_by_project(self):
        self.assertEqual(self.tt("report"), ["home 0:45", "shop 2:00", "shop/web 2:00", "shop/web/css 0:30",
                                             "shop/website 1:00", "total 6:15"])

    def test_report_counts_only_what_lies_inside_the_days(self):
        self.assertEqual(self.tt("report", "--from", "2024-05-29", "--to", "2024-05-29"),
                         ["shop/web 1:00", "shop/web/css 0:30", "shop/website 1:00", "total 2:30"])

    def test_report_by_day_splits_at_midnight(self):
        self.assertEqual(self.tt("report", "--by", "day"),
                         ["2024-05-28 1:00", "2024-05-29 2:30", "2024-05-30 2:00", "2024-05-31 0:45", "total 6:15"])

    def test_report_by_day_over_several_midnights(self):
        self.tt("add", "trip", "2024-04-29T22:00", "2024-05-02T03:00")
        self.assertEqual(self.tt("report", "--by", "day", "--project", "trip"),
                         ["2024-04-29 2:00", "2024-04-30 24:00", "2024-05-01 24:00", "2024-05-02 3:00", "total 53:00"])

    def test_report_by_tag_counts_for_each_tag_and_once_in_total(self):
        self.assertEqual(self.tt("report", "--by", "tag"), ["(none) 3:15", "fix 3:00", "night 2:00", "total 6:15"])

    def test_report_of_nothing(self):
        self.assertEqual(self.tt("report", "--project", "none"), ["total 0:00"])
        self.add("mark", "30T15:00", "30T15:00")
        self.assertEqual(self.tt("report", "--project", "mark"), ["total 0:00"])


class Export(Tracker):
    entries = [
        ["add", "web", "2024-05-30T10:00", "2024-05-30T12:30", "--note", 'say "hi", then go', "--tag", "b", "--tag", "a"],
        ["start", "api", "--at", "17:00"],
    ]

    def test_csv(self):
        code, out, _ = self.run_tt("export", "--format", "csv")
        self.assertEqual(code, 0)
        self.assertNotIn("\r", out)
        self.assertTrue(out.startswith("id,project,start,end,minutes,note,tags\n1,web,2024-05-30T10:00,2024-05-30T12:30,150,"))
        self.assertEqual(list(csv.reader(io.StringIO(out)))[1:],
                         [["1", "web", "2024-05-30T10:00", "2024-05-30T12:30", "150", 'say "hi", then go', "a b"],
                          ["2", "api", "2024-05-31T17:00", "", "60", "", ""]])

    def test_json(self):
        self.assertEqual(json.loads("\n".join(self.tt("export", "--format", "json"))), [
            {"id": 1, "project": "web", "start": "2024-05-30T10:00", "end": "2024-05-30T12:30", "minutes": 150,
             "note": 'say "hi", then go', "tags": ["a", "b"]},
            {"id": 2, "project": "api", "start": "2024-05-31T17:00", "end": None, "minutes": 60, "note": "", "tags": []},
        ])

    def test_filters_hold_and_entries_are_shown_whole(self):
        self.add("night", "29T22:00", "30T02:00")
        found = json.loads("\n".join(self.tt("export", "--format", "json", "--to", "2024-05-29")))
        self.assertEqual([(entry["id"], entry["minutes"]) for entry in found], [(3, 240)])
        self.assertEqual(json.loads("\n".join(self.tt("export", "--format", "json", "--tag", "z"))), [])


class CommandLines(Tracker):
    def test_command_lines_that_make_no_sense(self):
        for arguments in [["begin"], [], ["start"], ["start", "a b"], ["start", "web", "--at", "9 o'clock"],
                          ["start", "web", "--at", "25:00"], ["stop", "now"], ["status", "--loud"], ["list", "--from", "soon"],
                          ["list", "--to", "2024-02-30"], ["add", "web", "10:00"], ["remove", "one"],
                          ["start", "web", "--tag", "#x"], ["report", "--by", "week"], ["export"],
                          ["export", "--format", "xml"]]:
            self.misused(*arguments)
        self.assertIsNone(self.content())


class DataFile(Tracker):
    def test_looking_does_not_create_the_file(self):
        for arguments in [["status"], ["list"], ["report"], ["export", "--format", "json"]]:
            self.tt(*arguments)
        self.assertIsNone(self.content())

    def test_the_file_is_json_after_every_change(self):
        for arguments in [["start", "web", "--at", "10:00"], ["edit", "1", "--note", "ü"], ["stop"], ["remove", "1"]]:
            self.tt(*arguments)
            json.loads(self.content())

    def test_a_file_that_is_not_ours_is_left_alone(self):
        for content in ["{", "[1, 2]", '{"some": "thing"}', '"text"', ""]:
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(content)
            self.refused("list")
            self.refused("start", "web")

    def test_the_file_is_in_the_working_directory_by_default(self):
        with tempfile.TemporaryDirectory() as folder:
            program.run([os.path.join(program.WORK, "tt.py"), "start", "web"], variables={"TT_NOW": NOW}, folder=folder)
            self.assertIn("tt.json", os.listdir(folder))

    def test_without_a_set_clock_the_real_one_counts(self):
        code, out, _ = program.run([os.path.join(program.WORK, "tt.py"), "start", "web"], variables={"TT_FILE": self.path})
        self.assertEqual(code, 0)
        self.assertRegex(out, r"\Astarted 1 web at 20\d\d-\d\d-\d\dT\d\d:\d\d\n\Z")

    def test_changes_at_the_same_moment_are_all_kept(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda hour: self.add("web", f"30T{hour:02}:00", f"30T{hour:02}:30"), range(16)))
        self.assertEqual(len({line for lines in done for line in lines}), 16)
        self.assertEqual(sorted(int(line.split()[0]) for line in self.tt("list")), list(range(1, 17)))
        self.assertEqual(self.tt("report"), ["web 8:00", "total 8:00"])
