"""A CUDA device against PyTorch on it, whose products are cuBLAS's, and against the card's measured ceilings.

python benchmarks/cuda.py [--rounds 7] [--scale 4] [--only matmul] [--json out.json]
"""

from workloads import report, torch_contender

if __name__ == "__main__":
    report("CUDA", torch_contender("cuda"), scale=4)
