"""How good models are: sums of each minute, by Spark, and the scores of any time that are made of them."""
