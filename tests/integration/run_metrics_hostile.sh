#!/bin/sh
# Hostile clients over HTTP: no number is seen, and kNN goes on. More of them, and what they do to the
# latency of kNN: tests/integration/run_metrics_hostile.sh 100000 [A_SECOND]
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/metrics_hostile.py "${BUILD:-build/release}" "${1:-1500}" "${2:-2000}"
