#!/bin/sh
# A repository joins the queue: sgpu init writes a suite, a conf, a workflow and pytest.ini; they run at once.
set -eu
mkdir repository
cd repository
sgpu init

# The script alone, as a person runs it: one line after the other.
TEST_LEVEL=1 ci/suites/example.sh

# One line of it.
TEST_LEVEL=1 TEST_FILTER='*.small' ci/suites/example.sh

# All of it, packed over two virtual devices.
TEST_LEVEL=1 pytest -p sgpu --sgpu-conf=conf/ci_sgpu_queue.conf --sgpu-gpus=2
