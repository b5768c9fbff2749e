"""acs_redirect: ACS redirection on the ports between the GPUs."""
