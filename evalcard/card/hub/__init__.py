"""Publishing a card on the Hub: what would change there, shown first, and the one commit that changes it."""
