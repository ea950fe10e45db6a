"""aiokafka, as the trigger needs it: all that reaches into it, pinned and tested."""
