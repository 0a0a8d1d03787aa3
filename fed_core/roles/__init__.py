"""Pure state machines: ``handle(event, now_s) -> effects``. They never sleep, log, or read a clock or a file."""
