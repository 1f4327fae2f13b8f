"""Numba's compiler without what our kernels never need: most of a first run is spent in its Python code.

It leaves out passes that do nothing for a kernel: for closures, ``with`` blocks, unrolled literals, constants that
decide a branch, expressions of whole arrays, annotated sources.  And it works out once, not at each place of each
kernel, what an operator or a function of numba's own returns for arguments of some types: for ``jobs[row, job]`` numba
tries dozens of candidates each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shunter import numba_config  # noqa: F401 before numba

# isort: split
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

LEFT_OUT = frozenset({
    untyped_passes.WithLifting,
    untyped_passes.InlineClosureLikes,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,
    untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll,
    untyped_passes.LiteralPropagationSubPipelinePass,
    typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites,
    typed_passes.AnnotateTypes,
    typed_passes.DumpParforDiagnostics,
})  # fmt: skip

_known: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # what a function returns, beside the function, which must stay
_call_type = BaseFunction.get_call_type


class LeanCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler for kernels."""

    def define_pipelines(self) -> list[Any]:
        """The passes that kernels need, in numba's order."""
        (whole,) = super().define_pipelines()
        lean = PassManager(whole.pipeline_name)
        for each, text in whole.passes:
            if each not in LEFT_OUT:
                lean.add_pass(each, text)
        lean.finalize()
        return [lean]

    def compile_extra(self, function: Any) -> Any:
        """Compile a function, with what is known from those before."""
        with _remembering():
            return super().compile_extra(function)


@contextmanager
def _remembering() -> Iterator[None]:
    """Look up what functions return in here; numba compiles in one thread at a time."""
    before = BaseFunction.get_call_type
    BaseFunction.get_call_type = _remembered  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        BaseFunction.get_call_type = before  # type: ignore[method-assign]


def _remembered(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """What a function of numba's returns for arguments of these types, and how it is called."""
    key = (id(function), id(context), tuple(args), tuple(kws.items()), _options())
    if key not in _known:
        _known[key] = _call_type(function, context, args, kws), function
    return _known[key][0]


class _Options:
    """The options of the compilation that is going on, in a few words."""

    of: Any = None
    text = ""


def _options() -> str:
    flags = ConfigStack.top_or_none()
    if flags is not _Options.of:
        _Options.of, _Options.text = flags, flags.summary()
    return _Options.text
