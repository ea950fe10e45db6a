"""What is made from the declarations of a function.yaml: schema, reference page, full example."""
