"""Worker processes, from their processor's side: started, sent records, watched, killed."""
