#!/bin/sh
# The units' exposure, as systemd-analyze counts it, is at most 2.0, with GPUs allowed.
set -eu
systemd-analyze security --help 2>/dev/null | grep -q -- --offline ||
    { echo "SKIP no systemd-analyze here that judges files (252 or later)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed 's|@PREFIX@|/usr|; s|@SYSCONFDIR@|/etc|' systemd/engram-acceld.service.in \
    >"$folder/engram-acceld.service"
grep -q '^PrivateDevices' "$folder/engram-acceld.service" &&
    { echo "PrivateDevices hides GPUs"; exit 1; }
# It exits with 1 where the score is above the threshold, which is in tenths.
systemd-analyze security --offline=true --threshold=20 --no-pager "$folder/engram-acceld.service" \
    >"$folder/said" 2>&1 || { grep -a '✗\|Overall' "$folder/said"; exit 1; }
grep -a -q 'Overall exposure level' "$folder/said" || { cat "$folder/said"; exit 1; }
