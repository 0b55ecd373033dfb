"""The service over real HTTP: what it answers, what it refuses, how it begins and how it ends."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT

FOLDER = ROOT / "projects" / "engineering-release"
SERVICE = FOLDER / "service.py"
SOLUTION = FOLDER / "solution" / "engineering.py"
WEIGHT, BIAS = 1.75, -0.5
MODEL = json.dumps({"weight": WEIGHT, "bias": BIAS}).encode()
# sha256sum of these bytes, typed in: the service must not be believed about it.
DIGEST = "ef928c30338c11097e229af9c1318a997a31590f93ea60dcc316bc68f606a4bc"

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process could answer")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.json"
    path.write_bytes(MODEL)
    return path


def begin(*words, implementation=SOLUTION):
    """The service in a process of its own."""
    command = [sys.executable, str(SERVICE), "--implementation", str(implementation), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def serving(*words, implementation=SOLUTION):
    """A service that listens: its process and its port. Ended at the end, whatever happens."""
    process = begin(*words, implementation=implementation)
    watch = threading.Timer(120, process.kill)
    watch.start()
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)["port"]
    finally:
        process.kill()
        process.communicate()
        watch.cancel()


@pytest.fixture(scope="module")
def port(model):
    """One service for all tests that only ask."""
    with serving("--model", model, "--sha256", DIGEST) as (process, found):
        yield found
        assert process.poll() is None, "a request has ended the service"


def ask(port, body=None, target="/predict", method=None, **headers):
    """One request in a connection of its own: status, headers, JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method or ("GET" if body is None else "POST"), target, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read())


def raw(port, content, *, end=False):
    """Bytes as they are, and the first line of what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(content)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(65536).split(b"\r\n")[0]


# --- answers


def test_it_predicts_and_says_with_which_model(port):
    status, headers, said = ask(port, b'{"x": [0, 2, -1.5]}')
    assert (status, headers["content-type"]) == (200, "application/json")
    assert said == {"y": [-0.5, 3.0, -3.125], "model_sha256": DIGEST, "version": None}
    assert ask(port, target="/ready")[::2] == (200, {"ready": True, "model_sha256": DIGEST, "version": None})


def test_a_record_names_digest_and_version(tmp_path, model):
    (tmp_path / "model.json").write_bytes(MODEL)
    record = tmp_path / "release.json"
    record.write_text(json.dumps({"model_sha256": DIGEST, "champion_version": 7}))
    with serving("--release", record) as (_, port):
        assert ask(port, b'{"x": [4]}')[2] == {"y": [6.5], "model_sha256": DIGEST, "version": 7}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff\xfe", 400),
        (b'{"x": [NaN]}', 400),
        (b'{"x": [Infinity]}', 400),
        (b"[" * 9000, 400),
        (b'{"x": [1' + b"0" * 5000 + b"]}", 422),
        (b'{"x": [1e999]}', 422),
        (b'{"x": [true]}', 422),
        (b'{"x": ["1"]}', 422),
        (b'{"x": []}', 422),
        (b'{"x": [1], "y": [2]}', 422),
        (b"null", 422),
        (b'{"x": [' + b"1," * 64 + b"1]}", 413),
        (b'{"x": [1' + b" " * 20_000 + b"]}", 413),
    ],
    ids=lambda value: value if isinstance(value, int) else value[:24].decode("latin-1"),
)
def test_what_is_no_request_gets_a_status_and_json(port, body, status):
    got, headers, said = ask(port, body)
    assert (got, headers["content-type"], said["status"]) == (status, "application/json", status)
    assert said["error"]
    assert ask(port, b'{"x": [2]}')[2]["y"] == [3.0]


def test_paths_and_methods_that_are_not_there(port):
    assert ask(port, target="/")[0] == 404
    assert ask(port, target="/predict")[0] == 405
    status, headers, said = ask(port, b"{}", target="/ready")
    assert (status, set(headers["allow"].split(", ")), said["status"]) == (405, {"GET", "HEAD"}, 405)


numbers = st.one_of(st.floats(), st.integers(), st.booleans(), st.text(max_size=3), st.none())
requests = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.dictionaries(st.sampled_from(["x", "y", ""]), st.lists(numbers, max_size=70) | numbers, max_size=2).map(
        lambda value: json.dumps(value).encode()
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=requests)
@example(body=b'{"x": [1e6, -1000000]}')
@example(body=b'{"x": [1000000.1]}')
@example(body=b'\xef\xbb\xbf{"x": [1]}')
def test_any_bytes_get_an_answer(port, body):
    status, _, said = ask(port, body)
    if status == 200:
        values = json.loads(body)["x"]
        assert all(type(one) in {int, float} and -1e6 <= one <= 1e6 for one in values)
        assert said["y"] == [WEIGHT * one + BIAS for one in values]
    else:
        assert status in {400, 413, 422}
        assert said["status"] == status


def test_what_is_no_http_is_refused_and_the_next_one_answered(port):
    assert raw(port, b"\x16\x03\x01 no HTTP\r\n\r\n").endswith(b"400 Bad Request")
    # A body shorter than announced, whose sender is gone.
    raw(port, b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", end=True)
    # One that never says how long it is, and goes on and on.
    chunks = b"POST /predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1000\r\n%s\r\n" % (b" " * 4096) * 5
    assert raw(port, chunks).split()[1] == b"413"
    # A header without end. What is left unread may reset the connection before the answer is seen.
    with contextlib.suppress(ConnectionError):
        assert raw(port, b"GET /ready HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000).split()[1] == b"400"
    assert ask(port, b'{"x": [2]}')[2]["y"] == [3.0]


@pytest.mark.lessons
def test_a_body_that_does_not_come_is_not_waited_for(port):
    assert raw(port, b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{") == b"HTTP/1.1 408 Request Timeout"


def test_a_fault_of_the_module_is_a_500_and_not_the_end(tmp_path, model):
    broken = tmp_path / "broken.py"
    more = "\n\ndef parse_request(body, limit):\n    return json.loads(body)['x']\n"
    broken.write_text(SOLUTION.read_text(encoding="utf-8") + more, encoding="utf-8")
    with serving("--model", model, "--sha256", DIGEST, implementation=broken) as (process, port):
        assert ask(port, b'{"y": 1}')[::2] == (500, {"error": "the service failed at this request", "status": 500})
        assert ask(port, b'{"x": [2]}')[2]["y"] == [3.0]
        process.terminate()
        # The traceback is for whoever runs the service, not for whoever asked.
        assert "KeyError" in process.communicate()[1]


# --- load


def under_load(port, seconds):
    """Fifty requests a second, in connections that stay open. Returns what went wrong."""
    begin, local = time.monotonic() + 0.2, threading.local()
    problems = []

    def one(number):
        time.sleep(max(0, begin + number / 50 - time.monotonic()))
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        values = [number / 8, -number]
        try:
            local.connection.request("POST", "/predict", json.dumps({"x": values}))
            response = local.connection.getresponse()
            got = (response.status, json.loads(response.read())["y"])
        except (OSError, http.client.HTTPException) as error:
            problems.append(f"request {number}: {error!r}")
            del local.connection
            return
        if got != (200, [WEIGHT * value + BIAS for value in values]):
            problems.append(f"request {number}: {got}")

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        done = list(pool.map(one, range(int(50 * seconds))))
    assert len(done) == 50 * seconds
    return problems


def test_fifty_requests_a_second_for_a_moment(model):
    with serving("--model", model, "--sha256", DIGEST) as (_, port):
        assert under_load(port, 1) == []


@posix
@pytest.mark.lessons
def test_fifty_requests_a_second_for_ten_seconds_and_a_clean_end(model):
    with serving("--model", model, "--sha256", DIGEST) as (process, port):
        assert under_load(port, 10) == []
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=30)
        assert (process.returncode, out, errors) == (0, "", "")


# --- the end


@posix
def test_sigterm_lets_a_request_in_flight_finish(model):
    body = b'{"x": [2, 4]}'
    with serving("--model", model, "--sha256", DIGEST) as (process, port), socket.create_connection(("127.0.0.1", port)) as flying:
        idle = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        idle.request("GET", "/ready")
        idle.getresponse().read()
        flying.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body[:5]))
        # A request that comes later and is answered: so the one before has begun.
        assert ask(port, target="/ready")[0] == 200
        process.send_signal(signal.SIGTERM)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
            except ConnectionRefusedError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("new connections are taken still")
        flying.sendall(body[5:])
        flying.settimeout(60)
        answer = b""
        while chunk := flying.recv(65536):
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b'"y":[3.0,6.5]' in answer
        out, errors = process.communicate(timeout=30)
        assert (process.returncode, out, errors) == (0, "", "")
        idle.close()


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_word(model, number):
    with serving("--model", model, "--sha256", DIGEST) as (process, _):
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
        assert (process.returncode, out, errors) == (0, "", "")


# --- the beginning


def ended(*words, implementation=SOLUTION):
    """A service that does not come up: exit code, and what it says. Nothing may be listening, so nothing is on stdout."""
    process = begin(*words, implementation=implementation)
    out, errors = process.communicate(timeout=120)
    assert out == ""
    return process.returncode, errors


@pytest.mark.parametrize("digest", [DIGEST[:-1] + "0", DIGEST[:12], DIGEST.upper(), "", "0" * 64])
def test_another_digest_is_fatal(model, digest):
    code, said = ended("--model", model, "--sha256", digest)
    assert code == 3
    assert DIGEST in said
    assert str(model) in said


def test_a_model_that_is_none_is_fatal(tmp_path):
    assert ended("--model", tmp_path / "model.json", "--sha256", DIGEST)[0] == 3
    (tmp_path / "model.json").write_bytes(MODEL + b"\n")
    record = tmp_path / "release.json"
    record.write_text(json.dumps({"model_sha256": DIGEST, "champion_version": 7}))
    assert ended("--release", record)[0] == 3


def test_wrong_arguments_are_told(tmp_path, model):
    assert ended()[0] == 2
    assert ended("--sha256", DIGEST) == (2, "service: name the model with --model, or a record with --release\n")
    assert ended("--release", tmp_path / "none.json")[0] == 2
    (tmp_path / "list.json").write_text("[]")
    code, said = ended("--release", tmp_path / "list.json")
    assert (code, "is no release record" in said) == (2, True)
    code, said = ended("--model", model, "--sha256", DIGEST, implementation=tmp_path / "none.py")
    assert (code, "--implementation" in said) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = ended("--model", model, "--sha256", DIGEST, "--port", taken.getsockname()[1])
    assert (code, "cannot listen" in said) == (2, True)


def test_an_unfinished_module_is_named(tmp_path, model):
    unfinished = tmp_path / "engineering.py"
    text = SOLUTION.read_text(encoding="utf-8")
    stub = 'def load_line(path, sha256):\n    raise NotImplementedError("read the file")\n'
    unfinished.write_text(f"{text}\n\n{stub}", encoding="utf-8")
    code, said = ended("--model", model, "--sha256", DIGEST, implementation=unfinished)
    assert code == 1
    assert re.fullmatch(r"service: load_line: NotImplementedError: read the file \(engineering\.py, line \d+\)\n", said)
    unfinished.write_text("import no_such_library\n")
    assert "no_such_library" in ended("--model", model, "--sha256", DIGEST, implementation=unfinished)[1]


def test_a_server_needs_neither_tracker_nor_jax():
    code = (
        f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import loading, service, pathlib\n"
        f"loading.load(pathlib.Path({str(SOLUTION)!r}))\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'mlflow', 'jax', 'numpy', 'sqlalchemy', 'pandas'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_dockerfile_says_what_it_is_and_copies_what_there_is():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert text.startswith("# Not built by the tests")
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert {name.rpartition("/")[2] for name in copied} == {"requirements-cpu.txt", "service.py", "loading.py", "engineering.py"}
    for name in copied:
        assert (ROOT / name).is_file() or name.endswith("starter/engineering.py"), name
    locked = (ROOT / "requirements-cpu.txt").read_text(encoding="utf-8")
    for library in re.search(r"--constraint \S+ (.*)$", text, re.MULTILINE).group(1).split():
        assert re.search(rf"^{library}==", locked, re.MULTILINE), library
