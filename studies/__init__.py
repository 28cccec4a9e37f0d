"""Studies: what culpa's methods are worth on data, each written to a page of the docs.

A study is a module with a function ``run(data) -> dict``, which measures, a function ``shown(found) -> dict``, which
makes of these numbers what the page shows, and a Jinja template with the text of the page. ``python -m studies NAME``
runs a study, and writes its numbers (``docs/NAME.json``) and its page (``docs/NAME.md``).
"""
