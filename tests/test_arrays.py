"""Structs of arrays and numbers, as Python and as kernels see them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numba
import numpy as np
import pytest

from shunter.arrays import I1, Arrays, Variables, narrowed
from shunter.compiled import kernel


class Rules(Arrays):
    """Configuration."""

    strict: bool
    step: int = 3
    half: float = 0.5


class Course(Variables):
    """State."""

    at: int = -1
    total: float = 0.0
    fresh: bool = True
    seen: I1


class Whole(Arrays):
    """Both, and a struct of which only its maker knows the class."""

    rules: Rules
    course: Course
    own: Arrays


course_of = narrowed(Course)


def whole(strict: bool = True) -> Whole:
    return Whole(Rules(strict), Course(seen=np.zeros(2, np.int64)), Course(at=40, seen=np.zeros(1, np.int64)))


@kernel
def advance(whole: Whole) -> int:
    """Read every kind of number, and set every kind."""
    course = whole.course
    if whole.rules.strict:
        course.at += whole.rules.step
    course.total = course.total + whole.rules.half
    course.fresh = False
    course.seen[0] += 1
    return int(course.at)


@kernel
def advance_own(whole: Whole) -> None:
    """Set a number of the struct whose class is only known here."""
    course_of(whole.own).at += 1


def numbers(course: Course) -> tuple[int, float, bool, int]:
    return course.at, course.total, course.fresh, int(course.seen[0])


@pytest.mark.parametrize(("strict", "at"), [(True, 2), (False, -1)])
def test_a_kernel_reads_and_sets_numbers(strict, at):
    both = whole(strict)
    assert advance(both) == at
    assert numbers(both.course) == (at, 0.5, False, 1)
    both.course.at, both.course.fresh = 7, True
    assert advance(both) == 7 + 3 * strict
    assert not both.course.fresh


def test_any_struct_can_be_taken_for_its_class():
    both = whole()
    advance_own(both)
    assert both.own.at == 41


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda struct: pickle.loads(pickle.dumps(struct))])
def test_a_copy_goes_its_own_way(copied):
    both = whole()
    advance(both)
    other = copied(both)
    advance(both)
    assert numbers(other.course) == (2, 0.5, False, 1)
    assert numbers(both.course) == (5, 1.0, False, 2)
    assert (other.rules.strict, other.rules.step, other.rules.half) == (True, 3, 0.5)


def test_a_read_only_struct_shows_the_numbers_of_now():
    both = whole()
    window = both.read_only()
    advance(both)
    assert numbers(window.course) == (2, 0.5, False, 1)


def test_a_replaced_part_leaves_the_state_shared():
    both = whole()
    other = both.replace(rules=both.rules.replace(step=10))
    advance(other)
    assert both.course.at == 9


@pytest.mark.parametrize(
    ("set_it", "why"),
    [
        (lambda both: setattr(both.rules, "step", 1), r"Rules.step can't be set; use replace\(step"),
        (lambda both: setattr(both.course, "seen", 1), r"Course.seen can't be set; use replace\(seen"),
        (lambda both: setattr(both, "course", both.course), r"Whole.course can't be set; use replace\(course"),
        (lambda both: setattr(both.read_only().course, "at", 1), "Course.at is read-only"),
        (lambda both: setattr(both.course, "other", 1), "Course.other can't be set"),
    ],
)
def test_only_numbers_that_change_can_be_set(set_it, why):
    with pytest.raises(AttributeError, match=why):
        set_it(whole())


@kernel
def change_rule(whole: Any) -> None:
    """What no kernel may do."""
    whole.rules.step = 1


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_kernel_can_not_change_configuration():
    with pytest.raises(numba.core.errors.TypingError, match=r"Rules\.step can't be set in a kernel"):
        change_rule(whole())


def test_numbers_without_default_must_be_given():
    with pytest.raises(TypeError, match="Rules lacks 'strict'"):
        Rules()


def test_a_replaced_struct_has_numbers_of_its_own() -> None:
    both = whole()
    advance(both)
    course = both.course.read_only()
    other = course.replace(total=9.0)
    assert (other.at, other.total, other.fresh) == (both.course.at, 9.0, False)
    other.at = 1  # it is no window
    assert both.course.at == course.at == 2
    assert advance(both.replace(course=other)) == 4
    assert list(both.course.seen) == list(other.seen) == [2, 0]


def test_a_field_that_is_not_there_can_not_be_replaced() -> None:
    with pytest.raises(TypeError, match="Rules has no field 'stirct' to replace"):
        Rules(True).replace(stirct=False)
