"""The few verbs of the Kubernetes API that Spark needs to have executors: a pod is a process on this machine.

It stands in for a cluster, which the tests have none of. Real are Spark's Kubernetes backend, the manifest's settings and
pod template, and the executor's command; images, volumes, names and permissions are not.
"""

import http.server
import json
import os
import re
import signal
import subprocess
import threading
import urllib.parse

POD = re.compile(r"/api/v1/namespaces/[\w-]+/pods(?:/([\w-]+))?$")
READY = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}


class KubernetesServer:
    """Listens on the loopback address; `pods` are those that were asked for, by name.

    environment: what the processes have in addition to what their pods are given. logs: the folder of what they print.
    """

    def __init__(self, environment, logs):
        self.pods = {}
        self._processes = {}
        self._environment = environment
        self._logs = logs
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()
        for process in self._processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def answer(self, verb, address, body):
        """Return the status and the body of a response."""
        found = POD.search(urllib.parse.urlparse(address).path)
        if not found:  # config maps and volume claims: what is sent is there
            return (200, {"kind": "List", "items": []}) if verb == "GET" else (201, body)
        name = found[1]
        if verb == "POST":
            return 201, self._start(body)
        if name is None:
            return 200, {
                "kind": "PodList",
                "apiVersion": "v1",
                "items": [self._seen(each) for each in self.pods],
            }
        if verb == "DELETE" and name in self._processes:
            self._processes[name].terminate()
        return 200, self._seen(name)

    def _seen(self, name):
        """Return a pod as it is now; the driver's, which was not requested, runs."""
        pod = self.pods.get(name, {"metadata": {"name": name, "uid": name}, "spec": {"containers": []}})
        ended = self._processes[name].poll() if name in self._processes else None
        status = READY if ended is None else {"phase": "Failed" if ended else "Succeeded"}
        return {"apiVersion": "v1", "kind": "Pod", **pod, "status": status}

    def _start(self, pod):
        name = pod["metadata"]["name"]
        pod["metadata"] |= {"uid": name, "namespace": "default"}
        (container,) = pod["spec"]["containers"]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        given = {
            each["name"]: each["value"]
            if "value" in each
            else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container["env"]
        }
        with (self._logs / f"{name}.log").open("w") as log:
            self._processes[name] = subprocess.Popen(
                [*container["command"], *container["args"]],
                stdout=log, stderr=log, start_new_session=True, env={**self._environment, **given},
            )  # fmt: skip
        self.pods[name] = pod
        return self._seen(name)


def _handler(server):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            code, shown = server.answer(self.command, self.path, json.loads(body or b"{}"))
            sent = json.dumps(shown).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *_):
            pass

    return Handler
