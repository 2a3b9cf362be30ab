"""Device selectors in CEL, the Common Expression Language, over the C++ runtime (ecosystem.md, row CEL).

A selector sees `device.class`, `device.attributes`, `device.gpuProduct`, `device.gpuModel`,
`device.memoryGb`, `node.name` and `node.labels`. It cannot loop (no all, exists, exists_one, map, filter) nor
match regular expressions, one of which can cost 0.7 s: what is left takes some 50 us per device at most.
"""

import functools
import re
from typing import TYPE_CHECKING, Any

from domain import calendar, errors, selector

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

MAX_LENGTH = 2048
REMEMBERED = 1024
INT64 = range(-(2**63), 2**63)
BOUNDED = """
stdlib:
  exclude_macros: [all, exists, exists_one, map, filter]
  exclude_functions:
  - name: matches
"""
FIRST_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]+)")


@functools.cache
def _environment() -> "cel.Env":
    """The declared variables. Imported here: the runtime is 14 MB, and most commands need none of it."""
    from cel_expr_python import cel

    kinds = cel.Type
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(BOUNDED),
        variables={
            "device.class": kinds.STRING,
            "device.gpuProduct": kinds.STRING,
            "device.gpuModel": kinds.STRING,
            "device.memoryGb": kinds.INT,
            "device.attributes": kinds.Map(kinds.STRING, kinds.DYN),
            "node.name": kinds.STRING,
            "node.labels": kinds.Map(kinds.STRING, kinds.STRING),
        },
    )


class CelSelector:
    """One checked expression."""

    def __init__(self, expression: "cel.Expression") -> None:
        self._expression = expression

    def matches(self, device: calendar.Atom, node: calendar.Node) -> bool:
        """False also where the expression fails on it, as on an attribute it lacks (anchors.md O27)."""
        try:
            value: object = self._expression.eval(data=_facts(device, node)).value()
        except (RuntimeError, TypeError, ValueError):
            return False
        return value is True


class CelSelectors:
    """Compiles selectors and remembers the ones used last."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._compile = functools.lru_cache(remembered)(_compile)

    def compile(self, text: str, field: str = "selector") -> selector.Selector:
        """Raises errors.Invalid naming `field` unless the text is CEL, type-checks and yields a boolean."""
        try:
            return self._compile(text)
        except ValueError as problem:
            raise errors.Invalid(field, str(problem)) from None


def _compile(text: str) -> CelSelector:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"is longer than {MAX_LENGTH} characters")
    if not "".join(text.split()).isprintable():
        raise ValueError("holds characters that cannot be printed")
    try:
        expression = _environment().compile(text)
    except RuntimeError as problem:
        raise ValueError(_explain(str(problem))) from None
    kind = expression.return_type().name()
    if kind == "DYN":
        raise ValueError("an attribute has no declared type: compare it, as in `device.attributes.x == true`")
    if kind != "BOOL":
        raise ValueError(f"yields {kind.lower()}, not a boolean")
    return CelSelector(expression)


def _explain(problem: str) -> str:
    """The first error of the compiler, with its place, without its drawing."""
    if (found := FIRST_ERROR.search(problem)) is None:
        return problem.splitlines()[0]
    line, column, message = found.groups()
    message = message.replace(" (in container '')", "")
    return f"{message} (line {line}, column {column})" if int(line) > 0 else message


def _facts(device: calendar.Atom, node: calendar.Node) -> dict[str, Any]:
    """What is unknown is left out, and so is an attribute that CEL cannot hold."""
    facts = {
        "device.class": device.class_,
        "device.gpuProduct": device.gpu_product,
        "device.gpuModel": device.gpu_model,
        "device.memoryGb": device.memory_gb,
        "device.attributes": {name: value for name, value in device.attributes.items() if _holds(value)},
        "node.name": node.name,
        "node.labels": dict(node.labels),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _holds(value: object) -> bool:
    return isinstance(value, str | float) or (isinstance(value, int) and value in INT64)
