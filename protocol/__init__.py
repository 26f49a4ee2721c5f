"""The wire protocol: messages, their order, their encoding, connections and identities.

gRPC's Python API has no setting for the smallest TLS version. The cipher suite below is an RSA
suite of TLS 1.2, which no P-256 certificate can use, so only TLS 1.3 is left. gRPC reads its
environment variables once, when it is loaded. This module is therefore the one place outside the
command line that writes environment variables. gRPC's own log is silenced, because ``diagnose``
reports why a connection failed.
"""

import os

os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-RSA-AES256-GCM-SHA384"
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
