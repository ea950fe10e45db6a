"""Records and rows as commands read them and print them, whatever they are kept in."""
