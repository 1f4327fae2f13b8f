"""Structs of arrays that kernels get by reference.

A subclass of ``Arrays`` declares its fields by annotation: ``I1``, ``I2``, ``I3`` for int64 arrays of this many
dimensions, ``F1``, ``F2`` for float64, another such class, ``Arrays`` itself for any of them (see ``narrowed``), or
``int``, ``float``, ``bool`` for a single number.  In Python the fields are plain NumPy arrays and numbers.  Handed to a
kernel, the object is one machine word: the address of a block that has the numbers and says where the arrays are.
(Numba passes a tuple of arrays by value, seven and more words for each at every call, which made kernels several times
slower to run and to compile.)

Numbers never change, so that they can be configuration.  In a subclass of ``Variables`` they are state: they can be
set, in a kernel as in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import pack_array
from numba.core.errors import TypingError
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, intrinsic, models, register_model, typeof_impl, unbox
from numpy.typing import NDArray

I1: TypeAlias = NDArray[np.int64]
I2: TypeAlias = NDArray[np.int64]
I3: TypeAlias = NDArray[np.int64]
F1: TypeAlias = NDArray[np.float64]
F2: TypeAlias = NDArray[np.float64]

T = TypeVar("T", bound="Arrays")
WORDS = 4  # of the block per field: address, then up to three lengths; or a number
DTYPES = {"I": np.int64, "F": np.float64}
NUMBERS: dict[str, type] = {"int": int, "float": float, "bool": bool}


class Arrays:
    """The base; construct with all fields in order, or by name. Those with a default may be left out."""

    fields: ClassVar[dict[str, str]] = {}  # name -> annotation
    places: ClassVar[dict[str, int]] = {}  # name -> its first word in the block
    defaults: ClassVar[dict[str, Any]] = {}  # of numbers
    numbers_change: ClassVar[bool] = False
    address: int  # of the block

    def __init_subclass__(cls) -> None:
        cls.fields = dict(cls.__annotations__)
        cls.places = {name: WORDS * index for index, name in enumerate(cls.fields)}
        numbers = [name for name, kind in cls.fields.items() if kind in NUMBERS]
        cls.defaults = {name: cls.__dict__[name] for name in numbers if name in cls.__dict__}
        for name in numbers:
            setattr(cls, name, property(partial(cls._number, name=name)))

    def __init__(self, *values: Any, **named: Any) -> None:
        given = self.defaults | dict(zip(self.fields, values, strict=False)) | named
        for name in self.fields.keys() - given.keys():
            raise TypeError(f"{type(self).__name__} lacks '{name}'")
        block = np.zeros(WORDS * len(self.fields), np.int64)
        self.__dict__.update(_block=block, address=block.ctypes.data, _window=False)
        for name in self.fields:
            self._fill(name, given[name])

    def _fill(self, name: str, value: Any) -> None:
        """Set a field of a new struct."""
        kind, first, block = self.fields[name], self.places[name], self.__dict__["_block"]
        if kind in NUMBERS:
            self._set_number(name, value)
            return
        if isinstance(value, Arrays):
            block[first] = value.address
        else:
            value = np.ascontiguousarray(value, DTYPES[kind[0]])
            if value.ndim != int(kind[1]):
                raise TypeError(f"{type(self).__name__}.{name} must have {kind[1]} dimensions, got {value.ndim}")
            block[first : first + 1 + value.ndim] = (value.ctypes.data, *value.shape)
        self.__dict__[name] = value

    def _words(self, kind: str) -> Any:
        """The block, as numbers of this kind."""
        block = self.__dict__["_block"]
        return block.view(np.float64) if kind == "float" else block

    def _number(self, name: str) -> Any:
        kind = self.fields[name]
        return NUMBERS[kind](self._words(kind)[self.places[name]])

    def _set_number(self, name: str, value: Any) -> None:
        kind = self.fields[name]
        self._words(kind)[self.places[name]] = NUMBERS[kind](value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a number that changes; refuse all else: kernels would still see the old array."""
        if not self.numbers_change or self.fields.get(name) not in NUMBERS:
            raise AttributeError(f"{type(self).__name__}.{name} can't be set; use replace({name}=...)")
        if self.__dict__["_window"]:
            raise AttributeError(f"{type(self).__name__}.{name} is read-only")
        self._set_number(name, value)

    def replace(self, **changed: Any) -> Self:
        """A new struct with some fields exchanged; arrays and structs that stay are shared."""
        for name in changed.keys() - self.fields.keys():
            raise TypeError(f"{type(self).__name__} has no field '{name}' to replace")
        made, block = object.__new__(type(self)), self.__dict__["_block"].copy()
        made.__dict__.update(self.__dict__, _block=block, address=block.ctypes.data, _window=False)
        made.__dict__.pop("_whole", None)
        for name, value in changed.items():
            made._fill(name, value)
        return made

    def read_only(self) -> Self:
        """The same arrays and numbers, which can't be written to through this struct in Python."""
        window = object.__new__(type(self))
        window.__dict__.update(
            {name: _read_only(value) for name, value in self.__dict__.items() if name in self.fields}
        )
        window.__dict__.update(_block=self.__dict__["_block"], address=self.address, _window=True, _whole=self)
        return window

    def copy(self) -> Self:
        """An independent copy of every array and number."""
        fields = {name: getattr(self, name) for name in self.fields}
        return type(self)(**{n: v if self.fields[n] in NUMBERS else v.copy() for n, v in fields.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, name) for name in self.fields))


class Nothing(Arrays):
    """What is in the place of a struct where none is needed."""


class Variables(Arrays):
    """Arrays with numbers that change: a policy's or a queue's state."""

    numbers_change = True

    @property
    def numbers(self) -> I1:
        """The block that holds the numbers, to be put back as they were with a copy of it."""
        block: I1 = self.__dict__["_block"]
        return block


def narrowed(cls: type[T]) -> Callable[[Arrays], T]:
    """A function for kernels that takes a field declared as ``Arrays``, any struct, for one of this class.

    It is not checked: the field must have been given such a struct.
    """
    if numba.config.DISABLE_JIT:
        return lambda value: cast(T, value)

    @intrinsic  # type: ignore[untyped-decorator]
    def narrow(context: Any, value: Any) -> Any:
        return type_of(cls)(value), lambda context, builder, signature, arguments: arguments[0]

    return cast(Callable[[Arrays], T], narrow)


def _read_only(value: Any) -> Any:
    if isinstance(value, Arrays):
        return value.read_only()
    window = value.view()
    window.flags.writeable = False
    return window


# ---------------------------------------------------------------------------------------------- what numba must know


class ArraysType(types.Type):
    """The numba type of a subclass of ``Arrays``."""

    def __init__(self, cls: type[Arrays]) -> None:
        self.cls = cls
        super().__init__(name=f"Arrays({cls.__module__}.{cls.__qualname__})")

    def field_type(self, name: str) -> Any:
        """The numba type of a field."""
        kind = self.cls.fields[name]
        if kind in NUMBERS:
            return {"int": types.int64, "float": types.float64, "bool": types.boolean}[kind]
        if kind[0] in DTYPES and kind[1:].isdigit():
            return types.Array(numba.from_dtype(np.dtype(DTYPES[kind[0]])), int(kind[1]), "C")
        return type_of(_class_named(self.cls, kind))


def _class_named(cls: type[Arrays], name: str) -> type[Arrays]:
    found: type[Arrays] = getattr(sys.modules[cls.__module__], name)
    return found


_types: dict[type[Arrays], ArraysType] = {}


def type_of(cls: type[Arrays]) -> ArraysType:
    """The one numba type of a class."""
    return _types.setdefault(cls, ArraysType(cls))


@typeof_impl.register(Arrays)  # type: ignore[untyped-decorator]
def _typeof(value: Arrays, context: Any) -> ArraysType:
    return type_of(type(value))


@register_model(ArraysType)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: ArraysType) -> None:
        super().__init__(manager, kind, ir.IntType(64))


@unbox(ArraysType)  # type: ignore[untyped-decorator]
def _unbox(kind: ArraysType, value: Any, context: Any) -> NativeValue:
    number = context.pyapi.object_getattr_string(value, "address")
    address = context.pyapi.long_as_longlong(number)
    context.pyapi.decref(number)
    return NativeValue(address)


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = ArraysType

    def generic_resolve(self, kind: ArraysType, name: str) -> Any:
        return kind.field_type(name) if name in kind.cls.fields else None


def _place(builder: Any, kind: ArraysType, address: Any, name: str, offset: int) -> Any:
    """A pointer to one of the words of a field."""
    word = ir.IntType(64)
    first = WORDS * list(kind.cls.fields).index(name)
    return builder.gep(builder.inttoptr(address, word.as_pointer()), [ir.Constant(word, first + offset)])


def _as_number(builder: Any, word: Any, wanted: Any) -> Any:
    if wanted is types.float64:
        return builder.bitcast(word, ir.DoubleType())
    return word if wanted is types.int64 else builder.icmp_unsigned("!=", word, ir.Constant(word.type, 0))


@lower_setattr_generic(ArraysType)  # type: ignore[untyped-decorator]
def _set_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    (kind, wanted), (address, value) = signature.args, arguments
    if not kind.cls.numbers_change or kind.cls.fields[name] not in NUMBERS:
        raise TypingError(f"{kind.cls.__name__}.{name} can't be set in a kernel; only numbers of Variables can")
    if wanted is types.float64:
        value = builder.bitcast(value, ir.IntType(64))
    elif wanted is types.boolean:
        value = builder.zext(value, ir.IntType(64))
    builder.store(value, _place(builder, kind, address, name, 0))


@lower_getattr_generic(ArraysType)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, kind: ArraysType, address: Any, name: str) -> Any:
    word, wanted = ir.IntType(64), kind.field_type(name)
    constant = not (kind.cls.numbers_change and kind.cls.fields[name] in NUMBERS)

    def load(offset: int) -> Any:
        value = builder.load(_place(builder, kind, address, name, offset))
        if constant:  # so that what was loaded need not be loaded again after a store
            value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    if kind.cls.fields[name] in NUMBERS:
        return _as_number(builder, load(0), wanted)
    if isinstance(wanted, ArraysType):
        return load(0)
    shape = [load(1 + dimension) for dimension in range(wanted.ndim)]
    strides: list[Any] = []
    stride = ir.Constant(word, 8)
    for length in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    data = builder.inttoptr(load(0), context.get_data_type(wanted.dtype).as_pointer())
    parts = {"data": data, "itemsize": ir.Constant(word, 8), "nitems": builder.udiv(stride, ir.Constant(word, 8))}
    parts |= {"shape": pack_array(builder, shape), "strides": pack_array(builder, strides)}
    model = context.data_model_manager[wanted]
    array = ir.Constant(model.get_value_type(), None)  # memory that no kernel owns
    for part, value in parts.items():
        array = builder.insert_value(array, value, model.get_field_position(part))
    return array
