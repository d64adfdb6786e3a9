"""Predictors: one for each kind of measurement, by the shipped models of machines and libraries."""
