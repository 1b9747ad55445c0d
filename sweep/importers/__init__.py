"""Readers for foreign files: PTX text, profiles and the files of auto-tuners."""
