#!/bin/sh
# Prometheus' own server scrapes a loaded daemon: every selector of rules and dashboard matches a
# series, rules are right (promtool), and alerts fire by the fault that they are about.
# test-run: timeout=600
for program in prometheus promtool; do
    command -v $program >/dev/null || {
        echo "SKIP no $program here; Debian's package prometheus (100 MB, starts a server) has it"
        exit 77
    }
done
exec /usr/bin/python3 -B tests/integration/prometheus_live.py "${BUILD:-build/release}"
