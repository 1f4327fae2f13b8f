"""Kernels as other kernels call them: LLVM's intermediate code, optimised and made machine code only where it ends up.

Numba makes machine code of every function that it compiles, together with all that it calls, so that a function deep
down is optimised and emitted again in each of its callers, and their callers.  That took most of a first run.  What
kernels call is only translated here.  LLVM does the rest once, for what Python calls or has a pointer to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import llvmlite.binding as llvm
import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from shunter.lean import LeanCompiler

unliteral = types.unliteral  # type: ignore[attr-defined]
INLINED = 150  # LLVM's threshold for what is called in several places; its own, 250, takes longer to compile
ENVIRONMENT = "_ZN08NumbaEnv"  # how the names begin of variables that numba sets when it has loaded a function


class Library(JITCodeLibrary):  # type: ignore[misc]
    """The code of one function and of all that it calls, to be linked into others."""

    def finalize(self) -> None:
        """Link in what is called; of this library itself, the machine has only numba's variables."""
        module: Any = self._final_module  # type: ignore[has-type]
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)  # noqa: SLF001
            module.link_in(library._get_module_for_linking(), preserve=True)  # noqa: SLF001
        for function in module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = module
        variables = [str(v) for v in module.global_variables if v.name.startswith(ENVIRONMENT)]
        empty = str(self._codegen._create_empty_module(self.name))  # noqa: SLF001
        self._final_module = llvm.parse_assembly("\n".join([empty, *variables]))
        self._finalize_final_module()


class MachineCode(JITCodeLibrary):  # type: ignore[misc]
    """The code of one function and of all that it calls, as the machine runs it."""

    def _optimize_final_module(self) -> None:
        """Optimise once, knowing that nobody else calls what is linked in, so that what is called once is inlined.

        Numba optimises twice, for references, which kernels do not count.  Loops of kernels go over a few dozen nodes
        or GPUs at most: longer code for them is not faster, and takes longer to make.
        """
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.linkonce_odr:
                function.linkage = "internal"
        options = llvm.create_pipeline_tuning_options(numba.config.OPT)
        options.loop_vectorization, options.loop_unrolling = False, False
        options.inlining_threshold = INLINED
        builder = llvm.create_pass_builder(self._codegen._tm, options)  # noqa: SLF001
        builder.getModulePassManager().run(self._final_module, builder)


class KernelCompiler(LeanCompiler):
    """The compiler of kernels that Python calls or has a pointer to."""

    def compile_extra(self, function: Any) -> Any:
        """Compile a function into a library of ours."""
        library = MachineCode(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(function)


class WholeTranslator(Compiler):  # type: ignore[misc]
    """Numba's compiler, up to LLVM's intermediate code."""

    def compile_extra(self, function: Any) -> Any:
        """Compile a function into a library of ours."""
        library = Library(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(function)


class Translator(WholeTranslator, LeanCompiler):
    """The same with what kernels need alone."""


def called_through(kernel: Any, translated: Callable[[], Any]) -> None:
    """Have callers of a kernel link the translated one, which is made when the first of them is compiled.

    One version serves all constants: numba would make another for every 0 and -1 that is passed.
    """

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = {name: unliteral(kind) for name, kind in kws.items()}
        return translated().get_call_template(tuple(map(unliteral, args)), plain)

    def get_overload(signature: Any) -> Any:
        return translated().get_overload(signature)

    kernel.get_call_template, kernel.get_overload = get_call_template, get_overload


def translate(function: Callable[..., Any], options: dict[str, Any], whole: bool) -> Any:
    """A function that only kernels can call; ``whole``: by all of numba's compiler, for what others may write."""
    translator = WholeTranslator if whole else Translator
    return numba.njit(pipeline_class=translator, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)


def translate_ahead(kernel: Any, *kinds: Any) -> None:
    """Translate a kernel for arguments of these types, as for a call by another kernel."""
    kernel.get_call_template(kinds, {})
