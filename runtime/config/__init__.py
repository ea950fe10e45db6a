"""function.yaml: what it may say, and the FunctionSpec that it becomes."""
