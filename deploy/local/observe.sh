#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prometheus, and Grafana where it is installed, for a cluster that `stretto up` runs on this machine. In the foreground: Ctrl-C
# stops both. Their data is in STATE/observe and is removed with that folder.
set -euo pipefail
REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  cat <<'TEXT'
usage: deploy/local/observe.sh [FLAGS]
  --state-dir FOLDER  of `stretto up` (default: its own default, ~/.local/state/stretto)
  --prometheus ADDR   HOST:PORT of Prometheus (default: 127.0.0.1:9090)
  --grafana ADDR      HOST:PORT of Grafana (default: 127.0.0.1:3000)
  --interval TIME     between scrapes, and between evaluations of rules (default: 5s)
  --target ADDR       HOST:PORT of one more /metrics; may be given several times
Needs the Debian package prometheus. Exit: 0; 1 it ended; 2 arguments, or something is missing.
TEXT
}
fail() { # CODE MESSAGE
  echo "observe.sh: $2" >&2
  exit "$1"
}

state=${XDG_STATE_HOME:-$HOME/.local/state}/stretto
prometheus=127.0.0.1:9090 grafana=127.0.0.1:3000 interval=5s more=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --state-dir | --prometheus | --grafana | --interval | --target)
      (($# > 1)) || fail 2 "$1: found no value, expected one; see --help" ;;
    *) fail 2 "found argument '$1', expected one of those in --help" ;;
  esac
  case $1 in
    --state-dir) state=$2 ;;
    --prometheus) prometheus=$2 ;;
    --grafana) grafana=$2 ;;
    --interval) interval=$2 ;;
    --target) more+=("$2") ;;
  esac
  shift 2
done
[[ $interval =~ ^[1-9][0-9]*(ms|s|m)$ ]] || fail 2 "--interval: found '$interval', expected a time such as 5s"
command -v prometheus >/dev/null || fail 2 "found no prometheus on PATH; deploy/install_packages.sh --with-tests installs it"
[[ -f $state/prometheus-targets.json ]] ||
  fail 2 "found no $state/prometheus-targets.json; start \`stretto up\` first, or name its --state-dir"
state=$(cd "$state" && pwd)

work=$state/observe
mkdir -p "$work/prometheus"
{
  echo "global: {scrape_interval: $interval, evaluation_interval: $interval}"
  echo "rule_files: ['$REPO/deploy/prometheus/recording.yml', '$REPO/deploy/prometheus/alerts.yml']"
  echo "scrape_configs:"
  echo "  - job_name: stretto"
  echo "    file_sd_configs: [{files: ['$state/prometheus-targets.json']}]"
  if ((${#more[@]} > 0)); then echo "    static_configs: [{targets: [$(printf "'%s'," "${more[@]}")]}]"; fi
} >"$work/prometheus.yml"

children=()
stop() {
  trap - EXIT INT TERM
  ((${#children[@]} == 0)) || kill "${children[@]}" 2>/dev/null || true
  wait
}
trap stop EXIT
trap 'stop; exit 0' INT TERM

prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/prometheus" \
  --web.listen-address="$prometheus" --log.level=warn >"$work/prometheus.log" 2>&1 &
children+=($!)
echo "Prometheus  http://$prometheus"

if grafana_server=$(command -v grafana-server); then
  mkdir -p "$work/provisioning/datasources" "$work/provisioning/dashboards" "$work/grafana"
  cat >"$work/provisioning/datasources/prometheus.yml" <<YAML
apiVersion: 1
datasources:
  - {name: Prometheus, type: prometheus, access: proxy, url: 'http://$prometheus', isDefault: true, jsonData: {timeInterval: $interval}}
YAML
  cat >"$work/provisioning/dashboards/stretto.yml" <<YAML
apiVersion: 1
providers: [{name: Stretto, folder: Stretto, type: file, options: {path: '$REPO/deploy/grafana'}}]
YAML
  GF_PATHS_PROVISIONING=$work/provisioning GF_PATHS_DATA=$work/grafana GF_PATHS_LOGS=$work/grafana \
    GF_SERVER_HTTP_ADDR=${grafana%:*} GF_SERVER_HTTP_PORT=${grafana##*:} GF_AUTH_ANONYMOUS_ENABLED=true \
    "$grafana_server" --homepath "${GRAFANA_HOME:-/usr/share/grafana}" >"$work/grafana.log" 2>&1 &
  children+=($!)
  echo "Grafana     http://$grafana"
else
  echo "Grafana     not installed here (no grafana-server on PATH); deploy/grafana has its dashboards"
fi
echo "logs        $work"

wait -n "${children[@]}" || true
echo "observe.sh: a server ended; the end of its log:" >&2
tail -n 5 "$work"/*.log >&2
exit 1
