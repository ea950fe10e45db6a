"""What a partition has to hand out: decoded records, undecoded chunks, or ranges of offsets."""
