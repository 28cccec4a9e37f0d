"""Random tables, model files and interrupts against every command. Run it with ``python -m tests.fuzz``."""
