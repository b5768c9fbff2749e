# What every rig of homelab.py should be. A host's own data goes before this.

ssh_user = "me"

driver = "535"
kernel_args = ["iommu=pt"]
gpu_persistence = True
circuits = "120V/16A"
electricity_price = 0.31
