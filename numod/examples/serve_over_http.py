"""Serve a compiled network over HTTP, with Python's standard library.

python numod/examples/serve_over_http.py [port]
curl -d '[[0.1, 0.2, 0.3, 0.4]]' http://127.0.0.1:8000
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numod as torch
from numod import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=-1)).eval()
predict = torch.compile(model, dynamic=True)


class Handler(BaseHTTPRequestHandler):
    """Takes a JSON list of rows, answers with a JSON list of probabilities."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            rows = torch.tensor(json.loads(body), dtype=torch.float32)
            with torch.inference_mode():
                status, answer = 200, predict(rows).tolist()
        except (ValueError, TypeError, RuntimeError) as error:
            status, answer = 400, {"error": str(error)}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:
        """Write no log."""


def make_server(port: int = 8000) -> ThreadingHTTPServer:
    """A server on this machine only; port 0 chooses a free one."""
    for size in (1, 2, 3):  # compile before the first request, once for all batch sizes
        with torch.inference_mode():
            predict(torch.zeros(size, 4))
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    with make_server(*map(int, sys.argv[1:2])) as server:
        print(f"listening on port {server.server_port}")
        server.serve_forever()
