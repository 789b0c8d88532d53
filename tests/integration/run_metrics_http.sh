#!/bin/sh
# /metrics, /healthz and /readyz over HTTP: settings, tokens, hosts, reloads, crowds.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/metrics_http.py "${BUILD:-build/release}"
