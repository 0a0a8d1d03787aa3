"""Lets ``python -m fed_cli`` be ``fedperc``."""

from fed_cli.main import main

main()
