#!/bin/sh
# JAX on the device that the queue gives: numerics against float64 NumPy, by backend and type.
#   level 1: jit, float32        level 2: half types        level 3: without jit
set -eu
# shellcheck source=ci/_utils.sh
. "$(dirname -- "$0")/../_utils.sh"
te_ci_tests jax_numerics
te_ci_requires te_ci_module jax

# Several items may share one device, and JAX would take most of its memory for the first.
export XLA_PYTHON_CLIENT_PREALLOCATE="${XLA_PYTHON_CLIENT_PREALLOCATE:-false}"

te_ci_test 1 jit test_devices.py
for file in test_matmul.py test_reductions.py test_grad.py; do
    SGPU_DTYPE=float32 te_ci_test 1 jit.float32 "$file"
    SGPU_DTYPE=bfloat16 te_ci_test 2 jit.bfloat16 "$file"
    SGPU_DTYPE=float16 te_ci_test 2 jit.float16 "$file"
    SGPU_DTYPE=float32 JAX_DISABLE_JIT=1 te_ci_test 3 nojit.float32 "$file"
done

te_ci_finish
