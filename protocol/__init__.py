"""The wire protocol: messages, order and encoding of messages, connections, and identities.

gRPC's Python API has no setting for the minimum TLS version. The only TLS 1.2 cipher suite that
this module allows needs an RSA certificate. Parties have P-256 certificates, so TLS 1.2 cannot be
negotiated and only TLS 1.3 remains. gRPC reads environment variables once, when the gRPC module is
loaded. Therefore this module sets the variables as soon as it is imported. gRPC's own log is
silenced, because ``diagnose`` reports why a connection failed.
"""

import os

os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-RSA-AES256-GCM-SHA384"
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
