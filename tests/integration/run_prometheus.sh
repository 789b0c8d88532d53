#!/bin/sh
# Prometheus' own server scrapes loaded daemons: every selector of rules and dashboard matches a
# series, rules are right (promtool), and each alert fires by the fault that it is about. With the
# rules' own minutes in place of seconds: tests/integration/run_prometheus.sh as-shipped
# test-run: timeout=600
for program in prometheus promtool; do
    command -v $program >/dev/null || {
        echo "SKIP no $program here; Debian's package prometheus (100 MB, starts a server) has it"
        exit 77
    }
done
exec /usr/bin/python3 -B tests/integration/prometheus_live.py "${BUILD:-build/release}" "$@"
