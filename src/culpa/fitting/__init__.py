"""From rows to a fitted detector: components, limits, modes, weights, updates, adopted models."""
