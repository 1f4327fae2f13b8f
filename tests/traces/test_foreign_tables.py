"""Tables that nobody prepared: dates with names of months, one order of dates per file, nodes, ids called uid."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from shunter.clusters import load
from shunter.errors import TraceError
from shunter.report.describe import describe
from shunter.traces import read
from shunter.traces.readers import parquet

OCTOBER = int(datetime(2026, 10, 1, 8, 18, tzinfo=UTC).timestamp() * 1000)


def file(folder: Path, text: str, name: str = "export.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "date",
    [
        "01 Oct 2026 08:18",
        "1-October-2026 08:18:00",
        "Oct 1, 2026 08:18 AM",
        "Thu Oct  1 08:18:00 2026",
        "Thu, 01 Oct 2026 10:18:00 +0200",
        "Thu Oct 1 08:18:00 UTC 2026",
    ],
)
def test_dates_with_the_name_of_a_month(tmp_path, date):
    trace = read(file(tmp_path, f'submit;duration;gpus\n"{date}";5;1\n'))
    assert trace.submit.tolist() == [OCTOBER]


@pytest.mark.parametrize("date", ["1 Okt 2026", "Oct 01 08:18", "32 Oct 2026 08:18"])
def test_other_words_for_a_date_are_refused(tmp_path, date):
    with pytest.raises(TraceError, match="line 2: submit must be a time"):
        read(file(tmp_path, f"submit;duration;gpus\n{date};5;1\n"))


DATES = "SubmitDate,StartDate,EndDate,gpus\n10/01/2026 08:18,10/01/2026 08:20,{}/2026 09:00,1\n"


def test_one_column_shows_how_all_dates_are_written(tmp_path):
    assert read(file(tmp_path, DATES.format("10/13"))).submit.tolist() == [OCTOBER]


def test_the_remedy_for_dates_names_the_column_and_works(tmp_path):
    path = file(tmp_path, DATES.format("10/02"))
    with pytest.raises(TraceError, match=r"--columns start=StartDate:dmy \(or :mdy\)"):
        read(path)
    assert read(path, columns={"start": "StartDate:mdy"}).submit.tolist() == [OCTOBER]


def test_nodes_times_gpus_per_node(tmp_path):
    trace = read(file(tmp_path, "submit,duration,Nodes,gpus_per_node\n0,5,2,4\n"))
    assert trace.gpus.tolist() == [8000]
    assert "GPUs are 'Nodes' times 'gpus_per_node'" in trace.remarks
    both = read(file(tmp_path, "submit,duration,nodes,gpus_per_node,gpus\n0,5,2,4,3\n"))
    assert both.gpus.tolist() == [3000]
    assert any("not read: 'nodes', 'gpus_per_node'" in remark for remark in both.remarks)
    for bad in ("0", "1.5", "", "x"):
        with pytest.raises(TraceError, match="line 2: nodes must be a whole number from 1 on"):
            read(file(tmp_path, f"submit,duration,nodes,gpus_per_node\n0,5,{bad},4\n"))


def test_a_uid_that_is_never_the_same_is_no_user(tmp_path):
    header = "submit,duration,gpus,uid,createdBy,phase\n"
    trace = read(file(tmp_path, f"{header}0,5,1,p1,ann,Succeeded\n1,5,1,p2,ann,Canceled\n"))
    assert (trace.job_id.tolist(), trace.users) == (["p1", "p2"], ("ann",))
    assert trace.outcomes == ("completed", "cancelled")
    assert "'uid' differs in every row: it is taken as the job's id" in trace.remarks
    again = read(file(tmp_path, "submit,duration,gpus,uid\n0,5,1,17\n1,5,1,17\n"))
    assert (again.job_id.tolist(), again.users) == (["1", "2"], ("17",))


def test_jobs_that_still_wait_get_the_remedy_of_those_that_run(tmp_path):
    text = "submit,start,end,gpus\n0,1,6,1\n1,2,,1\n2,,,1\n"
    with pytest.raises(TraceError) as caught:
        read(file(tmp_path, text))
    assert str(caught.value).count("end must be known, but this job has not ended; leave out") == 2
    kept = read(file(tmp_path, text), on_bad_row="skip")
    assert len(kept) == 1
    assert any("line 3: end must be known, but this job has not ended" in remark for remark in kept.remarks)
    assert not any("--on-bad-row" in remark for remark in kept.remarks), "it was passed already"
    parquet.write(kept, tmp_path / "kept.parquet")
    later = read(tmp_path / "kept.parquet").remarks
    assert "left out 2 bad rows (2: end must be known)" in later, "lines of another file are of no use"


def test_an_error_names_the_columns_of_every_type(tmp_path):
    path = tmp_path / "history.parquet"
    pl.DataFrame({"submit": [0], "ran for": [1], "cards": [2], "more": [[1]]}).write_parquet(path)
    with pytest.raises(TraceError, match="it has 'submit', 'ran for', 'cards', 'more'"):
        read(path)
    trace = read(path, columns={"duration": "ran for", "gpus": "cards"})
    assert "columns that are not read: 'more'" in trace.remarks
    with pytest.raises(TraceError, match="it has 'submit', 'gpus', 'ran for'"):
        read(file(tmp_path, '{"submit":0,"gpus":1,"ran for":5}\n', "jobs.jsonl"))


def test_only_a_likely_misspelling_is_asked_about(tmp_path):
    trace = read(file(tmp_path, "submit,duration,gpus,Nodes,Auftrag,usr\n0,5,1,1,7,ann\n"))
    assert any("not read: 'Auftrag', 'usr' (did you mean 'user'?), 'Nodes'" in remark for remark in trace.remarks)


def test_describe_suggests_what_auto_takes(tmp_path):
    trace = read(file(tmp_path, "submit,duration,gpus\n" + "".join(f"{at},977,8\n" for at in range(0, 2000, 10))))
    assert describe(trace)["load"]["cluster"] == load("auto", trace).name
