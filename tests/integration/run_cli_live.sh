#!/bin/sh
# top and doctor against the real daemon, on terminals.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_live.py "${BUILD:-build/release}"
