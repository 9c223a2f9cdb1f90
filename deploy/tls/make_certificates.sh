#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a certificate authority for development, and certificates of it for mutual TLS.
#
#   deploy/tls/make_certificates.sh DIR --coordinator HOST... [--worker NAME...] [--user USER...] [--days N]
#
# HOST is a name or address that clients reach the coordinator by; all of them go into one certificate. NAME is a worker's
# --name. USER is NAME[/ROLE/PROJECT]...[/ROLE]: a person's name and roles (viewer, submitter, operator, admin), each in a
# project and the last one in all; without any, submitter in the project default. Writes DIR/ca.crt (for everybody),
# DIR/coordinator.{crt,key}, DIR/worker-NAME.{crt,key} and DIR/user-NAME.{crt,key} (user admin/admin with a new CA and
# without --user). DIR/ca.key signs them: keep it away from the nodes.
# With a CA in DIR already, makes new certificates of that CA: this is how they are renewed.
set -euo pipefail
umask 077

usage() { sed -n '3,12p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }

[[ $# -ge 1 && "$1" != -* ]] || usage
directory=$1 days=90 list=none
shift
hosts=() workers=() users=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --coordinator) list=hosts ;;
    --worker) list=workers ;;
    --user) list=users ;;
    --days) days=${2:-}; shift; list=none; [[ "$days" =~ ^[1-9][0-9]*$ ]] || usage ;;
    -*) usage ;;
    *)
      # What is not of this form would mean something else in a certificate.
      form='^[A-Za-z0-9][A-Za-z0-9.:_-]*$' expected="a name or an address"
      if [[ "$list" == users ]]; then
        role='(viewer|submitter|operator|admin)'
        form="^[A-Za-z0-9._-]+(/$role/[a-z][a-z0-9-]*)*(/$role)?\$" expected="NAME[/ROLE/PROJECT]...[/ROLE]"
      fi
      [[ "$1" =~ $form || "$1" == ::1 ]] || { echo "$0: found \"$1\", expected $expected" >&2; exit 2; }
      case "$list" in
        hosts) hosts+=("$1") ;;
        workers) workers+=("$1") ;;
        users) users+=("$1") ;;
        none) usage ;;
      esac ;;
  esac
  shift
done
[[ ${#hosts[@]} -gt 0 || ${#workers[@]} -gt 0 || ${#users[@]} -gt 0 ]] || usage
command -v openssl >/dev/null || { echo "$0: needs the openssl program" >&2; exit 1; }

domain=stretto.local
mkdir -p "$directory"
work=$(mktemp -d "$directory/.making-XXXXXX")
trap 'rm -rf "$work"' EXIT

new_key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

if [[ ! -e "$directory/ca.key" ]]; then
  new_key "$work/ca.key"
  openssl req -x509 -new -key "$work/ca.key" -sha256 -days 3650 -subj "/CN=Stretto development CA $(openssl rand -hex 4)" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -out "$work/ca.crt"
  mv "$work/ca.key" "$work/ca.crt" "$directory/"
  chmod 0644 "$directory/ca.crt"
  new_ca=1
fi

# issue FILE COMMON_NAME SUBJECT_ALTERNATIVE_NAMES: the key first, so that a daemon that looks in between finds no new certificate
# without it for longer than a moment.
issue() {
  new_key "$work/$1.key"
  openssl req -new -key "$work/$1.key" -subj "/CN=$2" -out "$work/$1.csr"
  printf '%s\n' "subjectAltName=$3" basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature \
    extendedKeyUsage=serverAuth,clientAuth >"$work/extensions"
  openssl x509 -req -in "$work/$1.csr" -CA "$directory/ca.crt" -CAkey "$directory/ca.key" -sha256 -days "$days" \
    -set_serial "0x00$(openssl rand -hex 15)" -extfile "$work/extensions" -out "$work/$1.crt" 2>/dev/null
  chmod 0644 "$work/$1.crt"
  mv "$work/$1.key" "$work/$1.crt" "$directory/"
  echo "$directory/$1.crt: $3, $days days"
}

if [[ ${#hosts[@]} -gt 0 ]]; then
  names="URI:spiffe://$domain/stretto/coordinator"
  for host in "${hosts[@]}"; do
    if [[ "$host" == *:* || "$host" =~ ^[0-9.]+$ ]]; then names+=",IP:$host"; else names+=",DNS:$host"; fi
  done
  issue coordinator coordinator "$names"
fi
for worker in "${workers[@]}"; do issue "worker-$worker" "$worker" "URI:spiffe://$domain/stretto/worker/$worker"; done
# An administrator is made with the CA alone: a renewal issues what it was asked for.
[[ ${#users[@]} -gt 0 || -z "${new_ca:-}" ]] || users=(admin/admin)
for user in "${users[@]}"; do issue "user-${user%%/*}" "${user%%/*}" "URI:spiffe://$domain/stretto/user/$user"; done
