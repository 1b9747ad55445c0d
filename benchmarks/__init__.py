"""Speed of evaluation, writing and queries compared with the alternatives."""
