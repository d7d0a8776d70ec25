"""An OpenCL device against the C backend in the same run. DAWDLE_CL_DEVICE picks the device.

python benchmarks/opencl.py [--rounds 7] [--scale 1] [--only matmul] [--json out.json]
"""

from workloads import on_dawdle, report

if __name__ == "__main__":
    report("CL", {"dawdle CPU": on_dawdle("CPU")})
