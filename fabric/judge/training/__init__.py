"""What failures mean for a training job."""
