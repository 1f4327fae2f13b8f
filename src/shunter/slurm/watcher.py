"""Polling Slurm: squeue and sinfo, in JSON where that is quick enough, else in explicit text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from shunter.errors import LiveError, SlurmError
from shunter.live.manager import DeclinedError, UnreachableError
from shunter.live.nodes import Node, Rack
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.slurm.client import Client, user_name
from shunter.slurm.dialect import SLURM
from shunter.slurm.nodes import each_read, json_list, of_json, of_sinfo
from shunter.slurm.scontrol_output import records, settings, time_ms
from shunter.slurm.squeue import FIELD, JOB_FIELDS, RECORD, job_of, json_record, new_mark, text_format, text_records
from shunter.slurm.surroundings import counts_memory, defaults, hidden, licences, preemption, reservations
from shunter.slurm.topology import racks

NODE_FIELDS = {  # sinfo's: as a header calls it
    "NodeList": "NODELIST",
    "PartitionName": "PARTITION",
    "StateLong": "STATE",
    "Gres": "GRES",
    "GresUsed": "GRES_USED",
    "CPUsState": "CPUS(A/I/O/T)",
    "Memory": "MEMORY",
    "AllocMem": "ALLOCMEM",
    "Features_act": "ACTIVE_FEATURES",
}
JSON_SINCE = (21, 8)  # releases whose squeue has --json
NODES_SINCE = (23, 2)  # and the release since which scontrol has it; sinfo's is about groups of nodes
PRIORITY = JOB_FIELDS.index("PriorityLong")
LONG_S = 0.25  # JSON has no choice of fields and takes ten times as long as text: up to here that is no matter
T = TypeVar("T")
Known = dict[tuple[str, ...], LiveJob]  # records but for their priority, and their jobs


class OutputFormat(StrEnum):
    """How Slurm is asked."""

    JSON = "json"
    TEXT = "text"


class Watcher:
    """Takes snapshots; what has not changed since the last one is not read again."""

    def __init__(self, client: Client, form: OutputFormat | None = None, *, surroundings: bool = False) -> None:
        self.client, self.surroundings = client, surroundings
        self._fixed, self._form = form is not None, form
        self._known: Known = {}
        self.unread: dict[str, str] = {}  # jobs and nodes of the last snapshot that could not be read, and why
        self._unread: list[str] = []  # what scontrol calls these jobs

    @property
    def form(self) -> OutputFormat:
        """JSON where the release has it; text from the first time on that JSON could not be read, or took long."""
        if self._form is None:
            self._form = OutputFormat.JSON if self.client.release >= JSON_SINCE else OutputFormat.TEXT
        return self._form

    def snapshot(self) -> Snapshot:
        """What Slurm says now."""
        now = time.time_ns() // 1_000_000
        self.unread, self._unread = {}, []
        begun = time.perf_counter()
        self._known = self._polled(lambda: self._json_jobs(now), self._text_jobs)
        if time.perf_counter() - begun > LONG_S:
            self._leave_json()
        found = Snapshot(now, tuple(self._known.values()), tuple(self.nodes()), tuple(self._unread), dialect=SLURM)
        return self._surrounded(found) if self.surroundings else found

    def _surrounded(self, found: Snapshot) -> Snapshot:
        """With the reservations and licences, and what Slurm hides; a few more calls."""
        reserved = reservations(self.client.run("scontrol", "--all", "-o", "show", "reservations"))
        counted = licences(self.client.run("scontrol", "-o", "show", "licenses"))
        config = settings(self.client.run("scontrol", "show", "config"))
        partitions = records(self.client.run("scontrol", "--all", "-o", "show", "partition"), "PartitionName")
        private = hidden(config, user_name())
        if not counts_memory(config):  # of waiting jobs it says that they want some all the same
            found = replace(found, jobs=tuple(replace(job, mem_mib=0, all_memory=False) for job in found.jobs))
        return replace(
            found,
            reservations=tuple(reserved),
            licences=tuple(counted),
            preemption=preemption(config, self._qos),
            defaults=tuple(defaults(config, partitions)),
            hidden=private if private and not self._operator() else (),
        )

    def _qos(self) -> str:
        """Which QOS may stop jobs of which."""
        return self.client.run("sacctmgr", "-n", "-P", "show", "qos", "format=name,preempt")

    def _operator(self) -> bool:
        """Whether this user is an operator or administrator of Slurm."""
        try:
            said = self.client.run("sacctmgr", "-n", "-P", "show", "user", user_name(), "format=adminlevel")
        except LiveError:
            return False  # without slurmdbd there are none
        return said.strip().lower() in ("operator", "administrator")

    def nodes(self) -> list[Node]:
        """The nodes that have GPUs, in the order of their names as Slurm gives them."""
        return [node for node in self._polled(self._json_nodes, self._text_nodes) if node.gpus]

    def _polled(self, in_json: Callable[[], T], in_text: Callable[[], T]) -> T:
        if self.form is OutputFormat.JSON:
            try:
                return in_json()
            except UnreachableError:  # it may have been too much: the next time less is asked for
                self._leave_json()
                raise
            except (LiveError, TypeError, ValueError):  # no plug-in for it, or one record that can't be read
                if self._fixed:
                    raise
                self._leave_json()
        return in_text()

    def _leave_json(self) -> None:
        self._form = self._form if self._fixed else OutputFormat.TEXT

    def _json_jobs(self, now: int) -> Known:
        listed = json_list(self.client.run("squeue", "--json", "--all", "--states=all"), "jobs")
        return {_but_priority(record): self._read(record) for record in (json_record(job, now) for job in listed)}

    def _text_jobs(self) -> Known:
        """One that can't be read is left to Slurm, and must not keep us from the others."""
        mark, found = new_mark(), {}
        excluded = self._excluded() if self.surroundings else {}
        asked = ("--noheader", "--all", "--states=all", "--array-unique")
        text = self.client.run("squeue", *asked, secret={"SQUEUE_FORMAT2": text_format(JOB_FIELDS, mark)})
        for each in text_records(text, mark):
            record = [*each, excluded.get(each[0].strip(), ""), "", ""]
            try:
                found[_but_priority(record)] = self._read(record)
            except (LiveError, ValueError) as problem:
                self.unread[f"job {record[0].strip()[:40]}"] = str(problem)
                self._unread += [each.strip().partition("_")[0] for each in record[:3]]
        return found

    def _excluded(self) -> dict[str, str]:
        """The nodes that waiting jobs must not have, by job id."""
        mark = new_mark()
        asked = ("--noheader", "--all", "--states=pending", "--array-unique")
        text = self.client.run("squeue", *asked, secret={"SQUEUE_FORMAT": f"%A{mark}{FIELD}%x{mark}{RECORD}"})
        return {job.strip(): nodes.strip() for job, nodes in text_records(text, mark) if nodes.strip()}

    def _read(self, values: Sequence[str]) -> LiveJob:
        """The job of a record."""
        known = self._known.get(_but_priority(values))
        if known is None:
            return job_of(values)
        priority = int(values[PRIORITY])
        return known if priority == known.priority else known.with_priority(priority)

    def _json_nodes(self) -> list[Node]:
        with_all = ("scontrol", "--all", "--details", "show", "nodes")
        asked = with_all if self.client.release >= NODES_SINCE else ("sinfo", "--all")
        listed = json_list(self.client.run(*asked, "--json"), "nodes")
        if not listed:  # so it says when slurmctld is away; text says why
            raise SlurmError(f"{asked[0]} --json names no node")
        return each_read(listed, of_json, lambda node: str(node.get("name")), None)

    def _text_nodes(self) -> list[Node]:
        mark = new_mark()
        asked = ("--noheader", "--Node", "--all", "--Format", text_format(NODE_FIELDS, mark))
        rows = [
            dict(zip(NODE_FIELDS.values(), map(str.strip, record), strict=True))
            for record in text_records(self.client.run("sinfo", *asked), mark)
        ]
        return of_sinfo(rows, self.unread)

    # -- smaller questions

    def racks(self) -> list[Rack]:
        """Which nodes stand together; none where the network is flat, which some releases call an error."""
        try:
            return racks(self.client.run("scontrol", "show", "topology"))
        except DeclinedError:
            return []

    def counters(self) -> str:
        """How many jobs were submitted, started and ended so far: a cheap way to see whether anything has happened."""
        return "".join(re.findall(r"^Jobs \w+: *\d+$", self.client.run("sdiag"), re.MULTILINE)[:5])

    def waits(self, job: str) -> bool:
        """Whether a job still waits."""
        return bool(self.client.run("squeue", "--noheader", f"--jobs={job}", "--states=PENDING", "--format=%i").strip())

    def set_by_hand(self) -> dict[str, int]:
        """Waiting jobs whose priority was set outright: Slurm has no factors of these, but of all others.

        Where it has factors of none, just after its start, nothing can be said.
        """
        try:
            text = self.client.run("sprio", "--noheader", "--format", "%i|%Y|%A|%B|%F|%J|%P|%Q|%S|%T")
        except DeclinedError:
            return {}  # priority/basic has no factors at all
        rows = [line.strip().split("|") for line in text.splitlines()]
        rows = [row for row in rows if len(row) > 1 and row[1].isdigit()]
        bare = {row[0]: int(row[1]) for row in rows if not "".join(row[2:]).strip("0 ")}
        return {handle: priority for handle, priority in bare.items() if priority > 1} if len(bare) < len(rows) else {}

    def boot_time(self) -> float:
        """When slurmctld was started, in seconds since 1970."""
        found = re.search(r"^BOOT_TIME *= (\S+)$", self.client.run("scontrol", "show", "config"), re.MULTILINE)
        return time_ms(found[1]) / 1000 if found else 0.0


def _but_priority(values: Sequence[str]) -> tuple[str, ...]:
    """What distinguishes records; priorities of all change in every round."""
    return (*values[:PRIORITY], *values[PRIORITY + 1 :])
