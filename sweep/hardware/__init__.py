"""The physics that models share: occupancy, clocks, power and memory accesses."""
