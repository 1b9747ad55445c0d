"""How fast evaluation, writing and queries are, as ratios against what one would do without."""
