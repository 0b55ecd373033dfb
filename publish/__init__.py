"""What people read and work in, made from the lessons: the executed reference notebooks, the exercise notebooks and scripts,
the study guides of the phases, and JSON Schemas for editors. Nothing here runs a lesson: every output, every number in the
words comes from the lesson's receipt. `python -m publish build` writes all of it, `python -m publish build --check` says what
has drifted.

A file goes through it in one direction: `prose` reads the words, `recorded` puts recorded values into them, `markdown` and
`ipynb` give both their written form, `notebooks`, `exercises`, `guide` and `schemas` put whole files together, and `build`
compares them with what is there and writes.
"""
