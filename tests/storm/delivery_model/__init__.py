"""Replicas without processes, and a model of a broker: real ledgers, acks, plans, failures and commits."""
