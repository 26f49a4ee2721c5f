"""What every package uses: errors, randomness, files, progress and traffic."""
