"""Compile CUDA sources without a GPU, and note what the compiler decided."""
