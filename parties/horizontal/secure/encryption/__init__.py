"""Secure aggregation by CKKS: the server adds ciphertexts, and key holders decrypt the sum.

Every sum has its own key. One key holder makes the key and encrypts the key for the other key
holders; all members encrypt their updates with the public part of the key. Each object is one
party's side of one sum and does no I/O. Its randomness is passed as a parameter, except for the
randomness of the ciphertexts, which the library SEAL generates.

CKKS sums are exact here, because only whole numbers are encrypted, the noise is small compared with
1, and a key holder rounds the result. The server therefore receives nothing but a function of the
sum. Before rounding, the decrypted numbers would reveal the secret key to a party that also has the
ciphertext (Li and Micciancio, eprint 2020/1533).

A key holder that gives the key to the server reveals every single vector of the sum.
"""
