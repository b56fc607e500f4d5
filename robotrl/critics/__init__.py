"""What a state is worth: success probability, and whether that estimate may be used."""
