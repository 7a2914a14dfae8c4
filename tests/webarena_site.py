"""A web server for tests: pages by path, and the part of Magento's REST interface that helpers ask."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ADMIN = {"username": "admin", "password": "admin1234"}


class Site:
    """`pages`: HTML, or (status, HTML), by path. `hung`: paths that never answer. `orders`, `reviews`: the shop's."""

    def __init__(self):
        self.pages = {}
        self.hung = set()
        self.orders = []
        self.reviews = {}
        self.asked = []
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def clear(self):
        self.pages.clear()
        self.hung.clear()
        self.orders.clear()
        self.reviews.clear()
        self.asked.clear()

    def close(self):
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method, path, body, token):
        """(status, type, text)"""
        if path == "/rest/default/V1/integration/admin/token":
            right = json.loads(body) == ADMIN
            return (200, "json", '"secret"') if right else (401, "json", '{"message": "wrong"}')
        if path.startswith("/rest/"):
            if token != "Bearer secret":
                return 401, "json", "{}"
            if path == "/rest/V1/orders":
                return 200, "json", json.dumps({"items": self.orders[:1]})
            return 200, "json", json.dumps(self.reviews.get(path.split("/")[4], []))
        page = self.pages.get(path, (404, "<title>Not found</title>nothing here"))
        status, text = page if isinstance(page, tuple) else (200, page)
        return status, "html", text

    def _handler(site):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = urlsplit(self.path).path
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                site.asked.append((self.command, self.path, body))
                if path in site.hung:
                    site._stopped.wait(30)
                    return
                status, kind, text = site.answer(self.command, path, body, self.headers.get("Authorization"))
                data = text.encode()
                self.send_response(status)
                if status in (301, 302):
                    self.send_header("Location", text)
                kinds = {"html": "text/html; charset=utf-8", "json": "application/json"}
                self.send_header("Content-Type", kinds[kind])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *arguments):
                pass

        return Handler
