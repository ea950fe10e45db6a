"""What clients say of a run, and the envelopes in which it goes through the two topics."""
