#!/bin/sh
# PyTorch on the device that the queue gives: numerics against float64, by backend and type.
#   level 1: eager, float32        level 2: half types, autocast        level 3: compiled
set -eu
# shellcheck source=ci/_utils.sh
. "$(dirname -- "$0")/../_utils.sh"
te_ci_tests torch_numerics
te_ci_requires te_ci_module torch

te_ci_test 1 eager test_devices.py
for file in test_matmul.py test_reductions.py test_elementwise.py test_autograd.py; do
    SGPU_DTYPE=float32 te_ci_test 1 eager.float32 "$file"
    SGPU_DTYPE=bfloat16 te_ci_test 2 eager.bfloat16 "$file"
    SGPU_DTYPE=float16 te_ci_test 2 eager.float16 "$file"
done
SGPU_DTYPE=bfloat16 SGPU_BACKEND=autocast te_ci_test 2 autocast.bfloat16 test_matmul.py

# torch.compile needs a compiler of its own.
can_compile() { "${TE_CI_PYTHON:-python3}" "$te_ci_dir/torch_numerics/can_compile.py" 2>/dev/null; }
te_ci_requires can_compile
for file in test_matmul.py test_elementwise.py; do
    SGPU_DTYPE=float32 SGPU_BACKEND=compile te_ci_test 3 compile.float32 "$file"
done

te_ci_finish
