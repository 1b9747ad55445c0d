"""Kernels that measure what models read of a GPU, and what follows from their times."""
