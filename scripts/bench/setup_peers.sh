#!/usr/bin/env bash
# Makes .deps/peers, the Python environment of the peers: this project's torch, with lightning, accelerate, torchvision and pycocotools.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
peers="$deps/peers"
purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
[ -x "$peers/bin/pip" ] || "$deps/python/bin/python" -m venv "$peers"
"$deps/python/bin/python" -c "$purelib" >"$("$peers/bin/python" -c "$purelib")/torch.pth"
"$peers/bin/pip" install --quiet lightning==2.6.6 accelerate==1.15.0 torchvision==0.26.0 pycocotools==2.0.11
# Without bytecode every start would compile torch anew, to our advantage.
env -u PYTHONDONTWRITEBYTECODE "$peers/bin/python" -m compileall -q "$deps/python/lib" "$peers/lib" >/dev/null || true
