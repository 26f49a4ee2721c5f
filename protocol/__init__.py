"""What the parties say to each other, in what order, and how the words travel.

gRPC's Python API has no minimum TLS version. Naming only an RSA suite of TLS 1.2 leaves nothing
that a P-256 certificate could use there, so that TLS 1.3 is all that is left. gRPC reads its
variables once, when it is loaded: this is the one place outside the command line that touches the
environment. Its own log is silenced because ``diagnose`` says what failed in words.
"""

import os

os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-RSA-AES256-GCM-SHA384"
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
