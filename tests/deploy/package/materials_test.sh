#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scripts that packages and their bills of materials are made with, on a project of one program: what they write, and
# what they refuse.
#
#   materials_test.sh SOURCE
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }
refuses() { # PATTERN COMMAND...
  local code=0
  "${@:2}" >"$work/out" 2>&1 || code=$?
  ((code != 0)) || fail "found no error, expected '$1' of: ${*:2}"
  grep -qE -- "$1" "$work/out" || fail "found '$(cat "$work/out")', expected '$1' of: ${*:2}"
}
unset SOURCE_DATE_EPOCH STRETTO_COMMIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null

# Date and commit: of the environment, else of the checkout, else none.
mkdir -p "$work/tree/deploy"
cp -r "$source/deploy/package" "$work/tree/deploy/"
provenance=$work/tree/deploy/package/provenance.sh
prints() { # LINE ENVIRONMENT...
  local found
  found=$(env "${@:2}" "$provenance")
  [[ "$found" == "$1" ]] || fail "provenance.sh prints '$found', expected '$1'"
}
git=(git -C "$work/tree" -c user.name=a -c user.email=a@b.invalid)
prints "SOURCE_DATE_EPOCH=315532800 STRETTO_COMMIT=unknown"
"${git[@]}" init -q
# A checkout of something else.
prints "SOURCE_DATE_EPOCH=315532800 STRETTO_COMMIT=unknown"
"${git[@]}" add .
GIT_COMMITTER_DATE=@1700000000 "${git[@]}" commit -q -m one
id=$("${git[@]}" rev-parse HEAD)
prints "SOURCE_DATE_EPOCH=1700000000 STRETTO_COMMIT=$id"
prints "SOURCE_DATE_EPOCH=1700000000 STRETTO_COMMIT=$id" SOURCE_DATE_EPOCH= STRETTO_COMMIT=
echo >>"$work/tree/deploy/package/copyright"
prints "SOURCE_DATE_EPOCH=1700000000 STRETTO_COMMIT=$id+changes"
prints "SOURCE_DATE_EPOCH=5 STRETTO_COMMIT=v1" SOURCE_DATE_EPOCH=5 STRETTO_COMMIT=v1
refuses "SOURCE_DATE_EPOCH is 'today', expected seconds since 1970" env SOURCE_DATE_EPOCH=today "$provenance"
refuses "STRETTO_COMMIT is 'a b', expected the id of a commit" env STRETTO_COMMIT='a b' "$provenance"

refuses 'make.sh BUILD' "$source/deploy/package/make.sh" "$work"
refuses 'pack.sh ARCHIVE' "$source/deploy/package/pack.sh" "$work/a.tar.gz" "$work/tree"

# A program with headers of Debian, of a kit that the build names and of nobody; a static library, and one that is linked.
mkdir -p "$work"/{src,build,kit/{include/kit,lib},odd/include/odd}
cd "$work/build"
echo 'int of_kit(void);' >"$work/kit/include/kit/kit.h"
echo '#define ODD 1' >"$work/odd/include/odd/odd.h"
echo 'int of_kit(void) { return 0; }' | cc -x c -c -o kit.o -
ar rc "$work/kit/lib/libkit.a" kit.o
echo 'int linked(void) { return 0; }' | cc -x c -shared -fPIC -Wl,-soname,liblinked.so.1 -o "$work/kit/lib/liblinked.so.1" -
cat >"$work/src/main.c" <<'C'
#include <kit/kit.h>
#include <odd/odd.h>
#include <stdio.h>
int linked(void);
int main(void) { return of_kit() + linked(); }
C
mkdir CMakeFiles
cat >build.ninja <<NINJA
rule cc
  command = cc -I$work/kit/include -I$work/odd/include -MD -MF \$out.d -c -o \$out \$in
  depfile = \$out.d
  deps = gcc
rule link
  command = cc -o \$out \$in
build main.o: cc $work/src/main.c
build program: link main.o $work/kit/lib/libkit.a $work/kit/lib/liblinked.so.1
NINJA
materials() { # TARGET...
  "$source/deploy/package/bill/materials.py" --build "$work/build" --source "$work/src" --out "$work/materials.json" --version 7 \
    --tool /usr/bin/cc --component "$work/kit|Kit|1.2|Kit Makers" "$@"
}
refuses 'program: found no headers in the build.s log' materials "$work/build/program"
ninja >/dev/null
refuses 'ninja -t inputs .*no_such' materials "$work/build/no_such"
refuses 'found no object among its inputs' materials "$work/build/main.o"
refuses 'found no build.ninja, expected a build by Ninja' "$source/deploy/package/bill/materials.py" --build "$work/src" \
  --source "$work/src" --out "$work/x" --version 7 x
materials "$work/build/program"
python3 - "$work" <<'PYTHON'
import json, sys
work = sys.argv[1]
found = json.load(open(f"{work}/materials.json"))
assert found["version"] == "7", found
assert any(tool.startswith("deb:gcc-") for tool in found["tools"]), found["tools"]
made_of = found["targets"]["program"]
assert made_of["archives"] == ["component:Kit"], made_of
assert {"component:Kit", f"path:{work}/odd/include/odd"} <= set(made_of["headers"]), made_of
assert any(name.startswith("deb:libc6-dev") for name in made_of["headers"]), made_of
assert not any("src" in name or "build" in name for name in made_of["headers"]), made_of
PYTHON

mkdir -p "$work/root/bin" "$work/root/DEBIAN"
cp program "$work/root/bin/"
echo text >"$work/root/DEBIAN/control"
echo text >"$work/root/page"
export SOURCE_DATE_EPOCH=1700000000 STRETTO_COMMIT=$id
bill() {
  "$source/deploy/package/bill/bill_of_materials.py" --materials "$work/materials.json" --name kit --out share/bill.json "$work/root"
}
bill
cp "$work/root/share/bill.json" "$work/first.json"
bill
cmp "$work/first.json" "$work/root/share/bill.json" || fail "a document that is written again has other bytes"
python3 - "$work" <<'PYTHON'
import json, sys
work = sys.argv[1]
found = json.load(open(f"{work}/first.json"))
packages = {package["name"]: package for package in found["packages"]}
assert packages["kit"]["versionInfo"] == "7", packages["kit"]
assert found["creationInfo"]["created"] == "2023-11-14T22:13:20Z", found["creationInfo"]
assert sorted(file["fileName"] for file in found["files"]) == ["./bin/program", "./page"], found["files"]
linked = packages["liblinked.so.1"]
assert linked["versionInfo"] == "1.2" and linked["supplier"] == "Organization: Kit Makers", linked
assert packages["libc6"]["supplier"].startswith("Organization: "), packages["libc6"]
links = {(r["relationshipType"], r["relatedSpdxElement"]) for r in found["relationships"] if r["spdxElementId"] == "SPDXRef-Package-kit"}
assert {("DYNAMIC_LINK", linked["SPDXID"]), ("DYNAMIC_LINK", packages["libc6"]["SPDXID"]),
        ("STATIC_LINK", "SPDXRef-Component-Kit")} <= links, links
PYTHON
cp "$work/kit/lib/liblinked.so.1" "$work/root/bin/"
bill
cp "$work/kit/lib/liblinked.so.1" "$work/root/bin/libstray.so.1"
refuses 'found libstray.so.1 in the package, which no program of it needs' bill
rm "$work/kit/lib/liblinked.so.1" "$work/root/bin/libstray.so.1"
refuses 'library liblinked.so.1, needed by .*program, is not on this machine' bill
