"""How depth, maps and boxes look in every picture: colours, scales, the view from above."""
