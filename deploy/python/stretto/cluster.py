# SPDX-License-Identifier: Apache-2.0
"""The cluster that a client talks to, chosen as by `stretto`: from arguments, else the environment,
else the contexts of $XDG_CONFIG_HOME/stretto/config.yaml.
"""
import dataclasses
import difflib
import os
import pathlib
import re
from collections.abc import Mapping

from stretto.cli.config_pb2 import ConfigFile
from stretto.errors import InvalidInput
from stretto.fill import fill
from stretto.tls import TlsFiles, split_address
from stretto.yaml_text import parse

DEFAULT_COORDINATOR = "127.0.0.1:7070"
_ADDRESS = re.compile(r"(\[[^\s,\[\]]+\]|[^\s,:\[\]]+):[0-9]{1,5}\Z")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The addresses of its coordinators, of which one leads, and the files of mutual TLS."""

    addresses: tuple[str, ...]
    tls: TlsFiles

    def __str__(self) -> str:
        return ",".join(self.addresses)


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(text.split(","))
    for address in addresses:
        if not _ADDRESS.match(address) or split_address(address)[1] > 65535:
            raise InvalidInput(f'coordinator: found "{address[:80]}", expected HOST:PORT, or '
                               "several, separated by commas")
        if addresses.count(address) > 1:
            raise InvalidInput(f'coordinator: found "{address}" twice, expected different '
                               "addresses")
    return addresses


def _config_path(environment: Mapping[str, str]) -> pathlib.Path | None:
    folder = environment.get("XDG_CONFIG_HOME")
    if not folder and environment.get("HOME"):
        folder = environment["HOME"] + "/.config"
    return pathlib.Path(folder) / "stretto/config.yaml" if folder else None


def _read_config(path: pathlib.Path | None) -> ConfigFile:
    try:
        text = path.read_text("utf-8") if path else ""
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: found {error}, expected a config file") from None
    if not text.strip():
        return ConfigFile()
    document = parse(text, str(path))
    return fill(ConfigFile(), document.values, lambda at: f"{document.place(at)}: ")


def _of_context(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The values of context `name`, or of the current one."""
    path = _config_path(environment)
    config = _read_config(path)
    name = name or config.current_context
    if not name or path is None:
        return {}
    if name not in config.contexts:
        near = difflib.get_close_matches(name, config.contexts, 1)
        raise InvalidInput(f'{path}: no context "{name}"; ' + (
            f'did you mean "{near[0]}"?' if near else
            "expected one of: " + (", ".join(sorted(config.contexts)) or "none is there")))
    context = config.contexts[name]
    tls = {key: str(path.parent / getattr(context.tls, key)) if getattr(context.tls, key) else ""
           for key in ("ca", "certificate", "key")}
    return {"coordinator": context.coordinator, **tls}


def choose_cluster(coordinator: str = "", context: str = "", tls: TlsFiles | None = None,
                   environment: Mapping[str, str] = os.environ) -> Cluster:
    """That of `context`, else of `coordinator`, else of STRETTO_CONTEXT or STRETTO_COORDINATOR,
    else of the current context, else DEFAULT_COORDINATOR. `coordinator` and `tls` override values
    of a context; so do their variables, unless `context` is given. Errors: InvalidInput."""
    variables = {"coordinator": environment.get("STRETTO_COORDINATOR", ""),
                 "ca": environment.get("STRETTO_TLS_CA", ""),
                 "certificate": environment.get("STRETTO_TLS_CERTIFICATE", ""),
                 "key": environment.get("STRETTO_TLS_KEY", "")}
    by_argument = bool(context or coordinator)
    name = context if by_argument else environment.get("STRETTO_CONTEXT", "")
    values: dict[str, str] = {}
    if name or not (by_argument or variables["coordinator"]):
        values = _of_context(name, environment)
    layers = [variables] if not context else []
    layers.append({"coordinator": coordinator, **dataclasses.asdict(tls or TlsFiles())})
    for layer in layers:
        values.update({key: value for key, value in layer.items() if value})
    addresses = _addresses(values.pop("coordinator", "") or DEFAULT_COORDINATOR)
    files = TlsFiles(**values)
    if files:
        files.check()
    return Cluster(addresses, files)
