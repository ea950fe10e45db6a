"""A trigger's dispatcher: hands records to workers, and decides what their outcomes mean."""
