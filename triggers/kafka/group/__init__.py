"""How a trigger is in its group: its membership by either of Kafka's protocols, and the group's offsets."""
