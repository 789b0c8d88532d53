#!/bin/sh
# The command line tool's completion against the real daemon.
# test-run: timeout=900
exec /usr/bin/python3 -B tests/integration/cli_complete.py "${BUILD:-build/release}"
