"""Marks in the AdminComment of jobs: they can be read back, and nothing of the site's own text is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.live.marks import Mark
from shunter.slurm.marks import marked, marks_in, unmarked

ID = "1f2e3d4c"
NUMBERS = st.integers(-(2**31), 2**31).map(str)
NODES = st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True), min_size=1, max_size=4).map(",".join)
MARKS = st.one_of(
    st.builds(Mark, st.just(ID), st.just("nice"), NUMBERS, NUMBERS),
    st.builds(Mark, st.just(ID), st.just("priority"), NUMBERS.map(lambda nice: f"59:{nice}"), st.just("4000")),
    st.builds(Mark, st.just(ID), st.just("pin"), st.just(""), NODES),
    st.builds(Mark, st.just(ID), st.just("shard"), st.just("gres:shard:4"), st.just("gres:shard:2")),
)
SITES = st.one_of(st.text(), st.lists(st.sampled_from([",", "shunter:", "a b", "\n", f"{ID}:nice=0>1"])).map("".join))


@given(SITES.filter(lambda text: not marks_in(text)), st.lists(MARKS, max_size=6))
def test_marks_come_and_go_and_the_rest_stays(site: str, marks: list[Mark]) -> None:
    comment = site
    for mark in marks:
        comment = marked(comment, mark)
        assert marks_in(comment)[mark.lever] == mark
    assert marks_in(comment) == {mark.lever: mark for mark in marks}
    for lever in list(marks_in(comment)):
        comment = unmarked(comment, (lever,))
        assert lever not in marks_in(comment)
    assert comment == site


@pytest.mark.parametrize(
    "comment",
    [
        "xshunter:1f2e3d4c:nice=0>1",
        "shunter:1f2e3d4c:nice=0>1 ",
        "shunter:1F2E3D4C:nice=0>1",
        "shunter:1f2e3d4:nice=0>1",
        "shunter:1f2e3d4c:nice=0",
        "shunter:1f2e3d4c:nice=>1",
        "shunter:1f2e3d4c:nice=0>1e9",
        "shunter:1f2e3d4c:nice=٣>1",
        "shunter:1f2e3d4c:pin=n1>n2",
        "shunter:1f2e3d4c:pin=>n1;reboot",
        "shunter:1f2e3d4c:priority=59>70",
        "shunter:1f2e3d4c:requeue=0>1",
        "shunter:1f2e3d4c:shard=gres:gpu:4>gres:gpu:2",
        "shunter:1f2e3d4c:nice=0>1\n",
    ],
)
def test_what_is_not_exactly_a_mark_is_the_sites(comment: str) -> None:
    assert not marks_in(comment)
    assert unmarked(comment) == comment


def test_of_two_marks_of_one_lever_the_first_counts() -> None:
    """It says what the job had before either."""
    comment = f"shunter:{ID}:nice=0>1,text,shunter:00000000:nice=1>2"
    assert marks_in(comment) == {"nice": Mark(ID, "nice", "0", "1")}
    assert unmarked(comment) == "text"


def test_a_mark_that_could_not_be_read_back_is_never_written() -> None:
    with pytest.raises(ValueError, match="can't be read back"):
        marked("", Mark(ID, "pin", "n1", "n2"))
