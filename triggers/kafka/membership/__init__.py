"""How a trigger is in its group: one contract, and both of Kafka's protocols."""
