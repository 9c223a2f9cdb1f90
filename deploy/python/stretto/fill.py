# SPDX-License-Identifier: Apache-2.0
"""Fills a message from mappings, lists and scalars, field by field as its descriptor says, and makes
them of a message. The descriptor is the only schema: which values are sensible is for the
coordinator to judge.
"""
import difflib
import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from stretto.errors import InvalidInput

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_WORDS = {
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_STRING: "a string",
    FieldDescriptor.CPPTYPE_MESSAGE: "a mapping",
}

M = TypeVar("M", bound=Message)
# "FILE:LINE:COLUMN: " of a path, or nothing.
Place = Callable[[str], str]


def short_name(enum: EnumDescriptor, name: str) -> str:
    """PRECISION_BF16 -> bf16."""
    prefix = re.sub(r"(?<=[^A-Z])(?=[A-Z])", "_", enum.name).upper() + "_"
    return name.removeprefix(prefix).lower()


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_repeated(field: FieldDescriptor) -> bool:
    new: Any = field  # `label` ends and `is_repeated` begins with newer releases of protobuf
    if hasattr(type(field), "is_repeated"):
        return bool(new.is_repeated)
    return bool(new.label == FieldDescriptor.LABEL_REPEATED)


def describe(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, numbers.Real):
        return str(value)
    if isinstance(value, str):
        return f'"{value if len(value) <= 60 else value[:57] + "..."}"'
    return f"a {type(value).__name__}"


def _names(field: FieldDescriptor) -> dict[str, int]:
    enum: Any = field.enum_type
    return {short_name(enum, value.name): value.number
            for value in enum.values if value.number != 0}


def _expected(field: FieldDescriptor) -> str:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return "one of: " + ", ".join(_names(field))
    return _WORDS.get(field.cpp_type, "an integer")


def _scalar(value: Any, field: FieldDescriptor) -> Any:
    """The value as its field takes it. Errors: ValueError with what was expected."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM and isinstance(value, str):
        names = _names(field)
        if value in names:
            return names[value]
        near = difflib.get_close_matches(value, names, 1)
        raise ValueError(_expected(field) + (f'; did you mean "{near[0]}"?' if near else ""))
    if kind == FieldDescriptor.CPPTYPE_STRING and isinstance(value, str):
        return value
    if kind == FieldDescriptor.CPPTYPE_BOOL and isinstance(value, bool):
        return value
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE) and number:
        if math.isfinite(value):
            return float(value)
        raise ValueError("a finite number")
    if kind in _RANGES and number and isinstance(value, numbers.Integral):
        low, high = _RANGES[kind]
        if low <= int(value) <= high:
            return int(value)
        raise ValueError(f"an integer from {low} to {high}")
    quote = kind == FieldDescriptor.CPPTYPE_STRING and (number or isinstance(value, bool))
    raise ValueError(_expected(field) + (f'; quote it: "{describe(value)}"' if quote else ""))


class _Filler:
    def __init__(self, place: Place) -> None:
        self.place = place

    def fault(self, path: str, text: str) -> InvalidInput:
        return InvalidInput(self.place(path) + ": ".join(filter(None, (path, text))))

    def convert(self, path: str, value: Any, field: FieldDescriptor) -> Any:
        try:
            return _scalar(value, field)
        except ValueError as expected:
            raise self.fault(path, f"found {describe(value)}, expected {expected}") from None

    def fill(self, message: Any, values: Any, path: str) -> None:
        fields = message.DESCRIPTOR.fields_by_name
        if not isinstance(values, Mapping):
            raise self.fault(path, f"found {describe(values)}, expected a mapping of: "
                             + ", ".join(fields))
        for key, value in values.items():
            here = f"{path}.{key}" if path else str(key)
            if key not in fields:
                near = difflib.get_close_matches(str(key), fields, 1)
                hint = f'did you mean "{near[0]}"?' if near else (
                    "expected one of: " + ", ".join(fields))
                text = ": ".join(filter(None, (path, f'unknown field "{key}"; {hint}')))
                raise InvalidInput(self.place(here) + text)
            self.field(message, fields[key], value, here)

    def field(self, message: Any, field: FieldDescriptor, value: Any, path: str) -> None:
        target = getattr(message, field.name)
        if value is None:
            raise self.fault(path, f"found nothing, expected {_expected(field)}")
        if _is_map(field):
            assert field.message_type is not None
            self.map(target, field.message_type, value, path)
        elif _is_repeated(field):
            self.list(target, field, value, path)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            target.SetInParent()
            self.fill(target, value, path)
        else:
            setattr(message, field.name, self.convert(path, value, field))

    def list(self, target: Any, field: FieldDescriptor, value: Any, path: str) -> None:
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise self.fault(path, f"found {describe(value)}, expected a list, each "
                             + _expected(field))
        for index, item in enumerate(value):
            here = f"{path}[{index}]"
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                self.fill(target.add(), item, here)
            else:
                target.append(self.convert(here, item, field))

    def map(self, target: Any, entry: Descriptor, value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise self.fault(path, f"found {describe(value)}, expected a mapping")
        of_value = entry.fields_by_name["value"]
        for key, item in value.items():
            here = f"{path}[{key}]"
            if of_value.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                self.fill(target[str(key)], item, here)
            else:
                target[str(key)] = self.convert(here, item, of_value)


def fill(message: M, values: Any, place: Place = lambda path: "") -> M:
    """Sets the fields of `message` from `values` and returns it. Enums are short lower-case names.
    Errors: InvalidInput for the first field that does not exist or has a value of another type."""
    _Filler(place).fill(message, values, "")
    return message


def _value_of(field: FieldDescriptor, value: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return values_of(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        enum: Any = field.enum_type
        known = enum.values_by_number.get(value)
        return short_name(enum, known.name) if known else value
    return value


def values_of(message: Message) -> dict[str, Any]:
    """From this `fill` makes the message: the fields that are set."""
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        if _is_map(field):
            assert field.message_type is not None
            of_value = field.message_type.fields_by_name["value"]
            values[field.name] = {str(key): _value_of(of_value, value[key]) for key in value}
        elif _is_repeated(field):
            values[field.name] = [_value_of(field, item) for item in value]
        else:
            values[field.name] = _value_of(field, value)
    return values
