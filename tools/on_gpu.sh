#!/usr/bin/env bash
# Where there is an NVIDIA GPU: the tests on it, then the benchmarks, with results in a folder.
#     tools/on_gpu.sh [folder]
# PYTHON names the interpreter. DEVICE=CPU or CL rehearses the script without a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
results=${1:-gpu-results}
python=${PYTHON:-python3}
device=${DEVICE:-CUDA}
case $device in CUDA) script=cuda; extra=cuda ;; CL) script=opencl; extra=opencl ;; *) script=cpu; extra=dev ;; esac
mkdir -p "$results"

"$python" -m pip install --quiet --disable-pip-version-check --editable ".[dev,$extra]"
"$python" -m dawdle | tee "$results/system.txt"
"$python" -c "from dawdle.runtime.device import get_device; get_device('$device')"  # says why, if it doesn't work

failed=0
DAWDLE_TEST_ALL=1 DAWDLE_TEST_DEVICES=$device "$python" -m pytest ${TESTS:-tests/tensor tests/nn tests/runtime tests/cuda} \
  2>&1 | tee "$results/tests.txt" || failed=1
DAWDLE_DEVICE=$device "$python" examples/mnist.py --epochs 3 2>&1 | tee "$results/mnist.txt" || failed=1
"$python" "benchmarks/$script.py" ${BENCHMARK_ARGS:-} --json "$results/benchmarks.json" \
  2>&1 | tee "$results/benchmarks.txt" || failed=1
if [ "$device" = CUDA ]; then
  DAWDLE_TF32=1 "$python" "benchmarks/$script.py" ${BENCHMARK_ARGS:-} --json "$results/benchmarks-tf32.json" \
    2>&1 | tee "$results/benchmarks-tf32.txt" || failed=1
fi
exit $failed
