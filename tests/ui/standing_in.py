"""What stands in for the heavy parts of a start: a Label Studio environment that answers at once, models for show."""

import socket
import sys
from pathlib import Path

SERVER = '''#!{python}
"""Answers as the interpreter of a Label Studio environment does."""
import http.server, os, pathlib, sys, time
if sys.argv[1] == "-c":
    print("1.23.2")
elif sys.argv[3] == "version":
    (pathlib.Path(os.environ["LABEL_STUDIO_BASE_DATA_DIR"]) / "label_studio.sqlite3").write_text("migrated")
else:
    {behaviour}
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b'{{"status": "UP"}}')
        def log_message(self, *args): pass
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Health).serve_forever()
'''


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stand_in(folder: Path, *, behaviour: str = "pass") -> Path:
    """An interpreter with a Label Studio that answers at once, or behaves as told."""
    file = folder / "label-studio-python"
    file.write_text(SERVER.format(python=sys.executable, behaviour=behaviour))
    file.chmod(0o755)
    return file


def cache_with_models(folder: Path) -> Path:
    """Model folders that pass for whole; nothing in these tests loads them."""
    for name in ("smollm2-135m-instruct", "all-minilm-l6-v2"):
        place = folder / "models" / name
        place.mkdir(parents=True)
        (place / "config.json").write_text('{"model_type": "llama"}')
        (place / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder
