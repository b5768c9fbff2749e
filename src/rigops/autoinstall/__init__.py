"""Files for unattended installations: of a captured host, with Debian's or Ubuntu's installer."""
