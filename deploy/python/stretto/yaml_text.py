# SPDX-License-Identifier: Apache-2.0
"""YAML as Stretto's files have it: one document without anchors, aliases and tags, and scalars as
in YAML 1.2. PyYAML itself reads 1.1, where `on` is true, 1e-3 is a string and 1:30 is 90.
"""
import dataclasses
import re
from typing import Any

import yaml

from stretto.errors import InvalidInput

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.inf|\.nan)\Z", re.I)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclasses.dataclass
class Document:
    """Values, and where each of them is in the text."""

    file: str
    values: Any
    places: dict[str, tuple[int, int]]  # path: line and column, from 1

    def place(self, path: str) -> str:
        """"FILE:LINE:COLUMN" of a path, or of the nearest enclosing one; FILE if there is none."""
        while path:
            if path in self.places:
                return "{}:{}:{}".format(self.file, *self.places[path])
            path = path[:max(path.rfind("."), path.rfind("["), 0)]
        return self.file


def _fault(file: str, mark: Any, text: str) -> InvalidInput:
    return InvalidInput(f"{file}:{mark.line + 1}:{mark.column + 1}: {text}")


def _value(node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.style is not None:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.match(text):
        return int(text)
    if _NUMBER.match(text) or _NOT_FINITE.match(text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    return text


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[str, tuple[int, int]] = {}

    def read(self, node: yaml.Node, path: str) -> Any:
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return _value(node)

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _fault(self.file, key.start_mark,
                             "found a key that is not a word, expected a field name")
            here = f"{path}.{key.value}" if path else key.value
            if key.value in values:
                raise _fault(self.file, key.start_mark, f"{here}: duplicate field; first given on "
                             f"line {self.places[here][0]}")
            if not isinstance(item, yaml.ScalarNode):
                mark = key.start_mark
                self.places[here] = (mark.line + 1, mark.column + 1)
            values[key.value] = self.read(item, here)
        return values


def parse(text: str, file: str) -> Document:
    """Errors: InvalidInput "FILE:LINE:COLUMN: ..."."""
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            if getattr(event, "anchor", None) is not None:
                raise _fault(file, event.start_mark,
                             "found an anchor or an alias, expected the value itself")
            tag = getattr(event, "tag", None)
            if tag is not None:
                raise _fault(file, event.start_mark,
                             f"found the tag {tag}, expected a value without one")
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _fault(file, mark, f"{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InvalidInput(f"{file}: {error}") from None
    if root is None:
        raise InvalidInput(f"{file}:1:1: found nothing, expected fields")
    reader = _Reader(file)
    values = reader.read(root, "")
    return Document(file, values, reader.places)
