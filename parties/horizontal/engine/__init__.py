"""The cohort: clients that train and send updates."""
