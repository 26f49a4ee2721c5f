"""Secure aggregation by CKKS: the server adds ciphertexts, and the keepers of the key open the sum.

Every sum has a key of its own, which one keeper makes and seals for the others; all members encrypt
under its public part. Each object is one side of one sum, without I/O, its own randomness injected
(that of the ciphertexts is SEAL's).

CKKS is used as an exact sum: what is encrypted are whole numbers, far apart beside the noise, and a
keeper rounds. What the server is told is therefore a function of the sum alone. The numbers that
CKKS decrypts to without rounding would tell whoever has the ciphertext, too, the secret key (Li and
Micciancio, eprint 2020/1533).

Whoever of the keepers gives the key to the server opens every single vector of that sum.
"""
