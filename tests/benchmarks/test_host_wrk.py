from pathlib import Path

from tests.benchmarks.programs import evaluated
from tests.conftest import RequireProgram

PRESS = """
import asyncio, json, socket, sys
from pathlib import Path
from host_wrk import Address, NoAnswers, pressed

with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
try:
    asyncio.run(pressed(Address(f"http://127.0.0.1:{port}/", "{}", {}), Path(sys.argv[1]), connections=1, seconds=1))
except NoAnswers as error:
    print(json.dumps(str(error)))
"""


def test_a_host_that_is_gone_is_told_from_numbers(require_program: RequireProgram, tmp_path: Path) -> None:
    require_program("wrk")
    assert "unable to connect" in evaluated(PRESS, tmp_path)
