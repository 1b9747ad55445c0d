"""Read search spaces and measured times of auto-tuners; write restrictions and rankings."""
