#!/bin/sh
# The C++ test program: builds it and runs it, as one item.
#
# A machine without a C++ compiler cannot say anything about the program. The suite then reports one test as
# skipped, aloud and in the JUnit report, and passes, so that the queue can be tried anywhere. Where a compiler
# must be there, as in CI, set CORE_REQUIRE_COMPILER=1: then the same is a failure (exit code 77).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
junit=${JUNITXML_PREFIX-test-results/plain/core/}core${JUNITXML_SUFFIX-.xml}
case $junit in
    */*) mkdir -p -- "${junit%/*}" ;;
esac

compiler=''
for candidate in ${CXX:+"$CXX"} c++ g++ clang++; do
    if command -v "$candidate" >/dev/null 2>&1; then
        compiler=$candidate
        break
    fi
done

if [ -z "$compiler" ]; then
    cat <<END
core: NOT TESTED: no C++ compiler on this machine
core: looked for ${CXX:+\$CXX ($CXX), }c++, g++, clang++ on PATH
core: to test it, install one (Debian, Ubuntu: g++; Fedora: gcc-c++; Alpine: g++) or name one in CXX
END
    cat >"$junit" <<END
<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="core" tests="1" failures="0" errors="0" skipped="1" time="0">
<testcase classname="core" name="build" time="0"><skipped message="no C++ compiler on this machine"/></testcase>
</testsuite></testsuites>
END
    case ${CORE_REQUIRE_COMPILER-} in
        '' | 0) exit 0 ;;
    esac
    echo "core: CORE_REQUIRE_COMPILER is set, so this is a failure"
    exit 77
fi

build=$(mktemp -d "${TMPDIR:-/tmp}/sgpu-core.XXXXXX")
trap 'rm -rf -- "$build"' EXIT
echo "core: building with $compiler"
"$compiler" -std=c++17 -O2 -pthread -Wall -Wextra -o "$build/test_numerics" "$here"/core/*.cpp
echo "core: running"
"$build/test_numerics" "$junit"
