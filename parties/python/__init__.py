"""Python interface: runs and estimators, which the module ``vfl`` offers."""
