#!/bin/sh
# The command line tool's recall against the real daemon.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_recall.py "${BUILD:-build/release}"
