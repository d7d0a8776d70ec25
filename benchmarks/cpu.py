"""The C backend against PyTorch on the CPU.

python benchmarks/cpu.py [--rounds 7] [--scale 1] [--only matmul] [--json out.json]
"""

from workloads import report, torch_contender

if __name__ == "__main__":
    report("CPU", torch_contender("cpu"))
