"""Parts that several networks are built of."""
