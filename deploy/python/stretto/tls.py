# SPDX-License-Identifier: Apache-2.0
"""The files of TLS: three of mutual TLS, or the CA and a token. And a handshake of our own, which
finds out what gRPC does not tell: whether the peer is a coordinator, and why a connection fails.
"""
import dataclasses
import os
import pathlib
import re
import socket
import ssl
import stat
from typing import Any

from stretto.errors import InvalidInput

_COORDINATOR = re.compile(r"spiffe://[^/]+/stretto/coordinator\Z")
_ROLE = re.compile(r"spiffe://[^/]+/stretto/(\w+)")
_TOKEN = re.compile(rb"\s*([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)\s*\Z")
_MOST_TOKEN_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files, and of a token. Either ca, certificate and key are given, or ca and
    token_file, or none, which means no TLS."""

    ca: str = ""  # certificates of the CA that is trusted
    certificate: str = ""  # ours
    key: str = ""  # its private key, unencrypted, not readable by everybody
    token_file: str = ""  # a token of ours in place of both, not readable by everybody

    def __bool__(self) -> bool:
        return bool(self.ca or self.certificate or self.key or self.token_file)

    def check(self) -> None:
        """Errors: InvalidInput, which names the file, what was found and what was expected."""
        given = {name: path for name, path in dataclasses.asdict(self).items() if path}
        if given.keys() not in ({"ca", "certificate", "key"}, {"ca", "token_file"}):
            raise InvalidInput(f"TLS: found only {' and '.join(given)}, expected ca, certificate "
                               "and key, or ca and token_file, or none of them")
        for name, path in given.items():
            try:
                pathlib.Path(path).read_bytes()
            except OSError as error:
                raise InvalidInput(f"TLS {name} {path}: found {error.strerror}, expected a file "
                                   "that can be read") from None
        name, secret = ("token", self.token_file) if self.token_file else ("key", self.key)
        mode = stat.S_IMODE(os.stat(secret).st_mode)
        if mode & stat.S_IRWXO:
            raise InvalidInput(f"TLS {name} {secret}: found mode {mode:04o}, which lets everybody "
                               f"on this machine have the {name}; expected 0600, or 0640 for a "
                               "group")
        if self.token_file:
            self.token()
        self.context()

    def token(self) -> str:
        """The token as its file has it now. Errors: InvalidInput, which never shows it."""
        try:
            found = _TOKEN.match(pathlib.Path(self.token_file).read_bytes()[:_MOST_TOKEN_BYTES + 2])
        except OSError as error:
            raise InvalidInput(f"TLS token {self.token_file}: found {error.strerror}, expected a "
                               "file that can be read") from None
        if not found:
            raise InvalidInput(f"TLS token {self.token_file}: found no token, expected the one "
                               "line that `stretto ca token issue` writes")
        return found[1].decode()

    def context(self) -> ssl.SSLContext:
        """For a handshake of our own. Errors: InvalidInput."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError:
            raise InvalidInput(f"TLS ca {self.ca}: found no certificate, expected that of the CA "
                               "in PEM form") from None
        context.set_alpn_protocols(["h2"])
        if self.token_file:
            return context
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            raise InvalidInput(f"TLS certificate {self.certificate} and key {self.key}: found "
                               f"{getattr(error, 'reason', None) or error}, expected a certificate "
                               "in PEM form and its own key, unencrypted") from None
        return context

    def read(self) -> tuple[bytes, bytes | None, bytes | None]:
        """CA, key and certificate; with a token the CA alone."""
        ca = pathlib.Path(self.ca).read_bytes()
        if self.token_file:
            return ca, None, None
        return ca, pathlib.Path(self.key).read_bytes(), pathlib.Path(self.certificate).read_bytes()

    def stamp(self) -> tuple[int, ...]:
        """Differs after a file was replaced."""
        paths = [path for path in (self.ca, self.key, self.certificate) if path]
        return tuple(os.stat(path).st_mtime_ns if os.path.exists(path) else 0 for path in paths)


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _speaks_tls(peer: socket.socket) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(peer):
            return True
    except (OSError, ssl.SSLError):
        return False


def _judge(peer: socket.socket, host: str, files: TlsFiles) -> str:
    try:
        with files.context().wrap_socket(peer, server_hostname=host) as connection:
            certificate: Any = connection.getpeercert()
            names = certificate.get("subjectAltName", ())
            uris = [name for kind, name in names if kind == "URI" and _ROLE.match(name)]
            if len(uris) != 1 or not _COORDINATOR.match(uris[0]):
                return (f"found the certificate of {' and '.join(uris) or 'no role'}, expected "
                        "one of role coordinator")
            try:  # a server that accepts our certificate sends first, as HTTP/2 requires
                accepted = connection.recv(1) != b""
            except TimeoutError:
                raise
            except OSError:
                accepted = False
            return "" if accepted else (
                "it takes no tokens; start it with --tokens, or give certificate and key"
                if files.token_file else
                f"it refuses our certificate {files.certificate}; take one of the CA that the "
                "coordinator trusts")
    except ssl.SSLCertVerificationError as error:
        return f"its certificate does not pass with ca {files.ca}: {error.verify_message}"
    except InvalidInput as error:
        return str(error)
    except TimeoutError:
        raise
    except OSError:
        return "it does not speak TLS, or refuses ours; found that ca, certificate and key are given"


def look(address: str, files: TlsFiles, seconds: float) -> str | None:
    """What is wrong with TLS to `address`, empty if nothing is. None: nobody answered."""
    host, port = split_address(address)
    try:
        with socket.create_connection((host, port), seconds) as peer:
            if files:
                return _judge(peer, host, files)
            if _speaks_tls(peer):
                return "it speaks TLS, and this client came without; give ca, certificate and key"
            return ""
    except OSError:
        return None
