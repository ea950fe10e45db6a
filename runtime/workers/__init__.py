"""Worker processes as their processor sees them: started, told, watched, killed."""
