"""Import, export, scale and validate measured times, also those of auto-tuners."""
