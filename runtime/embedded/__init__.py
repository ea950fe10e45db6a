"""Servers that Headrace starts itself: processes, folders, ports, Java."""
