"""Verdicts for people and for programs: lines and a table, JSON, CSV and JUnit XML. All are made from one `Results`."""
