"""The report of a detection study: five domains, cross-domain matrix, masks, and the claims of FedCKA's paper."""
