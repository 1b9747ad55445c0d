"""Evaluation: from a space to numbers, chunk by chunk."""
