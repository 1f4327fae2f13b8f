"""From text to policy: a name, a dotted path or an entry point, with parameters.

``fifo``, ``fifo:blocking=skip,placement=count``, ``mylab.sched.Mine:alpha=2``.  Nothing is imported before it is named.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import sys
from typing import TYPE_CHECKING, Any, cast

from shunter import extensions
from shunter.errors import PolicyError, did_you_mean
from shunter.params import build, declared, named

if TYPE_CHECKING:
    from shunter.protocols import Policy

GROUP = "shunter.policies"  # entry points of third parties


def names() -> list[str]:
    """The names of all policies: ours and those that installed packages offer."""
    import shunter.policies as package

    ours = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")]
    return sorted({*ours, *extensions.offered(GROUP)})


def policy_class(name: str) -> type[Any]:
    """The class behind a name or a dotted path."""
    if "." in name:
        return _by_path(name)
    if (found := extensions.entry(GROUP, name, PolicyError)) is not None:
        return cast("type[Any]", found)
    path = f"shunter.policies.{name}"
    if (path not in sys.modules or name.startswith("_")) and name not in names():  # listing files takes a millisecond
        raise PolicyError(f"there is no policy '{name}'; {did_you_mean(name, names())}")
    module = importlib.import_module(path)
    own = {module.__name__, f"{module.__name__}.policy"}
    classes = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ in own]
    return next(cls for cls in classes if hasattr(cls, "decide"))


def about(name: str) -> dict[str, Any]:
    """What ``shunter policies NAME --json`` prints: what a policy does, and its parameters."""
    cls = policy_class(name)
    parameters = [
        {"name": key, "default": default, "range": param.range_text(kind), "meaning": param.doc}
        for key, (kind, default, param) in declared(cls).items()
    ]
    return {"name": name, "meaning": (cls.__doc__ or "").strip(), "parameters": parameters}


def _by_path(path: str) -> type[Any]:
    found = extensions.by_path(path, "policy", PolicyError)
    if not isinstance(found, type) or not hasattr(found, "decide"):
        module, _, name = path.rpartition(".")
        raise PolicyError(f"policy '{path}': '{module}' has no class '{name}' with a method 'decide'")
    return found


def policy(wanted: str | Policy) -> Policy:
    """The policy that a text names; a policy is returned as it is.

    The text is a name, a dotted path or an entry point, with parameters: ``fifo``, ``fifo:backfill=easy``,
    ``mylab.sched.Mine:alpha=2``.

    Examples:
        >>> import shunter
        >>> shunter.policy("fifo:backfill=easy").backfill
        'easy'
        >>> shunter.policy("fifi")
        Traceback (most recent call last):
        shunter.errors.PolicyError: there is no policy 'fifi'; did you mean 'fifo'? known: ces, dally, ...
    """
    from shunter.protocols import Policy  # here, so that names can be listed and completed without NumPy

    if isinstance(wanted, type):
        raise PolicyError(f"a policy is an object, not a class; pass {wanted.__name__}() with its parameters")
    if not isinstance(wanted, str):
        if not isinstance(wanted, Policy):
            raise PolicyError(f"a policy needs 'needs', 'start' and 'decide'; {wanted!r} lacks some")
        _check_fields(type(wanted).__name__, type(wanted))
        return _with_checked_key(wanted)
    name, values = named(wanted)
    classes = _classes(name, values)
    make = _kept if all(map(_is_frozen, classes)) else _made
    return make(name, tuple(sorted(values.items())), classes)


def _classes(name: str, values: dict[str, str]) -> tuple[type[Any], ...]:
    """The class of a policy, and those of the policies that it is made of."""
    cls = policy_class(name)
    parts = declared(cls).items() if dataclasses.is_dataclass(cls) else ()
    inner = [
        named(str(values.get(key, default)).replace(";", ",")) for key, (_, default, about) in parts if about.policy
    ]
    return (cls, *(found for one in inner for found in _classes(*one)))


def _is_frozen(cls: type[Any]) -> bool:
    return dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]


def _made(name: str, values: tuple[tuple[str, str], ...], classes: tuple[type[Any], ...]) -> Policy:
    from shunter.protocols import Policy

    cls = classes[0]
    _check_whole(name, cls)
    _check_fields(name, cls)
    given = dict(values)
    made: Any = _with_policies(build(cls, name, given)) if dataclasses.is_dataclass(cls) else _plain(name, cls, given)
    if not isinstance(made, Policy):
        raise PolicyError(f"policy '{name}': a policy needs 'needs', 'start' and 'decide'; {cls.__name__} lacks some")
    return _with_checked_key(made)


# A command names a policy in several places: its text is parsed and its key tried once. A module that is loaded again
# has other classes, so its policies are made again.
_kept = functools.lru_cache(maxsize=4096)(_made)


def _with_checked_key(made: Policy) -> Policy:
    """The policy, if its order can be used: a mistake is reported before anything is simulated."""
    from shunter.scheduling.queue.keys import check_key
    from shunter.scheduling.queue.policy import Queued

    if isinstance(made, Queued):
        check_key(made)
    return made


def _check_fields(name: str, cls: type[Any]) -> None:
    """Refuse a class whose fields are no parameters because it is no dataclass itself."""
    if "__dataclass_fields__" in vars(cls) or not dataclasses.is_dataclass(cls):
        return
    kinds = inspect.get_annotations(cls)
    fields = [key for key, kind in kinds.items() if "ClassVar" not in str(kind)]
    fields += [key for key, value in vars(cls).items() if isinstance(value, dataclasses.Field) and key not in kinds]
    if fields:
        raise PolicyError(
            f"policy '{name}': {cls.__name__} has fields ({', '.join(fields)}) and lacks @dataclass(frozen=True); write"
            " it on the line above the class, so that they are parameters"
        )


def _plain(name: str, cls: type[Any], values: dict[str, str]) -> Any:
    """A policy whose class is no dataclass: its settings are arguments, as text."""
    try:
        return cls(**values)
    except TypeError as error:
        raise PolicyError(
            f"policy '{name}': {error}; a class with @dataclass(frozen=True) gets its parameters checked and converted"
        ) from None


def _check_whole(name: str, cls: type[Any]) -> None:
    """Refuse a class that declares a capability and lacks one of its methods."""
    for method in sorted(getattr(cls, "__abstractmethods__", ())):
        declares = next(base for base in cls.__mro__ if method in vars(base))
        raise PolicyError(
            f"policy '{name}': {cls.__name__} declares {declares.__name__} and lacks '{method}'; "
            f"implement it, or don't inherit {declares.__name__}"
        )


def _with_policies(made: Any) -> Any:
    """A policy with objects in place of the texts of other policies that it is made of."""
    texts = {key: getattr(made, key) for key, (_, _, about) in declared(type(made)).items() if about.policy}
    parts = {key: policy(text.replace(";", ",")) for key, text in texts.items()}
    return dataclasses.replace(made, **parts) if parts else made


def text(policy: Policy) -> str:
    """The text that names a policy, with the parameters that differ from their defaults."""
    cls = type(policy)
    name = cls.__module__.removeprefix("shunter.policies.").partition(".")[0]
    if not cls.__module__.startswith("shunter.policies."):
        name = f"{cls.__module__}.{cls.__qualname__}"
    if not dataclasses.is_dataclass(cls):
        return name
    known = declared(cls).items()
    written = {key: (_written(getattr(policy, key), about.policy), default) for key, (_, default, about) in known}
    settings = ",".join(f"{key}={value}" for key, (value, default) in written.items() if value != _written(default))
    return f"{name}:{settings}" if settings else name


def _written(value: Any, is_policy: bool = False) -> str:
    if is_policy:
        return value if isinstance(value, str) else text(value).replace(",", ";")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return str(value)
