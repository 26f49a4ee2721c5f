"""Secure aggregation by CKKS: the server adds ciphertexts, and key holders decrypt the sum.

Every sum has its own key. One key holder makes the key and encrypts the key for the other key
holders; all members encrypt their updates with the public part of the key. A ``CkksClient`` or
``CkksServer`` object is used by one party for one sum. These objects do no I/O and receive random
bytes as a parameter. Only the random numbers inside the ciphertexts come from the library SEAL.

CKKS sums are exact here: only whole numbers are encrypted, the noise is small compared with 1, and
a key holder rounds the decrypted numbers. What the server receives therefore depends only on the
sum, not on the noise. The noise in unrounded numbers would reveal the secret key to a party that
also has the ciphertext (Li and Micciancio, eprint 2020/1533).

If a key holder gives the key to the server, the server can decrypt the vector of every member.
"""
