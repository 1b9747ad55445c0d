"""What micro-benchmark tools print, and the device file that is made of it."""
