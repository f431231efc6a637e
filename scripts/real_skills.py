# ruff: noqa: E501 - commands are written as a user types them
"""Run skills that other people wrote, end to end, from checkouts of their repositories.

    python scripts/real_skills.py CHECKOUT... [--only NAME] [--markdown FILE] [--json]

Each case is one `openskills run`: a command that does the skill's job, the packages it needs, and a check of what came out. A case whose
skill is in none of the checkouts is left out. The repositories: anthropics/skills, langchain-ai/deepagents, trpc-group/trpc-agent-go,
trpc-group/trpc-agent-python. Packages are downloaded from the index that pip, uv and npm are configured for.
Exit status: 0 if every case did its job or said what is missing, as expected; 1 otherwise.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Check = Callable[[Path, dict[str, Any]], bool]


@dataclass(frozen=True)
class Case:
    """One skill: the end of its folder's path, what is run, and the check of the copied outputs and the result.

    `options` are those of `openskills run`; `needs` is part of the hint that counts as an answer where a program is missing.
    """

    skill: str
    job: str
    command: str
    check: Check
    options: tuple[str, ...] = ()
    needs: str = ""


def starts_with(name: str, magic: bytes) -> Check:
    """Whether an output file begins with these bytes."""
    return lambda out, _: (out / "out" / name).read_bytes().startswith(magic)


def said(*texts: str) -> Check:
    """Whether the command printed all of these."""
    return lambda _, result: all(text in result["stdout"] for text in texts)


def packages(*names: str) -> tuple[str, ...]:
    """The options that add packages."""
    return tuple(word for name in names for word in ("--with", name))


PDF = r"""
python3 - <<'EOF'
from reportlab.pdfgen.canvas import Canvas
page = Canvas("form.pdf")
page.drawString(72, 720, "Name:")
page.acroForm.textfield(name="name", x=120, y=710, width=200, height=20)
page.save()
EOF
python3 scripts/check_fillable_fields.py form.pdf
python3 scripts/extract_form_field_info.py form.pdf fields.json
python3 - <<'EOF'
import json
fields = json.load(open("fields.json"))
json.dump([{"field_id": one["field_id"], "description": "", "page": one["page"], "value": "Ada"} for one in fields], open("values.json", "w"))
EOF
python3 scripts/fill_fillable_fields.py form.pdf values.json out/filled.pdf
python3 -c "import pypdf; print('value:', pypdf.PdfReader('out/filled.pdf').get_fields()['name']['/V'])"
"""
DOCX = r"""
node -e "const d=require('docx'),f=require('fs');const x=new d.Document({sections:[{children:[new d.Paragraph('Hello')]}]});
d.Packer.toBuffer(x).then(b=>f.writeFileSync('in.docx',b))"
python3 scripts/office/unpack.py in.docx unpacked/
python3 scripts/comment.py unpacked/ 0 "Please check"
python3 - <<'EOF'
import re
path = "unpacked/word/document.xml"
text = open(path).read()
text = re.sub(r"(<w:r>.*?</w:r>)", r'<w:commentRangeStart w:id="0"/>\1<w:commentRangeEnd w:id="0"/><w:r><w:commentReference w:id="0"/></w:r>', text, count=1, flags=re.S)
open(path, "w").write(text)
EOF
python3 scripts/office/pack.py unpacked/ out/commented.docx --original in.docx
python3 -c "import zipfile; print(zipfile.ZipFile('out/commented.docx').read('word/comments.xml').decode().count('Please check'))"
"""
PPTX = r"""
node -e "const P=require('pptxgenjs');const p=new P();p.addSlide().addText('One',{x:1,y:1});p.writeFile({fileName:'in.pptx'})"
python3 scripts/office/unpack.py in.pptx unpacked/
python3 scripts/add_slide.py unpacked/ slide1.xml
python3 scripts/clean.py unpacked/
python3 scripts/office/pack.py unpacked/ out/deck.pptx --original in.pptx
"""
XLSX = r"""
python3 - <<'EOF'
import openpyxl
book = openpyxl.Workbook()
for row in ([1], [2], ["=SUM(A1:A2)"]):
    book.active.append(row)
book.save("out/sum.xlsx")
EOF
python3 scripts/recalc.py out/sum.xlsx 60
python3 -c "import openpyxl; print('sum:', openpyxl.load_workbook('out/sum.xlsx', data_only=True).active['A3'].value)"
"""
GIF = r"""
python3 - <<'EOF'
from core.gif_builder import GIFBuilder
from core.frame_composer import create_blank_frame, draw_circle
builder = GIFBuilder(width=128, height=128, fps=10)
for step in range(8):
    frame = create_blank_frame(128, 128, (255, 255, 255))
    draw_circle(frame, (16 + step * 12, 64), 12, fill_color=(200, 30, 30))
    builder.add_frame(frame)
builder.save("out/ball.gif", num_colors=32, optimize_for_emoji=True)
EOF
"""
WEB = r"""
mkdir -p site; echo '<h1 id=t>Tested</h1>' > site/index.html
cat > check.py <<'EOF'
from playwright.sync_api import sync_playwright
import shutil
with sync_playwright() as p:
    program = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    browser = p.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
    page = browser.new_page()
    page.goto("http://127.0.0.1:8123/")
    print(page.inner_text("#t"))
    page.screenshot(path="out/page.png")
    browser.close()
EOF
python3 scripts/with_server.py --server "python3 -m http.server 8123 --bind 127.0.0.1 --directory site" --port 8123 -- python3 check.py
"""
MCP = r"""
cat > server.py <<'EOF'
from mcp.server.fastmcp import FastMCP
app = FastMCP("demo")
@app.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
app.run()
EOF
cat > client.py <<'EOF'
import asyncio, sys
sys.path.insert(0, "scripts")
from connections import create_connection
async def main():
    async with create_connection(transport="stdio", command="python3", args=["server.py"]) as connection:
        print([tool["name"] for tool in await connection.list_tools()], await connection.call_tool("add", {"a": 2, "b": 3}))
asyncio.run(main())
EOF
python3 client.py
"""
CREATOR = r"""
mkdir -p work/greeter
printf -- '---\nname: greeter\ndescription: Greets people. Use when somebody says hello.\n---\n# Greeter\nSay hello.\n' > work/greeter/SKILL.md
python3 scripts/quick_validate.py work/greeter
python3 -m scripts.package_skill work/greeter out
"""
ARTIFACT = "bash scripts/init-artifact.sh demo && test -f demo/src/App.tsx && tar -cf out/demo.tar --exclude node_modules demo && echo made"


def network(*hosts: str) -> tuple[str, ...]:
    """The options that allow hosts; a host at a private address (a mirror) is allowed at that address."""
    found: list[str] = []
    for host in hosts:
        found += ["--network", host]
        try:
            found += ["--network", f"{host}={socket.gethostbyname(host)}"]
        except OSError:
            continue
    return tuple(found)


ANTHROPIC = "skills/skills"
CASES = (
    Case(f"{ANTHROPIC}/pdf", "fill a PDF form", PDF, said("value: Ada"), packages("pypdf", "reportlab")),
    Case(
        f"{ANTHROPIC}/docx",
        "comment a Word document",
        DOCX,
        starts_with("commented.docx", b"PK"),
        packages("defusedxml", "lxml", "npm:docx"),
    ),
    Case(
        f"{ANTHROPIC}/pptx",
        "add a slide to a presentation",
        PPTX,
        starts_with("deck.pptx", b"PK"),
        packages("defusedxml", "lxml", "pillow", "npm:pptxgenjs"),
    ),
    Case(
        f"{ANTHROPIC}/xlsx",
        "recalculate a workbook",
        XLSX,
        said("sum: 3"),
        (*packages("openpyxl", "lxml", "defusedxml"), "--timeout", "180"),
        needs="soffice",
    ),
    Case(
        f"{ANTHROPIC}/slack-gif-creator",
        "draw an animated GIF",
        GIF,
        starts_with("ball.gif", b"GIF8"),
        ("--install", "always"),
    ),
    Case(
        f"{ANTHROPIC}/webapp-testing",
        "test a page in a browser",
        WEB,
        starts_with("page.png", b"\x89PNG"),
        packages("playwright"),
        needs="chromium",
    ),
    Case(
        f"{ANTHROPIC}/mcp-builder",
        "call a tool of an MCP server",
        MCP,
        said("'add'", "5"),
        ("--install", "always", *packages("mcp<2")),
    ),
    Case(
        f"{ANTHROPIC}/skill-creator",
        "validate and package a skill",
        CREATOR,
        starts_with("greeter.skill", b"PK"),
        packages("pyyaml"),
    ),
    Case(
        f"{ANTHROPIC}/web-artifacts-builder",
        "create a React project",
        ARTIFACT,
        said("made"),
        (
            *packages("npm:pnpm@9"),
            *network("registry.npmjs.org"),
            "--env",
            "CI=1",
            "--env",
            "XDG_DATA_HOME=/workspace/work/data",
            "--timeout",
            "600",
        ),
    ),
    Case(
        f"{ANTHROPIC}/algorithmic-art",
        "check the generator template",
        "node --check templates/generator_template.js && cp templates/viewer.html out/art.html && echo ok",
        said("ok"),
    ),
    Case(
        f"{ANTHROPIC}/theme-factory",
        "read a theme",
        "cat themes/ocean-depths.md | head -3; cp theme-showcase.pdf out/",
        starts_with("theme-showcase.pdf", b"%PDF"),
    ),
    Case(
        f"{ANTHROPIC}/canvas-design",
        "use a bundled font",
        "python3 -c \"from PIL import Image, ImageDraw, ImageFont; import glob; i=Image.new('RGB',(200,80)); ImageDraw.Draw(i).text((5,5),'Art',font=ImageFont.truetype(sorted(glob.glob('canvas-fonts/*.ttf'))[0],40)); i.save('out/art.png')\"",
        starts_with("art.png", b"\x89PNG"),
        packages("pillow"),
    ),
    Case(
        "libs/code/examples/skills/skill-creator",
        "validate a skill",
        "mkdir -p work/greeter && printf -- '---\\nname: greeter\\ndescription: Greets.\\n---\\nHi\\n' > work/greeter/SKILL.md && python3 scripts/quick_validate.py work/greeter",
        said("alid"),
        packages("pyyaml"),
    ),
    Case(
        "libs/code/examples/skills/arxiv-search",
        "show the search options",
        "python3 arxiv_search.py --help",
        said("usage"),
        packages("arxiv"),
    ),
    Case(
        "examples/skillrun/skills/user_file_ops",
        "summarise a text file",
        "echo 'one two three' > work/a.txt && bash scripts/summarize_file.sh work/a.txt out/summary.txt && cat out/summary.txt",
        said("one two three"),
    ),
    Case(
        "examples/skillrun/skills/python_math",
        "compute Fibonacci numbers",
        "python3 scripts/fib.py 10 > out/fib.txt && cat out/fib.txt",
        said("34"),
    ),
    Case(
        "examples/skillrun/skills/file_tools",
        "write and archive a file",
        "bash scripts/write_sample.sh out/sample.txt && cat out/sample.txt && tar -czf out/sample.tgz out/sample.txt && echo archived",
        said("archived"),
    ),
    Case("examples/skills/skills/python-math", "compute Fibonacci numbers", "python3 scripts/fib.py 10", said("34")),
)


def find_folder(case: Case, checkouts: Sequence[Path]) -> Path | None:
    """The folder of a case's skill in one of the checkouts."""
    for checkout in checkouts:
        for folder in (checkout / case.skill, checkout.parent / case.skill):
            if (folder / "SKILL.md").is_file():
                return folder
    return None


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Run a case with the command line as a user would; the result says what came of it."""
    with tempfile.TemporaryDirectory() as outputs:
        line = [sys.executable, "-m", "openskills", "run", str(folder), "--json", "--output", "out/**", "--to", outputs]
        begun = time.monotonic()
        done = subprocess.run(  # noqa: PLW1510 - a failed run is a result
            [*line, *case.options, "--", f"set -e\n{case.command}"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        result: dict[str, Any] = {"stdout": "", "stderr": "", "warnings": ()}
        try:
            result |= json.loads(done.stdout)
        except ValueError:
            result["stderr"] = done.stderr
        try:
            did = done.returncode == 0 and case.check(Path(outputs), result)
        except OSError:
            did = False
    told = [line for line in (*result["warnings"], *done.stderr.splitlines()) if case.needs and case.needs in line]
    state = "done" if did else "says what is missing" if told else "failed"
    why = (
        ""
        if did
        else told[0]
        if told
        else f"{result['stdout'][-800:]}\n{result['stderr'][-800:]}\n{done.stderr[-800:]}"
    )
    used = [word for option, word in zip(case.options, case.options[1:], strict=False) if option == "--with"]
    if "--install" in case.options:
        used.append("declared ones")
    first = next(line for line in case.command.splitlines() if line.strip())
    return {
        "skill": case.skill.replace(ANTHROPIC, "skills"),
        "job": case.job,
        "command": first[:100],
        "packages": used,
        "state": state,
        "why": why,
        "seconds": round(time.monotonic() - begun, 1),
    }


def to_markdown(results: Sequence[dict[str, Any]]) -> str:
    """The results as a table."""
    rows = [
        f"| `{one['skill']}` | {one['job']} | {', '.join(f'`{name}`' for name in one['packages']) or 'none'} | "
        f"{one['state']}{': ' + one['why'] if one['state'] == 'says what is missing' else ''} |"
        for one in results
    ]
    return "\n".join(("| skill | job | packages | result |", "|---|---|---|---|", *rows)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", help="only skills whose path contains this")
    parser.add_argument("--markdown", type=Path, help="also write a table to this file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for case in CASES:
        folder = find_folder(case, arguments.checkouts)
        if folder is None or (arguments.only and arguments.only not in case.skill):
            continue
        results.append(run_case(case, folder))
        if not arguments.json:
            one = results[-1]
            print(f"{one['state']:<22} {one['seconds']:>6} s  {one['skill']}: {one['job']}")
            if one["why"]:
                print("    " + one["why"].strip().replace("\n", "\n    "))
    if arguments.json:
        print(json.dumps(results, indent=2))
    if arguments.markdown:
        arguments.markdown.write_text(to_markdown(results))
    return 1 if not results or any(one["state"] == "failed" for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
