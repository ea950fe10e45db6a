"""`headrace kafka` and `headrace deadletters`: a broker, and hands on any."""
