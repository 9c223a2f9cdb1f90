#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rules of deploy/prometheus: valid, right (rules_test.yml), and every alert has a runbook. That they are made of metrics that
# exist, tests/tidy/tidy.sh checks.
#
#   rules_test.sh SOURCE
set -euo pipefail
cd "$1"
fail() { echo "$*" >&2; exit 1; }

alerts=$(sed -n 's/^ *- alert: //p' deploy/prometheus/alerts.yml)
for alert in $alerts; do
  grep -qx "## $alert" docs/RUNBOOKS.md || fail "alert $alert has no section in docs/RUNBOOKS.md"
  grep -q "runbook: docs/RUNBOOKS.md#${alert,,}$" deploy/prometheus/alerts.yml || fail "alert $alert does not name its runbook"
  grep -q "alertname: $alert\b" tests/deploy/prometheus/rules_test.yml || fail "alert $alert has no test in rules_test.yml"
done
sed -n 's/^## //p' docs/RUNBOOKS.md | while read -r section; do
  grep -qx "$section" <<<"$alerts" || fail "docs/RUNBOOKS.md has a section for $section, which is no alert"
done

command -v promtool >/dev/null || { echo "skipped: no promtool here"; exit 77; }
promtool check rules deploy/prometheus/*.yml
promtool test rules tests/deploy/prometheus/rules_test.yml
