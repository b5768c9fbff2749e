"""The exact packages of drivers that were proven: which they are, and where copies of them lie."""
