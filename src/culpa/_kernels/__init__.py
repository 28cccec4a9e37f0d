"""Compiled code for the CPU; `docs/kernels.md` is its map."""
