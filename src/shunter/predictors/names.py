"""Job names that mean the same: without numbers and hashes, and near ones together, in the order they first appear."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from shunter.compiled import kernel
from shunter.world import I64

_HASH = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{6,}", re.IGNORECASE)  # hexadecimal digits, at least one of them a number
_NOT_LETTERS = re.compile(r"[\W\d_]+")
LONGEST = 48  # letters of a name that are compared
FAR = 20  # % of the letters; names that differ in no more are near
COMPARED = 64  # clusters with the same first letter that a new name is compared with, the earliest


def plain(name: str) -> str:
    """A name without what changes from run to run: ``Train_ResNet-3fa9c2b1_v12`` -> ``train resnet v``."""
    return _NOT_LETTERS.sub(" ", _HASH.sub(" ", name.lower())).strip()


def clusters(names: Sequence[str]) -> I64:
    """A code per name; near ones have the same.

    A name is compared only with those before it, so that what jobs are called later changes nothing: a live cluster
    finds the same clusters.
    """
    forms: dict[str, int] = {}
    form_of = np.array([forms.setdefault(plain(name), len(forms)) for name in names], np.int64)
    letters = np.zeros((len(forms), LONGEST), np.int64)
    for form, row in forms.items():
        part = form[:LONGEST]
        letters[row, : len(part)] = [ord(letter) for letter in part]
    lengths = np.array([min(len(form), LONGEST) for form in forms], np.int64)
    initials = np.unique(letters[:, 0], return_inverse=True)[1] if forms else np.zeros(0, np.int64)
    known = np.zeros((int(initials.max(initial=0)) + 1, COMPARED), np.int64)
    found = np.arange(len(forms))
    merge(
        letters, lengths, initials, known, np.zeros(len(known), np.int64), np.zeros((2, LONGEST + 1), np.int64), found
    )
    return found[form_of] if len(names) else form_of


@kernel
def merge(letters: I64, lengths: I64, initials: I64, known: I64, counts: I64, scratch: I64, found: I64) -> None:
    """Give every form the first form before it that is near; ``known``: those that began a cluster, by first letter."""
    for form in range(len(lengths)):
        initial = initials[form]
        for at in range(counts[initial]):
            other = known[initial, at]
            longer = max(lengths[form], lengths[other])
            allowed = longer * FAR // 100
            if longer == 0 or abs(lengths[form] - lengths[other]) > allowed:
                continue
            if distance(letters[form], lengths[form], letters[other], lengths[other], scratch) <= allowed:
                found[form] = other
                break
        if found[form] == form and counts[initial] < known.shape[1]:
            known[initial, counts[initial]] = form
            counts[initial] += 1


@kernel
def distance(a: I64, a_length: int, b: I64, b_length: int, scratch: I64) -> int:
    """How many letters must be put in, taken out or exchanged (Levenshtein)."""
    before, row = 0, 1
    for j in range(b_length + 1):
        scratch[before, j] = j
    for i in range(1, a_length + 1):
        scratch[row, 0] = i
        for j in range(1, b_length + 1):
            changed = scratch[before, j - 1] + (a[i - 1] != b[j - 1])
            scratch[row, j] = min(changed, scratch[before, j] + 1, scratch[row, j - 1] + 1)
        before, row = row, before
    return int(scratch[before, b_length])
