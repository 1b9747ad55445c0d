"""``sweep explain``: how a model arrives at one configuration's result."""
