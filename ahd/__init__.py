"""Automatic heuristic design: problems whose heuristics a language model writes, with their scorers and reference values.

No problems are included yet.
"""
