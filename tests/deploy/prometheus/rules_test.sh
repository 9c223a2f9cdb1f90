#!/usr/bin/env bash
# Rules of deploy/prometheus: valid, right (rules_test.yml), made of metrics that exist, and every alert has a runbook.
#
#   rules_test.sh SOURCE
set -euo pipefail
cd "$1"
fail() { echo "$*" >&2; exit 1; }

# What the code exposes, and what a histogram makes of it.
exposed=$(grep -ohE '"stretto_[a-z_]+"' coordinator/telemetry/*.cc worker/daemon/*.cc | tr -d '"' | sort -u)
recorded=$(sed -n 's/^ *- record: //p' deploy/prometheus/recording.yml)
grep -ohE '\b([a-z_]+:)?stretto_[a-z_]+(:[a-z0-9]+)?' deploy/prometheus/*.yml | sort -u | while read -r name; do
  grep -qxF -e "$name" -e "${name%_sum}" -e "${name%_count}" -e "${name%_bucket}" <<<"$exposed"$'\n'"$recorded" ||
    fail "deploy/prometheus names $name, which nothing exposes or records"
done

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
