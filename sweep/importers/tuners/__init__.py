"""Files of auto-tuners: search spaces and measured times in, restrictions and rankings out."""
