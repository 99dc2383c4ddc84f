"""Makes ``llm_logs.json``, what ``llm logs --json`` prints: ``python make_llm.py FOLDER``; the model is made up."""

import subprocess
import sys
from pathlib import Path

PLUGIN = """
import llm

class Parrot(llm.Model):
    model_id = "parrot"

    def execute(self, prompt, stream, response, conversation):
        yield "You said: " + prompt.prompt

@llm.hookimpl
def register_models(register):
    register(Parrot())
"""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    home, plugins = folder / "home", folder / "plugins"
    for path in (home, plugins):
        path.mkdir(exist_ok=True)
    (plugins / "parrot.py").write_text(PLUGIN, encoding="utf-8")
    environment = {"LLM_USER_PATH": str(home), "PYTHONPATH": str(plugins), "PATH": ""}
    start = "import sys, llm.plugins, parrot, llm.cli; llm.plugins.pm.register(parrot); llm.cli.cli()"

    def run(*arguments):
        command = [sys.executable, "-c", start, *arguments]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return done.stdout

    run("prompt", "-m", "parrot", "Name a prime above 10.", "--system", "Be brief.")
    run("prompt", "-m", "parrot", "What is 6 times 7?")
    run("prompt", "-m", "parrot", "And 6 times 8?", "-c")
    (folder / "llm_logs.json").write_bytes(run("logs", "--json", "-n", "0"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
