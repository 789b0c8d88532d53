#!/bin/sh
# run_units.sh: systemd finds nothing to say of the installed units, and their sandbox is worth at
# most 2.0 of 10 on its scale (the rest is what a GPU and loopback need); each says that the daemon is
# watched and started again whatever ended it. tests/system boots them.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build/release}
for unit in engram-acceld.service engram-acceld@.service; do
    for line in Type=notify Restart=always RestartSec=2 StartLimitIntervalSec=0 WatchdogSec=30s \
        TimeoutAbortSec=30s RestartPreventExitStatus=2 NoNewPrivileges=yes; do
        grep -qxF "$line" "$build/systemd/$unit" || { echo "run_units: $unit lacks $line"; exit 1; }
    done
    grep -qE '^ExecReload=/[^ ]*/engram-accel (--socket [^ ]+ )?reload$' "$build/systemd/$unit" ||
        { echo "run_units: $unit reloads otherwise"; exit 1; }
done
if ! command -v systemd-analyze >/dev/null; then
    echo "SKIP run_units: there is no systemd-analyze"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A unit with which nothing can be wrong: where even that is not verified, this machine is no judge.
printf '[Service]\nType=oneshot\nExecStart=/bin/true\n' >"$work/fine.service"
if ! (cd "$work" && systemd-analyze verify --man=no --recursive-errors=no ./fine.service &&
    systemd-analyze security --offline=true ./fine.service) >"$work/said" 2>&1; then
    echo "SKIP run_units: systemd-analyze does not work here: $(tail -1 "$work/said")"
    exit 77
fi
# Verified where its programs are, which need not be installed.
for unit in engram-acceld.service engram-acceld.socket engram-acceld@.service; do
    sed -e "s|^\(Exec[A-Za-z]*=\)[^ ]*/|\1$(realpath "$build")/|" "$build/systemd/$unit" >"$work/$unit"
done
said=$(cd "$work" && systemd-analyze verify --man=no --recursive-errors=no ./engram-acceld.service \
    ./engram-acceld.socket ./engram-acceld@x.service 2>&1) ||
    { printf '%s\n' "$said"; exit 1; }
[ -z "$said" ] || { printf '%s\n' "$said"; exit 1; }
systemd-analyze security --offline=true --threshold=20 --no-pager "$work/engram-acceld.service" \
    >"$work/said" || { grep '✗' "$work/said"; tail -1 "$work/said"; exit 1; }
