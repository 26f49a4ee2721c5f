"""Secure aggregation by CKKS: the server adds ciphertexts, and key holders decrypt the sum.

Every sum has a key of its own. One key holder makes the key and seals it for the others; all
members encrypt with its public part. Each object is one side of one sum, without I/O. Its
randomness is a parameter, except for that of the ciphertexts, which is SEAL's.

CKKS is used as an exact sum: the encrypted numbers are whole numbers, far apart in comparison with
the noise, and a key holder rounds. So the server receives a function of the sum alone. The numbers
that CKKS decrypts to before rounding would reveal the secret key to a party that also has the
ciphertext (Li and Micciancio, eprint 2020/1533).

A key holder that gives the key to the server reveals every single vector of that sum.
"""
