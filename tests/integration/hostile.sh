#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attacks a cluster of real processes, one way after the other, and writes a table: what was tried, what was seen, and whether
# a healthy client, the memory, other jobs and what was acknowledged came through it (docs/TESTING.md).
#
#   tests/integration/hostile.sh [--report FILE] [--rows PATTERN] [--list]
#
# The programs are those of build/release: cmake --preset release && cmake --build --preset release --target hostile_test
# rows.sh explains the arguments and the exit code.
name=hostile program=hostile_test each=program limit=900 rows='*'
title="Attacks on real processes"
header="| tried | seen | verdict |"
# shellcheck source=tests/integration/rows.sh
source "$(dirname "${BASH_SOURCE[0]}")/rows.sh" "$@"
