#!/bin/sh
# A daemon that asks for a token, and the command line tool that says one.
# test-run: timeout=300
exec /usr/bin/python3 -B tests/integration/cli_token.py "${BUILD:-build/release}"
