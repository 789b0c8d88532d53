#!/bin/sh
# run_dist.sh: make dist writes every file of the commit and nothing else, into one folder, and the
# same bytes whatever the zone, umask and time. make dist-check builds it.
set -eu
cd "$(dirname "$0")/../.."
[ -e .git ] || { echo "SKIP run_dist: this is no clone by git"; exit 77; }
git rev-parse -q --verify HEAD >/dev/null 2>&1 || { echo "SKIP run_dist: no commit"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
systemd/dist name-1 "$work/a.tar.gz" >/dev/null 2>&1
(umask 077; TZ=Asia/Tokyo LC_ALL=C GZIP='' systemd/dist name-1 "$work/b.tar.gz") >/dev/null 2>&1
cmp "$work/a.tar.gz" "$work/b.tar.gz"
tar -tzf "$work/a.tar.gz" | grep -v '/$' | sort >"$work/has"
git ls-tree -r --name-only HEAD | sed 's|^|name-1/|' | sort | diff - "$work/has"
modes=$(tar -tvzf "$work/a.tar.gz" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')
[ "$modes" = "-rw-r--r-- -rwxr-xr-x drwxr-xr-x " ] || { echo "run_dist: modes $modes"; exit 1; }
# Elsewhere there is no commit to take.
mkdir "$work/systemd"
cp systemd/dist "$work/systemd"
if GIT_CEILING_DIRECTORIES=$(dirname "$work") "$work/systemd/dist" name-1 "$work/c" 2>"$work/said"
then
    echo "run_dist: made of nothing"
    exit 1
fi
grep -q 'no clone' "$work/said"
