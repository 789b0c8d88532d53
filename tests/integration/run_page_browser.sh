#!/bin/sh
# run_page_browser.sh [FOLDER [SECONDS]]: the status page in a headless Chromium beside load. FOLDER
# gets pictures of it, after SECONDS at each size: tests/integration/run_page_browser.sh /tmp 60
# test-run: timeout=600
command -v chromium >/dev/null || {
    echo "SKIP no chromium here; Debian's package chromium (with what it needs, 400 MB) has it"
    exit 77
}
exec /usr/bin/python3 -B tests/integration/page_browser.py "${BUILD:-build/release}" "$@"
