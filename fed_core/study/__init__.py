"""Studies: many federations over one scenario, compared on sequences that nobody trained on."""
