"""Compiled code for NVIDIA GPUs; `docs/gpu.md` is its map, and `culpa.shapley.on_gpu` the only module that uses it."""
