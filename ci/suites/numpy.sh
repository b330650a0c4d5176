#!/bin/sh
# NumPy's own test suite, as NumPy ships it, by module and level: the work that every machine has.
#   level 1: the core of the library, without the tests that NumPy marks as slow
#   level 2: the other modules
#   level 3: the longest module, and the slow tests of the numerical ones
set -eu
# shellcheck source=ci/_utils.sh
. "$(dirname -- "$0")/../_utils.sh"

# Items run side by side: a thread pool per core in each would only measure how they fight for the cores.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

# NumPy's conftest needs hypothesis; some distributions ship NumPy without its tests.
numpy_has_tests() {
    "${TE_CI_PYTHON:-python3}" -c 'import hypothesis, pytest, numpy._core.tests, numpy.ma.tests' 2>/dev/null
}
te_ci_requires numpy_has_tests

# module LEVEL NAME...: one item per module of the test suite, NAME as in numpy.NAME.
module() {
    level=$1
    shift
    for name in "$@"; do
        te_ci_pytest "$level" "$name.cpu" -c "$te_ci_dir/pytest.ini" -m "not slow" \
            --pyargs "numpy.${name%%.*}.tests.${name#*.}"
    done
}
# slow LEVEL NAME...: what NumPy marks as slow in a module.
slow() {
    level=$1
    shift
    for name in "$@"; do
        te_ci_pytest "$level" "$name.cpu.slow" -c "$te_ci_dir/pytest.ini" -m slow \
            --pyargs "numpy.${name%%.*}.tests.${name#*.}"
    done
}

module 1 _core.test_ufunc _core.test_umath _core.test_numeric _core.test_dtype _core.test_casting_unittests \
    _core.test_nditer _core.test_scalarmath _core.test_einsum _core.test_datetime _core.test_indexing \
    _core.test_array_coercion _core.test_regression _core.test_shape_base
module 1 lib.test_function_base lib.test_nanfunctions lib.test_loadtxt lib.test_io lib.test_arraypad lib.test_histograms
module 1 ma.test_core ma.test_extras linalg.test_linalg fft.test_pocketfft polynomial.test_classes
module 1 random.test_generator_mt19937 random.test_randomstate random.test_smoke testing.test_utils

module 2 _core.test_strings _core.test_stringdtype _core.test_simd _core.test_arrayprint _core.test_mem_overlap \
    _core.test_nep50_promotions _core.test_umath_complex _core.test_scalar_ctors _core.test_overrides \
    _core.test_item_selection _core.test_defchararray _core.test_half _core.test_records _core.test_memmap \
    _core.test_function_base _core.test_numerictypes
module 2 lib.test_format lib.test_arraysetops lib.test_packbits lib.test_polynomial lib.test_shape_base \
    lib.test_recfunctions lib.test_index_tricks lib.test_stride_tricks lib.test_twodim_base lib.test_type_check
module 2 ma.test_old_ma ma.test_mrecords ma.test_subclassing linalg.test_regression fft.test_helper
module 2 matrixlib.test_defmatrix matrixlib.test_matrix_linalg matrixlib.test_masked_matrix
module 2 polynomial.test_polynomial polynomial.test_chebyshev polynomial.test_hermite polynomial.test_legendre \
    polynomial.test_printing
module 2 random.test_random random.test_direct random.test_generator_mt19937_regressions

module 3 _core.test_multiarray
slow 3 _core.test_numeric _core.test_scalarmath linalg.test_linalg

te_ci_finish
