"""From rows to an explanation: Shapley values, expected values, and what makes them easier to read and to act on."""
