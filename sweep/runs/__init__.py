"""Runs: evaluate a plan into a store, continue, extend, verify, and forecast what that takes."""
