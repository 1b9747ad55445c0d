"""Measured times and auto-tuners: import, export, scale and validate."""
