"""Tests for code that other people write: what every strategy must keep to."""
