# SPDX-License-Identifier: Apache-2.0
# For tests of scripts, sourced: a scratch folder, and expectations that count their failures.
# A test ends with ((failures == 0)).

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

expect() { # WHAT CONDITION...
  "${@:2}" || { echo "FAILED: $1"; failures=$((failures + 1)); }
}

# What the command says is in $scratch/said.
exits_with() { # CODE COMMAND...
  "${@:2}" >"$scratch/said" 2>&1
  (($? == $1))
}
