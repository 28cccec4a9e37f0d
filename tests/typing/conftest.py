"""The scripts of this folder are read by a type checker, and never run."""

collect_ignore = ["correct_script.py", "wrong_script.py"]
