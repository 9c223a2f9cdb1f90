# SPDX-License-Identifier: Apache-2.0
"""The cluster that a client talks to, chosen as by `stretto`: from arguments, else the environment,
else the contexts of $XDG_CONFIG_HOME/stretto/config.yaml.
"""
import dataclasses
import difflib
import fcntl
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
_VARIABLES = {"coordinator": "STRETTO_COORDINATOR", "ca": "STRETTO_TLS_CA",
              "certificate": "STRETTO_TLS_CERTIFICATE", "key": "STRETTO_TLS_KEY",
              "token_file": "STRETTO_TOKEN_FILE"}
_ADDRESS = re.compile(r"(\[[^\s,\[\]]+\]|[^\s,:\[\]]+):[0-9]{1,5}\Z")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The addresses of its coordinators, of which one leads, and the files of mutual TLS."""

    addresses: tuple[str, ...]
    tls: TlsFiles

    def __str__(self) -> str:
        return ",".join(self.addresses)

    def environment(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment in which `stretto` chooses this cluster. It has paths, never secrets."""
        values = {"coordinator": str(self), **dataclasses.asdict(self.tls)}
        others = {key: value for key, value in environment.items() if key != "STRETTO_CONTEXT"}
        return {**others, **{_VARIABLES[key]: value for key, value in values.items()}}


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
           for key in ("ca", "certificate", "key", "token_file")}
    return {"coordinator": context.coordinator, **tls}


def _of_own_up(addresses: tuple[str, ...], environment: Mapping[str, str]) -> TlsFiles:
    """The certificates of this user's own `stretto up` at the address, which need not be named. A
    file for its port names their folder, and is locked while it runs."""
    host, port = split_address(addresses[0])
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    if len(addresses) > 1 or not loopback:
        return TlsFiles()
    state = environment.get("XDG_STATE_HOME") or environment.get("HOME", "") + "/.local/state"
    try:
        found = os.open(f"{state}/stretto/local/{port}", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return TlsFiles()
    with os.fdopen(found, "rb") as file:
        if os.fstat(found).st_uid != os.geteuid():
            return TlsFiles()
        try:
            fcntl.flock(found, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return TlsFiles()  # nobody has locked it: left from a cluster that has ended
        except BlockingIOError:
            folder = file.read(4096).decode("utf-8", "surrogateescape")
    return TlsFiles(f"{folder}/ca.crt", f"{folder}/user-admin.crt", f"{folder}/user-admin.key")


def choose_cluster(coordinator: str = "", context: str = "", tls: TlsFiles | None = None,
                   environment: Mapping[str, str] = os.environ) -> Cluster:
    """That of `context`, else of `coordinator`, else of STRETTO_CONTEXT or STRETTO_COORDINATOR,
    else of the current context, else DEFAULT_COORDINATOR. `coordinator` and `tls` override values
    of a context; so do their variables, unless `context` is given; a token takes the place of a
    certificate and its key, and they of a token. Without any files, those of a
    `stretto up` of this user at that address are taken. Errors: InvalidInput."""
    variables = {key: environment.get(name, "") for key, name in _VARIABLES.items()}
    by_argument = bool(context or coordinator)
    name = context if by_argument else environment.get("STRETTO_CONTEXT", "")
    values: dict[str, str] = {}
    if name or not (by_argument or variables["coordinator"]):
        values = _of_context(name, environment)
    layers = [variables] if not context else []
    layers.append({"coordinator": coordinator, **dataclasses.asdict(tls or TlsFiles())})
    for layer in layers:
        given = {key: value for key, value in layer.items() if value}
        # One who says how he calls does not call in two ways.
        if "token_file" in given:
            values.update(certificate="", key="")
        if given.keys() & {"certificate", "key"}:
            values.update(token_file="")
        values.update(given)
    addresses = _addresses(values.pop("coordinator", "") or DEFAULT_COORDINATOR)
    files = TlsFiles(**values) or _of_own_up(addresses, environment)
    if files:
        files.check()
    return Cluster(addresses, files)
