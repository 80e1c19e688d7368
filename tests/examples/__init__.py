"""The example packages, installed and used as a third party would."""
