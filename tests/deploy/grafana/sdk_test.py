#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every dashboard is what the types of Grafana's SDK say: it has no key that they do not know, and every value has its type.

  sdk_test.py SOURCE CACHE

The SDK (PyPI) is downloaded into CACHE once and imported from its archive. It ignores keys that it does not know and takes any
value, so this test is strict for it: objects note which of their keys were asked for, and values are compared with type hints.
"""

import copy
import enum
import functools
import json
import pathlib
import sys
import typing
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pinned_wheel import fetch  # noqa: E402

SOURCE, CACHE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
PINNED = pathlib.Path(__file__).with_name("sdk.txt")
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((SOURCE / "deploy/grafana").glob("*.json"))}


class Asked(dict):
    """A JSON object that notes which of its keys were asked for."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.asked = set()

    def __contains__(self, key):
        self.asked.add(key)
        return super().__contains__(key)


def noting(value):
    if isinstance(value, dict):
        return Asked({key: noting(one) for key, one in value.items()})
    return [noting(one) for one in value] if isinstance(value, list) else value


def unknown_keys(value, where):
    """Keys that nobody asked for."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from unknown_keys(one, f"{where}[{number}]")
    elif isinstance(value, Asked):
        for key, one in value.items():
            if key in value.asked:
                yield from unknown_keys(one, f"{where}.{key}")
            else:
                yield f"{where}: found key {key!r}, expected one of {sorted(value.asked)}"


def is_of_sdk(kind):
    return isinstance(kind, type) and hasattr(kind, "from_json")


@functools.lru_cache(maxsize=None)
def hints_of(kind):
    return typing.get_type_hints(kind)


def is_plain(value, kind):
    if kind is float:
        kind = (int, float)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def wrong_values(value, kind, where):
    """Values that are not what the hint of their attribute says."""
    form, arguments = typing.get_origin(kind), typing.get_args(kind)
    wrong = f"{where}: found {value!r}, expected {kind.__name__ if isinstance(kind, type) else kind}"
    if form is typing.Union:
        # Of a value that may be left out, the other type says what is wrong.
        faults = [list(wrong_values(value, one, where)) for one in arguments if value is None or one is not type(None)]
        if all(faults):
            yield from faults[0]
    elif form is typing.Literal:
        if value not in arguments:
            yield wrong
    elif form in (list, dict):
        if not isinstance(value, form):
            yield wrong
        elif form is list:
            for number, one in enumerate(value):
                yield from wrong_values(one, arguments[0], f"{where}[{number}]")
    elif is_of_sdk(kind) and isinstance(value, Asked):  # the SDK leaves a few lists as they were read
        yield from wrong_values(kind.from_json(value), kind, where)
    elif is_of_sdk(type(value)):
        for name, hint in hints_of(type(value)).items():
            one = getattr(value, name)
            if hint is str and one == "":
                yield f"{where}.{name}: found no text, expected one"
            yield from wrong_values(one, hint, f"{where}.{name}")
    elif isinstance(kind, enum.EnumMeta):
        if value not in [one.value for one in kind]:
            yield f"{wrong}: one of {[one.value for one in kind]}"
    elif kind is not object and not is_plain(value, kind):
        yield wrong


def defaults_of_overrides(panel):
    """What each override sets, as if the panel set it for all fields: {"color": ...}, {"custom": {"axisLabel": ...}}."""
    for override in panel["fieldConfig"]["overrides"]:
        for one in override["properties"]:
            defaults = one["value"]
            for name in reversed(one["id"].split(".")):
                defaults = {name: defaults}
            yield {**panel, "fieldConfig": {"defaults": defaults, "overrides": []}}


def faults_of_panel(panel):
    where = f"{panel.get('title')}"
    if runtime.panelcfg_config(panel["type"]) is None:
        yield f"{where}: found type {panel['type']!r}, expected a panel of the SDK"
    for one in [panel, *defaults_of_overrides(panel)]:
        one = copy.deepcopy(one)
        for override in one["fieldConfig"]["overrides"]:
            for change in override["properties"]:
                change["value"] = None  # of any type there
        read = noting(one)
        yield from wrong_values(models.Panel.from_json(read), models.Panel, where)
        yield from unknown_keys(read, where)


def faults_of(dashboard):
    for panel in dashboard["panels"]:
        yield from faults_of_panel(panel)
    read = noting({**dashboard, "panels": []})
    yield from wrong_values(models.Dashboard.from_json(read), models.Dashboard, "dashboard")
    yield from unknown_keys(read, "dashboard")


class SdkTest(unittest.TestCase):
    maxDiff = None

    def test_every_dashboard_is_what_the_types_say(self):
        self.assertEqual(len(DASHBOARDS), 4)
        for name, dashboard in DASHBOARDS.items():
            with self.subTest(name):
                self.assertEqual(list(faults_of(dashboard)), [])

    def test_damage_is_found(self):
        def rename(one, old, new):
            one[new] = one.pop(old)

        def loss(job):  # a panel with lines and overrides
            return next(panel for panel in job["panels"] if panel["title"] == "Held-out loss and perplexity")

        def override(job, number):
            return loss(job)["fieldConfig"]["overrides"][number]["properties"]

        for damage, expected in (
            (lambda job: rename(job, "templating", "templates"), "found key 'templates'"),
            (lambda job: rename(job["time"], "from", "since"), "found key 'since'"),
            (lambda job: rename(job["templating"]["list"][1], "refresh", "refreshed"), "found key 'refreshed'"),
            (lambda job: rename(job["annotations"]["list"][0], "titleFormat", "titelFormat"), "found key 'titelFormat'"),
            (lambda job: rename(job["links"][0], "keepTime", "keepTimes"), "found key 'keepTimes'"),
            (lambda job: rename(loss(job), "description", "descripton"), "found key 'descripton'"),
            (lambda job: rename(loss(job)["targets"][0], "legendFormat", "legend"), "found key 'legend'"),
            (lambda job: rename(loss(job)["gridPos"], "w", "width"), "found key 'width'"),
            (lambda job: rename(loss(job)["fieldConfig"]["defaults"], "unit", "units"), "found key 'units'"),
            (lambda job: rename(loss(job)["fieldConfig"]["defaults"]["custom"], "lineWidth", "linewidth"), "found key 'linewidth'"),
            (lambda job: rename(job["panels"][0]["options"], "colorMode", "colourMode"), "found key 'colourMode'"),
            (lambda job: rename(override(job, 0)[0]["value"], "fixedColor", "fixed"), "found key 'fixed'"),
            (lambda job: override(job, 0)[0].update(id="colour"), "found key 'colour'"),
            (lambda job: override(job, 1)[1].update(value="east"), "found 'east', expected AxisPlacement"),
            (lambda job: job["panels"][0]["options"].update(colorMode="loud"), "found 'loud', expected BigValueColorMode"),
            (lambda job: job["panels"][0].update(type="statistics"), "expected a panel of the SDK"),
            (lambda job: job["panels"][0]["gridPos"].update(h="4"), "found '4', expected int"),
            (lambda job: job["panels"][0]["targets"][0].pop("expr"), "expr: found no text"),
            (lambda job: job.update(editable=1), "found 1, expected bool"),
            (lambda job: job.update(tags="stretto"), "found 'stretto', expected"),
        ):
            damaged = copy.deepcopy(DASHBOARDS["stretto-job"])
            damage(damaged)
            faults = list(faults_of(damaged))
            with self.subTest(expected):
                self.assertTrue(any(expected in fault for fault in faults), faults)


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        print(f"skipped: found Python {sys.version.split()[0]}, Grafana's SDK needs 3.11")
        sys.exit(77)
    sys.path.insert(0, str(fetch("grafana-foundation-sdk", PINNED, CACHE)))
    from grafana_foundation_sdk.cog import plugins, runtime
    from grafana_foundation_sdk.models import dashboard as models

    plugins.register_default_plugins()
    unittest.main(argv=sys.argv[:1])
