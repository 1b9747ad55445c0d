"""``sweep explain``: show how a model computes the result of one configuration."""
