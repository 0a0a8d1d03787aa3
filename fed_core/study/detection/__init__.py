"""Studies of 3D detection: every client is a domain, and its model is scored on all of them (fedcka spec 7)."""
