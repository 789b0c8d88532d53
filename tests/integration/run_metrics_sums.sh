#!/bin/sh
# The counters of /metrics say what was asked, GPU processes that are killed included, and never
# fall. More of it: tests/integration/run_metrics_sums.sh 60 (seconds)
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/metrics_sums.py "${BUILD:-build/release}" "${1:-1}"
