#!/bin/sh
# verify, restore, and a start from what is damaged: the command line tool against the real daemon.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_snapshot.py "${BUILD:-build/release}"
