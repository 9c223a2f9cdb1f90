#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Breaks a cluster of real processes on purpose, one fault after the other, and writes a table: what was expected, when it
# was seen, when the job trained again, and what was lost (docs/TESTING.md).
#
#   tests/integration/faults.sh [--report FILE] [--rows PATTERN] [--list]
#   tests/integration/faults.sh --storm [--seconds N] [--seed N] [--report FILE]
#
#   --storm         instead of the rows a fault every few seconds, for --seconds (600), drawn from --seed (1)
#
# The programs are those of build/release: cmake --preset release && cmake --build --preset release --target faults_test
# Some rows need root, for namespaces of their own; the table says why a row was skipped.
# rows.sh explains the other arguments and the exit code. Namespaces are those of a process, so a row has one of its own.
name=faults program=faults_test each=test rows='*-StormTest.*' seconds=600 seed=1
title="Faults on real processes"
header="| fault | expected | seen after (s) | training again after (s) | steps lost | verdict |"
others=()
while (($# > 0)); do
  case "$1" in
    --storm) rows='StormTest.*' ;;
    --seconds) seconds=${2:?a number of seconds} && shift ;;
    --seed) seed=${2:?a number} && shift ;;
    *) others+=("$1") ;;
  esac
  shift
done
export STRETTO_STORM_SECONDS=$seconds STRETTO_STORM_SEED=$seed
limit=$((900 + seconds))
# shellcheck source=tests/integration/rows.sh
source "$(dirname "${BASH_SOURCE[0]}")/rows.sh" "${others[@]}"
