"""Facts for pyinfra's deploys: each is one section of the probe."""
