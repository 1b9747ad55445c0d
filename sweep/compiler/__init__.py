"""Everything that writes or compiles code: lowering of models, passes, reductions."""
