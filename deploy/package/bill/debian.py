# SPDX-License-Identifier: Apache-2.0
"""What dpkg knows of files and packages of this machine. Without dpkg nothing is known, which is no
error: a build elsewhere names files in place of packages.
"""
import pathlib
import re
import subprocess
import urllib.parse

BATCH = 500  # paths of one call; a command line is bounded

# Debian's short names of licences, of which SPDX has another one.
SPDX_NAMES = {
    "expat": "MIT", "mit": "MIT", "apache-2.0": "Apache-2.0", "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause", "bsl-1.0": "BSL-1.0", "isc": "ISC", "zlib": "Zlib",
    "artistic": "Artistic-1.0-Perl", "curl": "curl",
}
GNU = re.compile(r"(a?l?gpl)-(\d(?:\.\d)?)(\+|-only|-or-later)?")


def run(*command):
    """What a command prints; what it fails at is left out of that."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False).stdout
    except FileNotFoundError:
        return ""


def spellings(path):
    """A file's names: /lib is /usr/lib, and dpkg knows one of them only."""
    names = [path]
    for name in [path, str(pathlib.Path(path).resolve())]:
        other = name[4:] if name.startswith("/usr/lib") else f"/usr{name}" if name.startswith("/lib") else name
        names += [name, other]
    return dict.fromkeys(names)


def owners(paths):
    """The package of each path, of those that belong to one."""
    wanted = {}
    for path in paths:
        for name in spellings(path):
            wanted.setdefault(name, set()).add(path)
    names, found = sorted(wanted), {}
    for begin in range(0, len(names), BATCH):
        for line in run("dpkg-query", "--search", *names[begin:begin + BATCH]).splitlines():
            packages, _, name = line.partition(": ")
            if line.startswith("diversion ") or name not in wanted:
                continue
            for path in wanted[name]:
                found.setdefault(path, packages.split(", ")[0])
    return found


def describe(names):
    """Fields of each package, by the name that owners() has for it."""
    fields = ["binary:Package", "Package", "Version", "Architecture", "Maintainer", "Homepage",
              "source:Package", "source:Version"]
    shown = "\t".join(f"${{{field}}}" for field in fields) + "\n"
    described = {}
    for line in run("dpkg-query", "--show", f"--showformat={shown}", *sorted(names)).splitlines() if names else []:
        values = dict(zip(fields, line.split("\t")))
        described[values["binary:Package"]] = values
    missing = sorted(set(names) - set(described))
    if missing:
        raise SystemExit(f"dpkg knows no package {', '.join(missing)}, to which files of this build belong")
    return described


def purl(values):
    """The package URL, as https://github.com/package-url/purl-spec has it for Debian."""
    system = {}
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        key, _, value = line.partition("=")
        system[key] = value.strip('"')
    name, version = (urllib.parse.quote(values[field], safe=":~") for field in ("Package", "Version"))
    distro = f"{system.get('ID', 'debian')}-{system.get('VERSION_ID', 'unknown')}"
    return (f"pkg:deb/{system.get('ID', 'debian')}/{name}@{version}"
            f"?arch={values['Architecture']}&distro={distro}")


def spdx_licence(words):
    """Debian's words for a licence as an expression of SPDX; None where SPDX has no name for it."""
    parts = []
    for part in re.split(r" +(and|or) +", words.strip()):
        gnu = GNU.fullmatch(part.lower())
        if part in ("and", "or"):
            parts.append(part.upper())
        elif gnu:
            version = gnu[2] if "." in gnu[2] else f"{gnu[2]}.0"
            later = gnu[3] in ("+", "-or-later")
            parts.append(f"{gnu[1].upper()}-{version}-{'or-later' if later else 'only'}")
        elif part.lower() in SPDX_NAMES:
            parts.append(SPDX_NAMES[part.lower()])
        else:
            return None
    if "AND" in parts and "OR" in parts:  # which one binds is not said
        return None
    return " ".join(parts)


def licence(package):
    """Of a package: the expression of SPDX for all of its files that have no other licence, or None,
    and a sentence with Debian's words."""
    file = pathlib.Path("/usr/share/doc") / package / "copyright"
    if not file.exists():
        return None, f"{file} is not on the machine that built this."
    text = file.read_text(errors="replace")
    if not text.startswith("Format:"):
        return None, f"{file} has them in words."
    stanzas = [dict(re.findall(r"^([A-Za-z-]+): *(.*)$", stanza, re.M)) for stanza in re.split(r"\n\s*\n", text)]
    of_all = [s["License"] for s in stanzas if s.get("Files", "").strip() == "*" and s.get("License")]
    others = sorted({s["License"] for s in stanzas if "Files" in s and s.get("License")} - set(of_all[:1]))
    sentence = f"{file} has '{of_all[0]}' for all files" if of_all else f"{file} has no licence for all files"
    if others:
        sentence += ", and for some " + ", ".join(f"'{other}'" for other in others)
    return (spdx_licence(of_all[0]) if of_all else None), sentence + "."
