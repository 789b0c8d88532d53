#!/bin/sh
# proto/README.md, as a stranger reads it: docs/examples/wire_client.py, every operation, and the
# page's sentences with "must", "never" and "always", against the real daemon.
# test-run: timeout=300
/usr/bin/python3 -c 'import numpy, google.protobuf' 2>/dev/null ||
    { echo "SKIP no python3-numpy and python3-protobuf here"; exit 77; }
command -v protoc >/dev/null || { echo "SKIP no protoc here"; exit 77; }
exec /usr/bin/python3 -B tests/integration/wire_page.py "${BUILD:-build/release}"
