#!/bin/sh
# A suite: the lines below are its work items. Put your own in their place.
#
#   ci/suites/example.sh                          runs everything, one line after the other
#   TE_CI_LIST_ITEMS=1 ci/suites/example.sh       shows the tags
#   TEST_FILTER='*.large' ci/suites/example.sh    runs the lines with such a tag
#   TEST_LEVEL=1 ci/suites/example.sh             runs the lines of level 1 only
set -eu
lib=$(sgpu shell-lib) || {
    echo "$0: needs the command 'sgpu': pip install pytest-sgpu" >&2
    exit 2
}
# shellcheck source=/dev/null
. "$lib"

# What the items need, once per run: install, build, download. It must leave its work on disk.
prepare() { echo "nothing to prepare for the example"; }
te_ci_setup prepare

# LEVEL BACKEND[.LABEL] FILE: pytest on a file next to this script. The tag is test_example.cpu.small.
EXAMPLE_SIZE=1000 te_ci_test 1 cpu.small test_example.py
EXAMPLE_SIZE=500000 te_ci_test 1 cpu.large test_example.py
EXAMPLE_SIZE=5000000 te_ci_test 3 cpu.huge test_example.py

# LEVEL TAG PROGRAM: a program that leaves no JUnit file.
te_ci_program 1 benchmark "${TE_CI_PYTHON:-python3}" -m timeit -n 1000 "sum(range(1000))"

# Lines that need something run only where it is there; they are known to exist everywhere.
# te_ci_requires te_ci_module torch
# te_ci_test 1 cuda test_kernels.py

te_ci_finish
