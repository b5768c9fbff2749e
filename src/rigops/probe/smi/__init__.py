"""What nvidia-smi prints, in its XML and its text, of every driver generation."""
