"""Who hears of what goes wrong on a host without a person: notifications, self-check, metrics."""
