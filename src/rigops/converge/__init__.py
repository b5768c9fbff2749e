"""Brings hosts to what is declared, with pyinfra as the engine in our own process."""
