#!/bin/sh
# Help, completion, questions, waiting, full disks: the command line tool against the real daemon.
# test-run: timeout=600
exec /usr/bin/python3 -B tests/integration/cli_habits.py "${BUILD:-build/release}"
