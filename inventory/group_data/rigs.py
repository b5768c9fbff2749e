# What all rigs of homelab.py declare. A host's own data overrides this.

ssh_user = "me"

driver = "535"
kernel_args = ["iommu=pt"]
acs_redirect = "off"
circuits = "120V/15A"
electricity_price = 0.31
