"""Simulations that hold the statistics of evalcard.compare against their promises."""
