#!/bin/sh
# The command line tool's graphs and spreading against the real daemon.
# test-run: timeout=900
exec /usr/bin/python3 -B tests/integration/cli_graph.py "${BUILD:-build/release}"
