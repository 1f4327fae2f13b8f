"""Read a job log of your own: say how it is recognised and which field is what."""

import tempfile
from pathlib import Path

import shunter
from shunter.traces.delimited import read_table
from shunter.traces.source import Source

LOG = """\
job;when;secs;cards;who
train-7;2024-05-01 09:00:00;7200;4;ann
eval-1;2024-05-01 09:05:00;600;1;bob
oops;2024-05-01 09:07:00;soon;1;bob
prep;2024-05-01 09:10:00;60;0;cyd
"""


class LabLog:
    """A reader: an object (or a module) with these three."""

    doc = "the lab's own job log"

    def recognises(self, source: Source) -> bool:
        """Whether a file that begins so is one of these."""
        return source.has("when", "secs", "cards")

    def read(self, source: Source) -> shunter.Trace:
        """The trace in the file; mistakes are collected with their lines."""
        table = read_table(source, required=("job", "when", "secs", "cards"), separator=";")
        return table.trace(
            table.text("job"),
            submit=table.time("when"),
            duration=table.number("secs", "duration"),
            gpus=table.gpus("cards"),
            user=table.text("who"),
        )


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "jobs.log")
    path.write_text(LOG)
    try:
        shunter.read_trace(path, format=LabLog())
    except shunter.InputError as error:
        print("refused:", error)
    trace = shunter.read_trace(path, format=LabLog(), on_bad_row="skip")

print("jobs:", ", ".join(trace.job_id))
for remark in trace.remarks:
    print("note:", remark)
