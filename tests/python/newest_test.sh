#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# newest.sh tries again what it could not install, and installs nothing twice. With an interpreter and a pip that only say what
# they were asked; no network.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/scripts"
cp "$here/newest.sh" "$here/extras.sh" "$work/scripts"
ln -s /bin/true "$work/scripts/run.sh"  # the tests of the client, which need a real interpreter
cat > "$work/bin/python3.99" << END
#!/usr/bin/env bash
case "\$*" in
  "-c "*) echo 3.99 ;;
  "-m venv "*) mkdir -p "\$3/bin" && cp "$work/pip" "\$3/bin" ;;
esac
END
cat > "$work/pip" << END
#!/usr/bin/env bash
[[ \$1 == install ]] || exit 0
echo "\${!#}" >> "$work/asked"
[[ \${!#} != wandb || ! -e "$work/no_wandb" ]]
END
chmod +x "$work/bin/python3.99" "$work/pip"

newest() { env PYENV_ROOT="$work" PATH="$work/bin:/usr/bin:/bin" "$work/scripts/newest.sh" "$@"; }
run() { newest site "$work/environment" source bin; }
expect() { # WHEN PACKAGES: the last packages of the calls of pip since the last time
  local asked
  asked=$(tr '\n' ' ' < "$work/asked")
  [[ $asked == "$2" ]] || { echo "$1: found installs of '$asked', expected '$2'" >&2; exit 1; }
  : > "$work/asked"
}
touch "$work/no_wandb"
said=$(run)
[[ $said == *"not tested: found no wandb for Python 3.99 (PyPI)"* ]] || { echo "found '$said', expected that wandb is missing" >&2; exit 1; }
expect "without wandb" "PyYAML pandas tensorboard wandb "
rm "$work/no_wandb"
run
expect "with wandb" "wandb "
run
expect "with everything" ""
rm -rf "$work/environment" "$work/scripts/run.sh"
newest --prepare "$work/environment"
expect "prepared, without a test" "PyYAML pandas tensorboard wandb "
