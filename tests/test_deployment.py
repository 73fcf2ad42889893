"""The Containerfile and the Kubernetes manifests: what one names, the other has."""

import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from eddyline.api.pipeline import load_pipeline
from eddyline.cli import app
from eddyline.serve.security import OPEN_PATHS

ROOT = Path(__file__).parent.parent
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
_, BUILD, IMAGE = CONTAINERFILE.split("\nFROM ")
ENTRYPOINT = yaml.safe_load(re.search(r"^ENTRYPOINT (.*)$", IMAGE, re.MULTILINE)[1])
SETTINGS = dict(word.split("=", 1) for word in re.search(r"^ENV (.*)$", IMAGE, re.MULTILINE)[1].split())
PORT = int(SETTINGS["EDDYLINE_PORT"])
MANIFESTS = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))
every_manifest = pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)


def objects(manifest, *kinds):
    return [each for each in yaml.safe_load_all(manifest.read_text()) if not kinds or each["kind"] in kinds]


def workloads(manifest):
    return objects(manifest, "Deployment", "StatefulSet")


def pods(manifest):
    return [each["spec"]["template"]["spec"] for each in workloads(manifest)]


def containers(manifest):
    return [each for pod in pods(manifest) for each in pod["containers"]]


def command(container):
    """Return the words that a container starts with: the manifest's, or those of the image."""
    return [*container.get("command", ENTRYPOINT), *container.get("args", [])]


def copied(text):
    """Return (source in the repository, path in the image) of every COPY from the build's folder."""
    lines = [line.split() for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)]
    return [(source, target) for *sources, target in lines for source in sources]


def settings_of(manifest):
    """Return the files of all ConfigMaps by their names."""
    return {name: text for each in objects(manifest, "ConfigMap") for name, text in each["data"].items()}


def test_what_is_copied_is_there_and_let_into_the_build():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [source for source, _ in copied(BUILD) + copied(IMAGE)]
    assert sorted(sources) == sorted(allowed)
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_image_listens_with_a_token_under_a_user_of_its_own():
    assert f"\nEXPOSE {PORT}\n" in IMAGE
    assert f":{PORT}/healthz" in IMAGE
    assert "/healthz" in OPEN_PATHS
    assert SETTINGS["EDDYLINE_HOST"] == "0.0.0.0"
    assert SETTINGS["EDDYLINE_TOKEN_FILE"]
    assert "\nUSER 10001:10001\n" in IMAGE
    script = (ROOT / "scripts" / "run-and-serve").read_text()
    for name in SETTINGS:
        if name.startswith("EDDYLINE_"):
            assert name in script


def test_the_image_has_the_version_of_python_that_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11", "Debian bookworm has 3.11"
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", BUILD, re.MULTILINE)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


@every_manifest
def test_every_container_is_of_one_image_and_runs_as_its_user(manifest):
    images = {container["image"] for container in containers(manifest)}
    named = re.findall(r"container\.image (\S+)", settings_of(manifest).get("spark-defaults.conf", ""))
    assert len(images | set(named)) == 1
    for pod in pods(manifest):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001


@every_manifest
def test_what_a_container_starts_is_in_the_image(manifest):
    in_image = {
        *re.search(r"no-install-recommends (.*?) &&", IMAGE)[1].split(),
        *(Path(source).name for source, target in copied(IMAGE) if target == "/opt/eddyline/bin/"),
        *(target for _, target in copied(IMAGE)),
        "eddyline",
        "python",
    }
    commands = [command(container) for container in containers(manifest)]
    if template := settings_of(manifest).get("executor.yaml"):
        commands += [each["command"] for each in yaml.safe_load(template)["spec"]["containers"]]
    for words in commands:
        assert words[:2] == ["tini", "--"]
        assert words[2] in in_image
        if words[2] == "python":
            assert words[3] in in_image


@every_manifest
def test_servers_answer_where_probes_and_services_ask(manifest):
    serving = [each for each in containers(manifest) if {"run-and-serve", "serve"} & set(command(each))]
    assert serving
    for container in serving:
        assert container["ports"] == [{"name": "http", "containerPort": PORT}]
        for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            assert container[probe]["httpGet"] == {"path": path, "port": "http"}
            assert path in OPEN_PATHS
        mounted = [each["mountPath"] for each in container["volumeMounts"]]
        assert SETTINGS["EDDYLINE_TOKEN_FILE"] in mounted
        assert any(SETTINGS["EDDYLINE_HISTORY"].startswith(f"{path}/") for path in mounted), mounted
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in workloads(manifest)]
    for service in objects(manifest, "Service"):
        assert service["spec"]["selector"] in labels


@every_manifest
def test_options_are_those_of_the_commands(manifest):
    job = (ROOT / "examples" / "submit" / "job.py").read_text()
    serve = typer.main.get_command(app).commands["serve"]
    for container in containers(manifest):
        words = command(container)
        if "serve" in words:
            given = serve.make_context("serve", words[words.index("serve") + 1 :]).params
            assert (given["host"], given["port"]) == ("0.0.0.0", PORT)
            assert str(given["token_file"]) == SETTINGS["EDDYLINE_TOKEN_FILE"]
            assert str(given["history"]) == SETTINGS["EDDYLINE_HISTORY"]
        for option in (word for word in container.get("args", []) if "job.py" in " ".join(words)):
            assert not option.startswith("--") or f'"{option}"' in job


@every_manifest
def test_pipelines_plan_and_lie_where_they_are_mounted(manifest, tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(settings_of(manifest)["pipeline.toml"])
    pipeline = load_pipeline(path)
    assert set(pipeline.queries) <= set(pipeline.plan().layout.query_names)
    (running,) = (each for each in containers(manifest) if "/etc/eddyline/pipeline.toml" in command(each))
    mounted = tuple(f"{each['mountPath']}/" for each in running["volumeMounts"])
    used = [pipeline.workload.store, *(each.path for each in pipeline.streams.values())]
    used += [pipeline.run.checkpoint] if pipeline.run.checkpoint else []
    assert [each for each in used if "://" not in each and not each.startswith(mounted)] == []
    served = [word for each in containers(manifest) for word in command(each) if "://" in word]
    assert served in ([], [pipeline.workload.store])


@every_manifest
def test_a_store_has_one_writer(manifest):
    for each in workloads(manifest):
        words = [
            word
            for container in each["spec"]["template"]["spec"]["containers"]
            for word in command(container)
        ]
        if "serve" not in words:
            assert each["spec"]["replicas"] == 1
            assert each["kind"] == "StatefulSet" or each["spec"]["strategy"] == {"type": "Recreate"}
            assert each["kind"] == "StatefulSet" or "--break-lock" not in words
