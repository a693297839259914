"""An archive that is read only where somebody wants something of it: `penstock.interest`."""
