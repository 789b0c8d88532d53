#!/bin/sh
# run_debian.sh: each file that make install writes is in one Debian package, and each line of their
# lists names a file. What make deb finds after minutes of building is found here in a second; lintian
# and the container's test (make system-test) look at the packages themselves.
set -eu
cd "$(dirname "$0")/../.."
case ${BUILD:=build/release} in
*/release) ;;
*) echo "SKIP run_debian: sanitizer and coverage builds are not packed"; exit 77 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
MAKEFLAGS='' MAKELEVEL='' make -s install-files BUILD="$BUILD" PREFIX=/usr LIBDIR=/usr/lib/ARCH \
    DOCDIR=/usr/share/doc/engram-acceld DESTDIR="$work/root" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
# systemd/debian/rules moves these.
cd "$work/root"
for file in lib/systemd/system/engram-acceld.service lib/systemd/system/engram-acceld.socket \
    lib/systemd/system/engram-acceld@.service lib/sysusers.d/engram-accel.conf \
    lib/tmpfiles.d/engram-accel.conf; do
    grep -qF "mv \$(TMP)/$file " "$OLDPWD/systemd/debian/rules" ||
        { echo "run_debian: rules do not move $file"; exit 1; }
    rm "usr/$file"
done
mkdir -p usr/share/zsh/vendor-completions
mv usr/share/zsh/site-functions/* usr/share/zsh/vendor-completions
find . -type f -o -type l | sed 's|^\./||' | sort >"$work/there"
cd "$OLDPWD"

wrong=0
for list in systemd/debian/*.install systemd/debian/not-installed; do
    while read -r pattern; do
        # shellcheck disable=SC2086 # a pattern, which may be of a folder
        found=$(cd "$work/root" && find $pattern \( -type f -o -type l \) 2>/dev/null) || true
        [ -n "$found" ] || { echo "$list: $pattern is not there"; wrong=1; }
        printf '%s\n' "$found"
    done <"$list" >"$work/found"
    grep -F ' is not there' "$work/found" && wrong=1
    grep -vF ' is not there' "$work/found" >>"$work/taken" || true
done
sort "$work/taken" | uniq -d | sed 's/$/ is in two packages/' | grep . && wrong=1
sort "$work/taken" | comm -13 - "$work/there" | sed 's/$/ is in no package/' | grep . && wrong=1
exit $wrong
