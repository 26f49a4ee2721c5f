"""Reading, preprocessing and splitting the data of one party."""
