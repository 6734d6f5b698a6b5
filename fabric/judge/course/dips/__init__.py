"""Rare dips: which parts dipped in a round, and what further tests say of them."""
