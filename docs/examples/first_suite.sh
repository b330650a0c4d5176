#!/bin/sh
# From nothing to a queue: a suite of three lines, its plan, a run, and the plan that knows how long they took.
set -eu

cat >suite.sh <<'END'
#!/bin/sh
. "$(sgpu shell-lib)"
te_ci_program 1 short  sleep 0.1
te_ci_program 1 long   sleep 0.5
te_ci_program 3 nightly sleep 60
te_ci_finish
END
chmod +x suite.sh

echo "demo demo.log list ./suite.sh" >queue.conf
echo "[pytest]" >pytest.ini

# What the suite would run at level 1: two lines.
TEST_LEVEL=1 TE_CI_LIST_ITEMS=1 ./suite.sh

# The queue over two virtual devices, and what it learned.
TEST_LEVEL=1 pytest -p sgpu --sgpu-conf=queue.conf --sgpu-gpus=2
cat ci-weights/test_weights.cpu.l1.txt

# The long one comes first now.
TEST_LEVEL=1 pytest -p sgpu --sgpu-conf=queue.conf --sgpu-gpus=2 --sgpu-plan
