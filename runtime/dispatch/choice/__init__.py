"""Which records go to which worker next, and how many: no part of it knows a dispatcher."""
